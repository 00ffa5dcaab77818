"""Where a scenario plays: one client, one broker, a group and a topic of its own; and what is noted of the outcome."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from equipoise.client.admin import Admin
from proving.members.events import Place, Row
from proving.members.fleet import Fleet, Members, places_of
from proving.members.view import CONSUMER, Generation, committed, generations, view_group

PARTITIONS = 6
RECORDS = 3  # written to each partition at a time
# Of all brokers: sessions are as short as a scenario wants, and nobody waits long for others to come.
SETTINGS: Mapping[str, object] = {
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 100,
    # What clients with group.protocol=consumer cannot set.
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
}


@dataclass(frozen=True)
class Client:
    """`lacks`: by scenario, why this client cannot play it. `wastes_rounds`: how many generations it takes to settle is
    a matter of chance."""

    name: str
    assignor: str = "range"
    wastes_rounds: bool = False
    program: str = ""  # the client that plays, if its name says more
    classic: str = "cooperative-sticky"  # its assignor before it speaks the consumer protocol
    lacks: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Stage:
    """What is noted must be the same on every broker that is right: no ids, no times, nothing that chance decides."""

    playing: Client
    fleet: Fleet
    members: Members
    topic: str
    restart_broker: Callable[[], None]
    notes: dict[str, Any] = field(default_factory=dict)
    _generation: int = -1

    @property
    def client(self) -> str:
        return self.playing.program or self.playing.name

    @property
    def places(self) -> set[Place]:
        return places_of(self.topic, PARTITIONS)

    def create_topic(self, name: str, partitions: int = PARTITIONS) -> set[Place]:
        with Admin(self.fleet.bootstrap_servers) as admin:
            admin.create_topic(name, partitions)
        return places_of(name, partitions)

    def add_partitions(self, total: int) -> set[Place]:
        with Admin(self.fleet.bootstrap_servers) as admin:
            admin.add_partitions(self.topic, total)
        return places_of(self.topic, total)

    # -- what is done again and again

    def join(self, *names: str, **changes: Any) -> None:
        """They come one after the other, each when all before have their share."""
        for name in names:
            self.members.join(name, self.client, **changes)
            self.settle()

    def settle(self) -> None:
        self.members.wait_settled(self.places)

    def feed(self, places: set[Place] | None = None) -> set[Row]:
        """Records for all, read and committed."""
        rows = self.fleet.produce(places or self.places, RECORDS)
        self.members.wait_read(rows)
        self.wait_committed(rows)
        return rows

    def wait_committed(self, rows: set[Row]) -> None:
        """Members say so; then the broker is asked, which costs more."""
        ends: dict[Place, int] = {}
        for topic, partition, offset in sorted(rows):
            ends[topic, partition] = offset + 1
        for where in (self.members.ledger.committed, self.committed):
            self.members.wait_until("all is committed", lambda: ends.items() <= where().items())  # noqa: B023

    # -- what there is to see

    def committed(self) -> dict[Place, int]:
        return committed(self.fleet.bootstrap_servers, self.members.group)

    def protocol(self) -> str:
        return view_group(self.fleet.bootstrap_servers, self.members.group).protocol

    def member_ids(self) -> set[str]:
        return set(view_group(self.fleet.bootstrap_servers, self.members.group).members)

    def count_rounds(self) -> None:
        """From now on."""
        self._generation = max((one.generation_id for one in self._generations()[-1:]), default=-1)

    def rounds(self) -> list[tuple[int, int]]:
        """The generations since, counted from then, and how many members each had."""
        found = self._generations()
        return [(g - self._generation, members) for g, members in found if g > self._generation]

    def _generations(self) -> list[Generation]:
        return generations(self.fleet.bootstrap_servers, self.members.group)

    # -- notes

    def note(self, what: str, value: Any) -> None:
        self.notes[what] = value

    def note_end(self, *, rounds: bool = True) -> None:
        """Who has how much, what is committed, what was read twice without need; and the generations, unless chance
        decides how many there are."""
        owned = [sorted(map(self._plain, self.members.owned(name))) for name in self.members.names]
        is_sticky = self.protocol().endswith(("sticky", CONSUMER))  # then it depends on who was there first
        self.note("shares", sorted(map(len, owned)) if is_sticky else sorted(owned))
        self.note("committed", sorted((self._plain(place), offset) for place, offset in self.committed().items()))
        self.note("read again", sorted(self._plain(row) for row in self.members.read_again()))
        if rounds and not self.playing.wastes_rounds:
            self.note("rounds", self.rounds())

    def _plain(self, named: tuple[Any, ...]) -> tuple[Any, ...]:
        """Without what is chance in the topic's name."""
        topic, *rest = named
        return (topic.replace(self.topic, "topic"), *rest)


def new_topic() -> str:
    return f"topic-{uuid.uuid4()}"
