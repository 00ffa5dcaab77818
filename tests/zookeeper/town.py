"""A broker registered in ZooKeeper, and members of groups on it, each with threads that read its streams."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message, Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from equipoise.broker import Broker
from equipoise.client import Admin, ConsumerRecord
from equipoise.member.partitions import TopicPartition
from equipoise.server_process import free_port
from equipoise.testing.registering import register
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper import BrokerRegistration, ConsumerRebalanceListener, ZooKeeperConsumer
from equipoise.zookeeper.protocol.assignment import consumer_of
from equipoise.zookeeper.protocol.layout import GroupPaths, TopicFilter
from equipoise.zookeeper.session import open_client
from equipoise.zookeeper.streams import Stream
from proving.members.events import Event, Ledger, Row

MODES = ("faithful", "safe")
_SESSION_MS = 20_000  # nobody loses its session because the machine is busy
# Soon again, for long: on a busy machine too no attempt is the last.
PATIENT = {
    "rebalance.backoff.ms": 100,
    "rebalance.max.retries": 300,
    "auto.offset.reset": "smallest",
    "zookeeper.session.timeout.ms": _SESSION_MS,
}


@contextmanager
def connected(hosts: str, timeout: float = 30.0) -> Iterator[KazooClient]:
    client = open_client(hosts, _SESSION_MS, round(timeout * 1000))
    try:
        yield client
    finally:
        client.stop()
        client.close()


class Tenures:
    """Who claimed which partition under which token (safe mode), and who handed out records of it under which token.

    Tokens are given by ZooKeeper with the owner's node; notes stand in the order in which things happened. A record is
    noted under the lock without which its partition cannot be given up.
    """

    def __init__(self) -> None:
        self._notes: list[tuple[TopicPartition, int, str]] = []

    def claimed(self, reader: Reader) -> None:
        for partition, info in reader.consumer.connector.topic_registry.items():
            self._notes.append((partition, info.token, reader.name))

    def follow(self, stream: Stream, reader: Reader) -> None:
        pop = stream._pop

        def noted() -> ConsumerRecord | None:
            record = pop()
            if record is not None:
                info = stream._chunks[0][0]
                self._notes.append((info.partition, info.token, reader.name))
            return record

        stream._pop = noted  # type: ignore[method-assign]

    def check(self) -> None:
        """Each token is one member's, and once a partition has been claimed anew nothing is read under an older one."""
        holders: dict[tuple[TopicPartition, int], str] = {}
        newest: dict[TopicPartition, int] = {}
        assert self._notes
        for partition, token, name in self._notes:
            assert holders.setdefault((partition, token), name) == name, f"{partition} is two members' at a time"
            assert token >= newest.get(partition, 0), f"{partition} was read by {name} when it was another's"
            newest[partition] = token


class Reader(ConsumerRebalanceListener):
    """A consumer whose streams are read; what it owns and reads is noted in the ledger, and in the tenures."""

    def __init__(self, town: Town, name: str, **settings: object) -> None:
        self.name = name
        self.ledger = town.ledger
        self.tenures = town.tenures
        self.errors: list[EquipoiseError] = []
        given = {"zookeeper.connect": town.connect, "group.id": town.group, "consumer.id": name, **PATIENT}
        given |= {key.replace("_", "."): value for key, value in settings.items()}
        self.consumer = ZooKeeperConsumer(given, listener=self)
        self._threads: list[threading.Thread] = []

    def start(self, topics: Mapping[str, int] | TopicFilter, streams: int = 1) -> Self:
        if isinstance(topics, TopicFilter):
            made = self.consumer.create_message_streams_by_filter(topics, streams)
        else:
            made = [one for several in self.consumer.create_message_streams(topics).values() for one in several]
        for stream in made:
            self.tenures.follow(stream, self)
        self._threads = [threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in made]
        for thread in self._threads:
            thread.start()
        return self

    def _read(self, stream: Stream) -> None:
        try:
            for record in stream:
                row = record.topic, record.partition, record.offset
                self.ledger.note(Event(time.monotonic(), self.name, "records", rows=(row,)))
        except EquipoiseError as error:
            self.errors.append(error)

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        self.ledger.note(Event(time.monotonic(), self.name, "revoked", frozenset(partitions)))

    def before_starting_fetchers(self, consumer_id: str, decision: Mapping[TopicPartition, str]) -> None:
        mine = frozenset(one for one, thread in decision.items() if consumer_of(thread) == consumer_id)
        self.ledger.note(Event(time.monotonic(), self.name, "assigned", mine, whole=True))
        if self.consumer.config.is_safe:
            self.tenures.claimed(self)

    def owned(self) -> frozenset[TopicPartition]:
        return self.consumer.owned()

    def close(self) -> None:
        self.ledger.note(Event(time.monotonic(), self.name, "stopped"))
        self.consumer.close()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


