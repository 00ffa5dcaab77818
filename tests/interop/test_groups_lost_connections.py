"""Members of real clients whose connections end: a process that is killed makes room for the others long before its
session ends; one that is only cut off, alone or with all others, loses nothing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.reasons import Trigger
from proving.members.events import Place
from proving.members.fleet import Members, places_of
from proving.members.view import CONSUMER
from tests.interop.drivers import Confluent
from tests.interop.groups import Fleet, GroupView, view_group

PARTITIONS = 6
SESSION_MS = 45_000
SHOWN_S = 3.5  # a member's heartbeat interval is known, usually 3 s
OVERDUE_S = 6.0  # after a heartbeat of the consumer protocol the next one is half a second overdue
JUST_NOW_MS = 300
SOON_S = 20.0  # 3.5 s at most for the broker, and the client's own time on a busy machine; a session is 45 s
NAMES = ("one", "two", "three")
CLIENTS = [
    ("equipoise", "range"),
    ("equipoise", "cooperative-sticky"),
    ("confluent-kafka", "range"),
    ("confluent-kafka", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("aiokafka", "range"),
]
CONSUMERS = [("equipoise", CONSUMER), ("confluent-kafka", CONSUMER)]


class Watched(NamedTuple):
    """A group of three members of one client, and what was known of it when all was settled."""

    client: str
    members: Members
    places: set[Place]
    before: GroupView
    since: int

    def check_undisturbed(self, broker: Broker) -> None:
        """It reads, and nothing has happened to it since."""
        self.members.wait_read(self.members.fleet.produce(self.places, 3))
        assert view_group(broker, self.members.group) == self.before, self.client
        heard = [self.members.rebalances(name, self.since) for name in self.members.names]
        assert heard == [[], [], []], self.client


@contextmanager
def watched(
    broker: Broker, fleet: Fleet, confluent: Confluent, clients: Iterable[tuple[str, str]], *, last_alone: bool = False
) -> Iterator[list[Watched]]:
    """A group of each client on a topic of its own, side by side: all of them sit out the same waits. `last_alone`: the
    last member is in a process of its own."""
    with ExitStack() as stack:
        groups: list[tuple[str, Members, set[Place]]] = []
        for client, assignor in clients:
            topic = f"topic-{uuid.uuid4()}"
            confluent.create_topic(topic, PARTITIONS)
            members = stack.enter_context(Members.of(fleet, topic, assignor=assignor, session_ms=SESSION_MS))
            for name in NAMES:
                members.join(name, client, alone=last_alone and name == NAMES[-1])
            groups.append((client, members, places_of(topic, PARTITIONS)))
        for _, members, places in groups:
            members.wait_settled(places)
            wait_shown(members, broker)
        yield [Watched(*one, view_group(broker, one[1].group), one[1].now) for one in groups]


def wait_shown(members: Members, broker: Broker) -> None:
    """The broker has seen two heartbeats of each member, an interval apart."""

    def look(server: Server) -> bool:
        core = server.group_coordinator.shard_of(members.group).core
        if members.group in core.consumer_groups:
            return True  # the broker has told them theirs
        group = core.groups[members.group]
        return all(one.longest_silence_ms >= 50 for one in group.members.values())

    members.wait_until("the heartbeat intervals are known", lambda: broker.call(look))


def cut(broker: Broker, group: str, count: int) -> int:
    """Ends so many connections that carry members of the group, as a network does: neither side has said so."""

    def end(server: Server) -> int:
        carrying = [one for one in server.connections if any(key[0] == group for key in one.carried.members)]
        for one in carrying[:count]:
            one._transport.abort()
        return len(carrying[:count])

    return broker.call(end)


def test_killed_processes_make_room(broker: Broker, fleet: Fleet, confluent: Confluent) -> None:
    with watched(broker, fleet, confluent, [*CLIENTS, *CONSUMERS], last_alone=True) as groups:
        began = time.monotonic()
        for group in groups:
            group.members.kill(NAMES[-1])
        for group in groups:
            group.members.wait_settled(group.places)
            is_consumer = group.members.base.assignor == CONSUMER  # their interval is 5 s
            assert time.monotonic() - began < (SOON_S + 2 if is_consumer else SOON_S), group.client
            if not is_consumer:
                causes = [entry.cause.trigger for entry in broker.groups[group.members.group].rebalances]
                assert causes.count(Trigger.CONNECTION_LOST) == 1, group.client


def test_members_that_are_cut_off_come_back_and_nobody_notices(
    broker: Broker, fleet: Fleet, confluent: Confluent
) -> None:
    """First one of each group, three times; then all at once, as by a proxy that drops everybody."""
    with watched(broker, fleet, confluent, CLIENTS) as groups:
        for _ in range(3):
            assert [cut(broker, group.members.group, 1) for group in groups] == [1] * len(groups)
            time.sleep(SHOWN_S)  # what must not happen would happen within this time
        for group in groups:
            group.check_undisturbed(broker)

        assert min(cut(broker, group.members.group, 100) for group in groups) >= 3
        time.sleep(2 * SHOWN_S)  # what must not happen would happen within this time
        for group in groups:
            group.check_undisturbed(broker)


def cut_after_heartbeat(broker: Broker, group: str) -> bool:
    """Ends the connection of a member whose heartbeat has just come and is held; False: there is none."""

    def end(server: Server) -> bool:
        now, core = server.clock.now(), server.group_coordinator.shard_of(group).core
        for one in server.connections:
            found = (core.presence_of(*key) for key in one.carried.members if key[0] == group)
            if one.held_heartbeat.held and any(each and now - each.last_seen < JUST_NOW_MS for each in found):
                one._transport.abort()
                return True
        return False

    return broker.call(end)


def test_consumers_that_are_cut_off_are_waited_for_until_their_heartbeats_are_due(
    broker: Broker, fleet: Fleet, confluent: Confluent
) -> None:
    """Rule 7.9.3: librdkafka connects again at once, and sends its next heartbeat 5 s after the last one."""
    with watched(broker, fleet, confluent, CONSUMERS) as groups:
        for group in groups:
            name = group.members.group
            group.members.wait_until("a heartbeat is held", lambda name=name: cut_after_heartbeat(broker, name))  # type: ignore[misc]
        time.sleep(OVERDUE_S)  # what must not happen would happen within this time
        for group in groups:
            group.check_undisturbed(broker)
