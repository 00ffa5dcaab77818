"""An executor process's way to the leaders of partitions: who they are, and connections that outlive a task.

A worker process reads one task after the other, batch after batch: what it knows and what it has open it keeps, by the
consumer's settings. It may be killed at any moment, and has nothing to tidy up.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from typing import NamedTuple

from equipoise.client.agreement import KafkaConnectionError, Response, error_from, parse_bootstrap_servers
from equipoise.client.config import EARLIEST, LATEST, ConsumerConfig
from equipoise.client.connection import Connection
from equipoise.client.lines import Address
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from equipoise.wire.errors import EquipoiseError, ErrorCode
from equipoise.wire.schema import Message

log = logging.getLogger(__name__)


class Leader(NamedTuple):
    address: Address
    epoch: int
    topic_id: bytes


class Leaders:
    """What this process knows of one cluster."""

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self.record_bytes: dict[TopicPartition, float] = {}  # as seen lately, to ask for no more than is wanted
        self.partitions: dict[str, int] = {}  # of each topic that was asked for; 0: it does not exist
        self._bootstrap = parse_bootstrap_servers(config.bootstrap_servers)
        self._nodes: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._refusals: dict[str, int] = {}  # errors of topics that metadata could not be had of
        self._asked_at: dict[str, float] = {}  # when each topic's metadata came
        self._idle: dict[Address, list[Connection]] = {}

    def leader(self, partition: TopicPartition) -> Leader:
        """KafkaError: nobody leads it at the moment, or there is no such partition. KafkaConnectionError: who knows."""
        age = time.monotonic() - self._asked_at.get(partition.topic, -float("inf"))
        if age * 1000 > self.config.metadata_max_age_ms:
            self.refresh([partition.topic])
        found = self.known(partition)
        if found is None:
            code = self._refusals.get(partition.topic, ErrorCode.LEADER_NOT_AVAILABLE)
            raise error_from(code, f"{partition} has no leader that is known")
        return found

    def known(self, partition: TopicPartition) -> Leader | None:
        return self._leaders.get(partition)

    def refresh(self, topics: Iterable[str]) -> None:
        """Asks whoever answers. KafkaConnectionError: nobody does."""
        wanted = sorted(set(topics))
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in wanted],
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )
        self._learn(self.ask_anyone(request, MetadataResponse))
        self._asked_at |= dict.fromkeys(wanted, time.monotonic())

    def _learn(self, answer: MetadataResponse) -> None:
        self._nodes = {one.node_id: (one.host, one.port) for one in answer.brokers}
        for topic in answer.topics:
            name = topic.name or ""
            self._refusals.pop(name, None)
            self.partitions[name] = len(topic.partitions)
            if topic.error_code:
                self._refusals[name] = topic.error_code
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition_index)
                self._leaders.pop(partition, None)
                if one.leader_id in self._nodes:
                    self._leaders[partition] = Leader(self._nodes[one.leader_id], one.leader_epoch, topic.topic_id)

    def ask_anyone(self, request: Message, response: type[Response]) -> Response:
        """KafkaConnectionError: nobody answers."""
        failures = []
        for address in dict.fromkeys([*self._nodes.values(), *self._bootstrap]):
            try:
                return self._ask(address, request, response)
            except EquipoiseError as error:
                failures.append(str(error))
        raise KafkaConnectionError("; ".join(failures))

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The first offset that the leader holds, and the one behind the last."""
        earliest, latest = (self._list_offset(partition, which) for which in (EARLIEST, LATEST))
        return earliest, latest

    def _list_offset(self, partition: TopicPartition, which: int) -> int:
        leader = self.leader(partition)
        asked = ListOffsetsPartition(
            partition_index=partition.partition, current_leader_epoch=leader.epoch, timestamp=which
        )
        topic = ListOffsetsTopic(name=partition.topic, partitions=[asked])
        answer = self._ask(leader.address, ListOffsetsRequest(topics=[topic]), ListOffsetsResponse)
        ((found,),) = (topic.partitions for topic in answer.topics)
        if found.error_code:
            raise error_from(found.error_code, f"where {partition} begins and ends cannot be read")
        return found.offset

    # -- connections

    def connection(self, address: Address) -> Connection:
        """One that waits for use, or a new one. Whoever has an answer to all he asked gives it back."""
        idle = self._idle.get(address, [])
        while idle:
            found = idle.pop()
            if found.is_quiet:
                return found
            found.close()
        config = self.config
        return Connection(*address, client_id=config.client_id, timeout=config.request_timeout_ms / 1000)

    def give_back(self, address: Address, connection: Connection) -> None:
        self._idle.setdefault(address, []).append(connection)

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _ask(self, address: Address, request: Message, response: type[Response]) -> Response:
        connection = self.connection(address)
        answer = connection.send(request, response)
        self.give_back(address, connection)
        return answer


_KNOWN: dict[ConsumerConfig, Leaders] = {}


def leaders_of(config: ConsumerConfig) -> Leaders:
    return _KNOWN.setdefault(config, Leaders(config))


def forget_all() -> None:
    """Closes what is open and knows nothing any more: a forked process must not share connections."""
    for leaders in _KNOWN.values():
        leaders.close()
    _KNOWN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_all)
