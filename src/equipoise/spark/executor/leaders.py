"""An executor's way to the leaders of partitions: metadata, and connections that outlive a task.

A worker process reads one task after the other, batch after batch. It keeps metadata and connections, by the consumer's
settings. It may be killed at any moment, and needs no cleanup.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from equipoise.client.consumer.config import EARLIEST, LATEST, ConsumerConfig
from equipoise.client.metadata.list_offsets import list_offsets_request, listed_offsets
from equipoise.client.metadata.metadata import Metadata, metadata_request, patience_rounds
from equipoise.client.net.addresses import Address, parse_bootstrap_servers
from equipoise.client.net.api_versions import Response
from equipoise.client.net.blocking import Connection
from equipoise.client.net.errors import KafkaConnectionError, is_final
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k02_list_offsets import ListOffsetsResponse
from equipoise.wire.apis.k03_metadata import MetadataResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.schema import Message

log = logging.getLogger(__name__)

_EARLIEST_LOCAL = -4  # a timestamp of ListOffsets since version 8
_FIRST_PATIENCE_S = 1.0  # for a broker that may hang, while there are others
_MOST_TRIED = 4  # attempts to connect that make the next one longer


class LeaderEndpoint(NamedTuple):
    """Where a partition is fetched from, and what a fetch says of it."""

    address: Address
    epoch: int
    topic_id: bytes


class FetchedSizes(NamedTuple):
    """Bytes of what the last fetch of a partition brought: of a record, in the mean, and of its largest batch."""

    record: float
    batch: int

    @classmethod
    def of(cls, batches: Sequence[tuple[int, BatchHeader]]) -> FetchedSizes:
        """A batch comes whole, wherever in it the fetch began."""
        sizes = [header.size for _, header in batches]
        return cls(sum(sizes) / (batches[-1][1].last_offset + 1 - batches[0][1].base_offset), max(sizes))


class Leaders:
    """What this process knows of one cluster."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.sizes: dict[TopicPartition, FetchedSizes] = {}  # as seen lately, to ask for no more than is wanted
        self._bootstrap = parse_bootstrap_servers(config.bootstrap_servers)
        self._metadata = Metadata()
        self._asked_at: dict[str, float] = {}  # when each topic's metadata came
        self._idle: dict[Address, list[Connection]] = {}
        self._failed_at: dict[Address, float] = {}  # brokers that did not answer when they were asked last
        self._in_vain: dict[Address, int] = {}  # attempts to connect since the last that did not fail

    def leader(self, partition: TopicPartition) -> LeaderEndpoint:
        """KafkaError: the partition has no leader now, or does not exist. KafkaConnectionError: no broker answers."""
        age = time.monotonic() - self._asked_at.get(partition.topic, -float("inf"))
        if age * 1000 > self.config.metadata_max_age_ms:
            self.refresh([partition.topic])
        found = self.known(partition)
        if found is None:
            what = f"{partition} has no leader that is known"
            raise self.config.topic_error(self._why_unknown(partition), partition.topic, what)
        return found

    def _why_unknown(self, partition: TopicPartition) -> int:
        """A topic that is there may have fewer partitions than it had: it was deleted, and created anew."""
        topic = self._metadata.topics.get(partition.topic)
        if topic is not None and partition.partition >= topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._metadata.errors.get(partition.topic, ErrorCode.LEADER_NOT_AVAILABLE)

    def known(self, partition: TopicPartition) -> LeaderEndpoint | None:
        """Without a question to any broker."""
        leader = self._metadata.leader(partition)
        if leader is None:
            return None
        address, topic = self._metadata.nodes[leader.node_id].address, self._metadata.topics[partition.topic]
        return LeaderEndpoint(address, leader.epoch, topic.topic_id)

    def refresh(self, topics: Iterable[str]) -> None:
        """Asks any broker that answers. KafkaConnectionError: none does."""
        wanted = set(topics)
        request = metadata_request(wanted, allow_auto_create=self.config.allow_auto_create_topics)
        self._metadata.merge(self.ask_anyone(request, MetadataResponse))
        self._asked_at |= dict.fromkeys(wanted, time.monotonic())

    def ask_anyone(self, request: Message, response: type[Response]) -> Response:
        """KafkaConnectionError: no broker answers.

        A broker that hangs takes connections and requests, and says nothing: each is given a short while first, and
        those that were silent lately come last. Where all are slow, they get more time in the next rounds.
        """
        failures: dict[Address, str] = {}
        for patience in patience_rounds(self.config.request_timeout_ms / 1000):
            for address in self._addresses():
                try:
                    return self._ask(address, request, response, patience)
                except EquipoiseError as error:
                    if is_final(error):
                        raise
                    failures[address] = str(error)
                    self._failed_at[address] = time.monotonic()
        raise KafkaConnectionError("; ".join(failures.values()))

    def _addresses(self) -> list[Address]:
        return sorted(self._metadata.addresses(self._bootstrap), key=lambda address: self._failed_at.get(address, 0.0))

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset that the leader holds, and the one behind the last."""
        earliest, latest = (self._list_offset(partition, which) for which in (EARLIEST, LATEST))
        return earliest, latest

    def local_start(self, partition: TopicPartition) -> int:
        """The first offset on the leader's own disk. What lies before it is in remote storage (KIP-405)."""
        try:
            return self._list_offset(partition, _EARLIEST_LOCAL)
        except KafkaError as error:
            if error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise
            return 0  # a broker from before remote storage

    def _list_offset(self, partition: TopicPartition, which: int) -> int:
        address = self.leader(partition).address
        request = list_offsets_request({partition: which}, self._metadata.leader)
        ((_, found),) = listed_offsets(self._ask(address, request, ListOffsetsResponse))
        if found.error_code:
            what = f"where {partition} begins and ends cannot be read"
            raise self.config.topic_error(found.error_code, partition.topic, what)
        return found.offset

    # -- connections

    def connection(self, address: Address, patience: float | None = None) -> Connection:
        """An idle connection, or a new one. A connection returns to the pool when all its requests are answered.

        `patience`: how long it waits for answers, in seconds; request.timeout.ms if not given."""
        timeout = self.config.request_timeout_ms / 1000 if patience is None else patience
        idle = self._idle.get(address, [])
        while idle:
            found = idle.pop()
            if found.is_quiet:
                found.timeout = timeout
                return found
            found.close()
        return self._connected(address, timeout)

    def _connected(self, address: Address, timeout: float) -> Connection:
        """Connecting and greeting take no work at the broker: who does not get to it soon may hang, and has more time
        the next time."""
        tried = self._in_vain.get(address, 0)
        try:
            made = Connection(
                *address,
                client_id=self.config.client_id,
                timeout=min(timeout, _FIRST_PATIENCE_S * 5**tried),
                security=self.config.security,
            )
        except EquipoiseError:
            self._in_vain[address] = min(tried + 1, _MOST_TRIED)
            raise
        self._in_vain.pop(address, None)
        made.timeout = timeout
        return made

    def give_back(self, address: Address, connection: Connection) -> None:
        """Keeps an idle connection for the next task."""
        self._idle.setdefault(address, []).append(connection)

    def close(self) -> None:
        """Closes the idle connections."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _ask(
        self, address: Address, request: Message, response: type[Response], patience: float | None = None
    ) -> Response:
        connection = self.connection(address, patience)
        answer = connection.send(request, response)
        self._failed_at.pop(address, None)
        self.give_back(address, connection)
        return answer


_KNOWN: dict[ConsumerConfig, Leaders] = {}


def leaders_of(config: ConsumerConfig) -> Leaders:
    """One for each cluster and settings, for as long as the process lives."""
    return _KNOWN.setdefault(config, Leaders(config))


def forget_all() -> None:
    """Closes what is open and knows nothing any more: a forked process must not share connections."""
    for leaders in _KNOWN.values():
        leaders.close()
    _KNOWN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_all)
