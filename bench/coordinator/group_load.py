"""Heartbeats and commits of light members as load on a broker, and what it spends on them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.coordinator.members import ALL_IS_WELL, TOPIC, Member, pump, request_frame, response_frame
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.errors import ErrorCode
from proving.brokers import BrokerProcess


class Load(NamedTuple):
    """What each of the first members sends again and again; `answer` is what it must hear."""

    key: str
    requests: list[bytes]
    answer: bytes
    depth: int = 1  # requests under way on a connection

    def pipelined(self, depth: int) -> Load:
        """By a tenth of the members, `depth` at a time."""
        few = self.requests[: len(self.requests) // 10]
        return Load(f"{self.key}_pipelined", [request * depth for request in few], self.answer * depth, depth)


class LoadSample(NamedTuple):
    per_cpu_second: float  # of the broker
    per_second: float
    generator_share: float  # CPU of the generator to that of the broker


def heartbeats(members: Sequence[Member]) -> Load:
    return Load("heartbeats", [request_frame(member.heartbeat_request()) for member in members], ALL_IS_WELL)


def commits_of(count: int, members: Sequence[Member]) -> Load:
    """Of `count` partitions each."""
    return Load("commits", [commit_frame(member.group_id, count, member) for member in members], committed_frame(count))


def commit_frame(group_id: str, count: int, member: Member | None = None) -> bytes:
    """Offsets of partitions 0 to `count` - 1; without a member, as consumers do that assign themselves."""
    rows = [OffsetCommitRequestPartition(partition_index=number, committed_offset=number) for number in range(count)]
    request = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)])
    if member is not None:
        request.member_id, request.generation_id_or_member_epoch = member.member_id, member.generation_id
    return request_frame(request)


def committed_frame(count: int) -> bytes:
    rows = [OffsetCommitResponsePartition(partition_index=n, error_code=ErrorCode.NONE) for n in range(count)]
    return response_frame(OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=rows)]))


def apply_load(broker: BrokerProcess, members: Sequence[Member], load: Load, seconds: float) -> LoadSample:
    members = members[: len(load.requests)]
    pump(members, load.requests, load.answer, 0)  # what is done for the first time takes longer
    broker_cpu, own_cpu = broker.cpu_seconds(), time.process_time()
    answers, took = pump(members, load.requests, load.answer, seconds)
    broker_cpu, own_cpu = broker.cpu_seconds() - broker_cpu, time.process_time() - own_cpu
    count = answers * load.depth
    return LoadSample(count / broker_cpu, count / took, own_cpu / broker_cpu)
