"""Members of groups as a scenario sees them: they join, close, are killed; then one waits until all is settled."""

from __future__ import annotations

import dataclasses
import threading
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message, Producer

from proving.members.confluent_kafka_member import row_of
from proving.members.events import PATIENCE_S, Event, Ledger, MemberError, Place, Row
from proving.members.foreign import franz_go_host, java_host, kafkajs_host, sarama_host
from proving.members.hosts import Host, JsonHost, Membership, python_host
from proving.members.kcat import KcatHost
from proving.members.view import view_group

HOSTS: dict[str, Callable[[str, str, Path], Host]] = {
    "equipoise": python_host,
    "java": java_host,
    "confluent-kafka": python_host,
    "kafka-python": python_host,
    "aiokafka": python_host,
    "kafkajs": kafkajs_host,
    "franz-go": franz_go_host,
    "kcat": KcatHost,
    "sarama": sarama_host,
}
# When it commits by itself, it may send its JoinGroup first, and the commit is one of the generation before.
LIBRDKAFKA = ("confluent-kafka", "kcat")


def places_of(topic: str, partitions: int) -> set[Place]:
    return {(topic, partition) for partition in range(partitions)}


class Fleet:
    """Hosts by client, which serve several groups, for starting them takes time; and the records for them."""

    def __init__(self, bootstrap_servers: str, log: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._log = log
        self._hosts: dict[str, Host] = {}
        self._starting = threading.Lock()

    def host(self, client: str) -> Host:
        with self._starting:
            if client not in self._hosts:
                self._hosts[client] = self.new_host(client)
            return self._hosts[client]

    def new_host(self, client: str) -> Host:
        """Unavailable: the client cannot be had on this machine."""
        return HOSTS[client](client, self.bootstrap_servers, self._log)

    def produce(self, places: Iterable[Place], count: int) -> set[Row]:
        """`count` records to each partition; where they went. A new producer each time: no old metadata misleads it."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5, "log_level": 3})
        written: set[Row] = set()
        failures: list[object] = []

        def delivered(error: object, message: Message) -> None:
            if error is not None:
                failures.append(error)
            else:
                written.add(row_of(message))

        for topic, partition in sorted(places):
            for number in range(count):
                producer.produce(topic, str(number).encode(), partition=partition, on_delivery=delivered)
        if left := producer.flush(PATIENCE_S) or failures:
            raise MemberError(f"not all records were written to {self.bootstrap_servers}: {left}")
        return written

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._hosts.values():
            host.end()


class Members:
    """The members of one group, by short names; no name is used twice.

    When all is over, what they have told is checked: no errors, and never two owners.
    """

    def __init__(self, fleet: Fleet, base: Membership) -> None:
        self.fleet = fleet
        self.base = base
        self.ledger = Ledger()
        self._hosts: dict[str, Host] = {}
        self._alone: set[str] = set()
        self._prepared: dict[str, Host] = {}
        self._commits_late: set[str] = set()

    @classmethod
    def of(cls, fleet: Fleet, *topics: str, **settings: Any) -> Self:
        """A new group, or the one named `group`."""
        return cls(fleet, Membership(settings.pop("group", f"group-{uuid.uuid4()}"), topics, **settings))

    @property
    def group(self) -> str:
        return self.base.group

    def view(self) -> tuple[str, int]:
        """The group's state, and how many members it has."""
        group = view_group(self.fleet.bootstrap_servers, self.group)
        return group.state, len(group.members)

    # -- coming and going

    def prepare(self, name: str, client: str) -> None:
        """Starts the process of a member that will be alone, and returns when it answers: on a busy machine a JVM takes
        longer than a session, and `join` must not."""
        host = self._prepared[name] = self.fleet.new_host(client)
        host.produce(self._full(f"{name}, prepared"), self.base, [], 0, self.ledger)
        self.wait_until(f"{name} can join", lambda: bool(self.told(f"{name}, prepared", "closed")))

    def join(self, name: str, client: str, *, alone: bool = False, may_fail: bool = False, **changes: Any) -> None:
        """`alone`: in a process of its own, which can be killed. `may_fail`: it may end with an error."""
        if may_fail:
            self.ledger.may_fail.add(self._full(name))
        host = self._hosts[name] = self._host_for(name, client, alone=alone)
        if alone:
            self._alone.add(name)
        membership = dataclasses.replace(self.base, **changes)
        if client in LIBRDKAFKA and membership.commit == "auto":
            self._commits_late.add(self._full(name))
        host.join(self._full(name), membership, self.ledger)

    def _host_for(self, name: str, client: str, *, alone: bool) -> Host:
        if name in self._prepared:
            return self._prepared.pop(name)
        return self.fleet.new_host(client) if alone else self.fleet.host(client)

    def close(self, *names: str) -> None:
        """As the client closes: a dynamic member leaves, a static one does not."""
        for name in names:
            self._hosts[name].close(self._full(name))
        self.wait_until(f"{names} are closed", lambda: all(self.told(name, "closed") for name in names))
        for name in names:
            self._drop(name)

    def _drop(self, name: str) -> None:
        host = self._hosts.pop(name)
        if name in self._alone:
            self._alone.remove(name)
            host.end()

    def wait_failed(self, name: str) -> str:
        """The error with which a member has ended."""
        self.wait_until(f"{name} has failed", lambda: bool(self.told(name, "error")))
        self._drop(name)
        return self.told(name, "error")[0].error

    def kill(self, name: str) -> None:
        assert name in self._alone, f"{name} shares its process with others"
        self._alone.remove(name)
        self._hosts.pop(name).kill()

    def commit_alone(self, name: str, client: str, place: Place, offset: int) -> str:
        """By a consumer with this group's id that is no member. Its error, or nothing."""
        host = self.fleet.host(client)
        assert isinstance(host, JsonHost)
        host.commit_alone(self._full(name), self.base, place, offset, self.ledger)
        self.wait_until(f"{name} has done", lambda: bool(self.told(name, "closed")))
        return self.told(name, "committed", "refused")[0].error

    def produce(self, name: str, client: str, places: Iterable[Place], count: int) -> None:
        """By the client's own producer, with the members' security. Returns when all records are written."""
        self.fleet.host(client).produce(self._full(name), self.base, sorted(places), count, self.ledger)
        self.wait_until(f"{name} has written all", lambda: bool(self.told(name, "closed")))

    def may_assign(self, name: str, times: int) -> None:
        """For a leader with the assignor "slow range"."""
        self._tell(name, "assign", times=times)

    def pause(self, name: str) -> None:
        """With the next records it reads, it stops: it commits and polls no more until `resume`."""
        since = self.now
        self._tell(name, "pause")
        self.wait_until(f"{name} has heard", lambda: bool(self.told(name, "pausing", since=since)))

    def resume(self, name: str) -> None:
        self._tell(name, "resume")

    def _tell(self, name: str, what: str, **more: Any) -> None:
        host = self._hosts[name]
        assert isinstance(host, JsonHost), f"{name} is no member that obeys"
        host.tell(what, self._full(name), **more)

    # -- what they have told

    @property
    def names(self) -> list[str]:
        return list(self._hosts)

    def _full(self, name: str) -> str:
        return f"{self.group}/{name}"

    @property
    def now(self) -> int:
        """A point in what was told, for `since`."""
        return len(self.ledger.events)

    def told(self, name: str, *kinds: str, since: int = 0) -> list[Event]:
        return self.ledger.of(self._full(name), *kinds, since=since)

    def owned(self, name: str) -> frozenset[Place]:
        return self.ledger.owned(self._full(name))

    def rebalances(self, name: str, since: int = 0) -> list[tuple[str, set[Place]]]:
        """The callbacks of a member that gave or took anything."""
        told = self.told(name, "assigned", "revoked", "lost", since=since)
        return [(event.kind, set(event.places)) for event in told if event.places]

    def read_again(self) -> set[Row]:
        """Records read more than once, though nobody who read them was killed or failed to commit them."""
        again = {row for row, count in self.ledger.read().items() if count > 1}
        return again - self.ledger.uncommitted() - self.ledger.read_by(self._commits_late).keys()

    # -- waiting

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        self.ledger.wait_until(what, is_so)

    def wait_settled(self, places: Iterable[Place]) -> None:
        """Each of these partitions has one owner, nobody has two more than another, and the group is Stable."""
        wanted = sorted(places)

        def is_settled() -> bool:
            owned = [self.owned(name) for name in self.names]
            sizes = [len(mine) for mine in owned]
            fair = max(sizes) - min(sizes) <= 1
            return (
                fair and sorted(p for mine in owned for p in mine) == wanted and self.view() == ("Stable", len(owned))
            )

        self.wait_until(f"{self.names} own {len(wanted)} partitions", is_settled)

    def wait_read(self, rows: set[Row]) -> None:
        self.wait_until(f"{len(rows)} records are read", lambda: rows <= self.ledger.read().keys())

    # -- the end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close(*self.names)
            self.ledger.check_errors()
            self.ledger.check_single_owners()
        for name in self.names:  # after a failure: those in shared processes end with their host
            if name in self._alone:
                self.kill(name)
        for host in self._prepared.values():
            host.kill()