class Town:
    """Under a path of its own in ZooKeeper, so that several tests can share a server."""

    def __init__(self, hosts: str, name: str, data: Path | None = None) -> None:
        self.connect = f"{hosts}/{name}"
        self.group = "billing"
        self.paths = GroupPaths(self.group)
        self.ledger = Ledger()
        self.tenures = Tenures()
        self.readers: list[Reader] = []
        self._data = data
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(self.stop_broker)
        self.start_broker()
        self.zk = self._stack.enter_context(connected(self.connect))
        self.admin = self._stack.enter_context(Admin(self.broker.bootstrap_servers))
        return self

    def start_broker(self, listen: str = "") -> None:
        self.registration = BrokerRegistration(self.connect, _SESSION_MS)
        self.broker = Broker(data=self._data, listen=listen or f"127.0.0.1:{free_port()}").start()
        self.broker.call(lambda server: register(server, self.registration))

    def stop_broker(self) -> None:
        self.broker.stop()
        self.registration.close()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in self.readers:
            reader.close()
        self._stack.close()

    # -- topics

    def create_topic(self, name: str, partitions: int) -> None:
        self.admin.create_topic(name, partitions)
        self.wait_until(f"{name} is in ZooKeeper", lambda: bool(self.zk.exists(f"/brokers/topics/{name}")))

    def produce(self, topic: str, partitions: int, count: int) -> set[Row]:
        """To each partition; where they went."""
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 2, "log_level": 0})
        written: set[Row] = set()

        def delivered(error: object, message: Message) -> None:
            assert error is None
            written.add((str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)))

        for number in range(count * partitions):
            producer.produce(topic, b"%d" % number, partition=number % partitions, on_delivery=delivered)
        assert producer.flush(60) == 0
        return written

    # -- members

    def reader(self, name: str, **settings: object) -> Reader:
        reader = Reader(self, name, **settings)
        self.readers.append(reader)
        return reader

    def join(self, name: str, topics: Mapping[str, int] | TopicFilter, **settings: object) -> Reader:
        return self.reader(name, **settings).start(topics)

    def leave(self, reader: Reader) -> None:
        self.readers.remove(reader)
        reader.close()

    # -- what stands in ZooKeeper

    def children(self, path: str) -> set[str]:
        with suppress(NoNodeError):
            return set(self._surely(self.zk.get_children, path))
        return set()

    def _surely(self, read: Callable[[str], Any], path: str) -> Any:
        """Whatever becomes of connection and session meanwhile."""
        return KazooRetry(max_tries=-1, max_delay=0.5)(read, path)

    def members(self) -> set[str]:
        return self.children(self.paths.ids)

    def owners(self) -> dict[TopicPartition, str]:
        found = {}
        for topic in self.children(self.paths.owners):
            for number in self.children(f"{self.paths.owners}/{topic}"):
                with suppress(NoNodeError):
                    data, _ = self._surely(self.zk.get, f"{self.paths.owners}/{topic}/{number}")
                    found[TopicPartition(topic, int(number))] = data.decode()
        return found

    def offset(self, topic: str, partition: int) -> int:
        return int(self.zk.get(self.paths.offset(TopicPartition(topic, partition)))[0])

    def places(self, topic: str, count: int) -> set[TopicPartition]:
        return {TopicPartition(topic, number) for number in range(count)}

    def end_session(self, client: KazooClient) -> None:
        """As if the server had not heard of it for too long: another client takes the session over, and ends it.

        Its own client may be faster and have it back; so it is done again until there is another session.
        """
        self.wait_until("there is a session", lambda: client.client_id is not None)
        before = client.client_id
        while (client.client_id or before) == before:
            thief = KazooClient(self.connect.partition("/")[0], client_id=before)  # kazoo would look for the path first
            with suppress(KazooTimeoutError):
                thief.start()
            thief.stop()
            thief.close()

    # -- waiting

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        self.ledger.wait_until(what, is_so)

    def wait_settled(self, places: set[TopicPartition], *readers: Reader) -> None:
        """Each is owned in ZooKeeper by one of these, which knows it; all have some, and nobody else is there."""

        def is_settled() -> bool:
            owned = [reader.owned() for reader in readers]
            ids = {reader.consumer.consumer_id for reader in readers}
            return (
                all(owned)
                and sum(map(len, owned)) == len(places)
                and set().union(*owned) == places
                and {consumer_of(thread) for thread in self.owners().values()} == ids == self.members()
            )

        self.wait_until(f"{[reader.name for reader in readers]} own {len(places)} partitions", is_settled)

    def check_owners(self, mode: str) -> None:
        """No partition had two owners at a time: by what the members were told, and by what they read."""
        self.ledger.check_single_owners()
        if mode == "safe":
            self.tenures.check()

    def wait_read(self, rows: set[Row]) -> None:
        self.wait_until(f"{len(rows)} records are read", lambda: rows <= self.ledger.read().keys())
