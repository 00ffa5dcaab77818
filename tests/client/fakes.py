"""A cluster of several brokers that a test bends at will: leaders move, replicas are preferred, versions are old.

It lives on the test's own loop and serves what a reader needs: ApiVersions, Metadata, ListOffsets, Fetch,
OffsetForLeaderEpoch. For a producer it serves InitProducerId and Produce.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_request_header, encode_response_header
from equipoise.wire.apis.k00_produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from equipoise.wire.apis.k01_fetch import (
    DivergingEpoch,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from equipoise.wire.apis.k03_metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdResponse
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_all
from equipoise.wire.schema import Message

TOPIC, TOPIC_ID = "t", b"T" * 16
RECORDS = 10


class FakeCluster:
    """One topic, whose partitions hold `RECORDS` records each, one a batch; every broker has all of them.

    `logs` has the leader epoch of each record; a test that cuts one and raises the leader's epoch has had an unclean
    election. `epoch_versions`: of OffsetForLeaderEpoch; None: not served."""

    def __init__(
        self,
        *,
        nodes: int = 2,
        partitions: int = 1,
        fetch_versions: tuple[int, int] = (4, 18),
        epoch_versions: tuple[int, int] | None = (2, 4),
    ) -> None:
        self.node_ids = list(range(1, nodes + 1))
        self.leaders = dict.fromkeys(range(partitions), (1, 0))  # node and epoch
        self.logs = {number: [0] * RECORDS for number in range(partitions)}
        self.fetch_versions = fetch_versions
        self.epoch_versions = epoch_versions
        self.epoch_requests: list[tuple[int, OffsetForLeaderEpochRequest]] = []  # node, request
        self.metadata_requests = 0
        self.gives_hints = False  # who leads now, with NOT_LEADER_OR_FOLLOWER (KIP-951)
        self.topic_id = TOPIC_ID
        self.fetches: list[tuple[int, int, FetchRequest]] = []  # node, version, request
        self.answers: list[Callable[[int, FetchRequest], FetchResponse | None]] = []  # in place of the next answers
        self.errors: dict[tuple[int, int], ErrorCode] = {}  # by node and partition: answered as long as it stands
        self.preferred = -1
        self.hung: set[int] = set()  # nodes that take connections and requests, and answer nothing
        self.held: list[int] = []  # the nodes of requests that were not answered at once
        self.lost_answers = 0  # connections that are to be closed in place of an answer to OffsetForLeaderEpoch
        self.coordinator = 1
        self.stored: dict[int, list[bytes | None]] = {number: [] for number in range(partitions)}  # by producers
        self.finds = 0  # times that somebody asked for it
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None] | None] = set()

    async def __aenter__(self) -> FakeCluster:
        for node_id in self.node_ids:
            await self.begin(node_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hung = set()
        for server in self._servers.values():
            server.close()
        self.disconnect()
        await asyncio.gather(*(task for task in self._serving if task is not None))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    async def begin(self, node_id: int) -> None:
        server = await asyncio.start_server(lambda r, w: self._serve(node_id, r, w), "127.0.0.1", 0)
        self._servers[node_id], self._ports[node_id] = server, server.sockets[0].getsockname()[1]

    def disconnect(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self._serving.add(asyncio.current_task())
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id, _, pos = decode_request_header(frame)
                request = APIS[key].request.decode(frame, version, pos)
                if node_id in self.hung:
                    self.held.append(node_id)
                while node_id in self.hung:
                    await asyncio.sleep(0.01)
                response = await self._answer(node_id, key, version, request)
                body = encode_response_header(key, version, correlation_id) + response.encode(version)
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, node_id: int, key: int, version: int, request: Any) -> Message:
        if key == 18:
            rows = {1: self.fetch_versions, 2: (1, 7), 3: (0, 12), 9: (1, 9), 10: (0, 6), 18: (0, 4)}
            rows |= {0: (3, 9), 22: (0, 4)}
            if self.epoch_versions is not None:
                rows[23] = self.epoch_versions
            keys = [ApiVersion(api_key=one, min_version=low, max_version=high) for one, (low, high) in rows.items()]
            return ApiVersionsResponse(error_code=0, api_keys=keys)
        if key == 3:
            return self._metadata(request)
        if key == 0:
            return self._produce(node_id, request)
        if key == 22:
            return InitProducerIdResponse(error_code=0, producer_id=7, producer_epoch=0)
        if key == 2:
            return self._list_offsets(request)
        if key == 9:
            return OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=[])]
            )
        if key == 10:
            return FindCoordinatorResponse(coordinators=[self._find_coordinator(request)])
        if key == 23:
            self.epoch_requests.append((node_id, request))
            if self.lost_answers:
                self.lost_answers -= 1
                raise ConnectionResetError
            return self._epoch_ends(node_id, request)
        return await self._fetch(node_id, version, request)

    def _find_coordinator(self, request: FindCoordinatorRequest) -> Coordinator:
        self.finds += 1
        port = self._ports[self.coordinator]
        (key,) = request.coordinator_keys
        return Coordinator(key=key, node_id=self.coordinator, host="127.0.0.1", port=port, error_code=0)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        self.metadata_requests += 1
        brokers = [
            MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port) for node, port in self._ports.items()
        ]
        partitions = [
            MetadataResponsePartition(
                error_code=0,
                partition_index=number,
                leader_id=node,
                leader_epoch=epoch,
                replica_nodes=self.node_ids,
                isr_nodes=self.node_ids,
            )
            for number, (node, epoch) in self.leaders.items()
        ]
        topic = MetadataResponseTopic(error_code=0, name=TOPIC, topic_id=self.topic_id, partitions=partitions)
        return MetadataResponse(brokers=brokers, topics=[topic] if request.topics else [])

    def _produce(self, node_id: int, request: ProduceRequest) -> ProduceResponse:
        rows = []
        for one in (one for topic in request.topic_data for one in topic.partition_data):
            is_leader, base = self.leaders[one.index][0] == node_id, len(self.stored[one.index])
            if is_leader:
                assert one.records is not None
                self.stored[one.index] += [record.value for record in read_all(bytes(one.records))]
            error = ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
            rows.append(PartitionProduceResponse(index=one.index, error_code=error, base_offset=base))
        return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=rows)])

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index,
                error_code=0,
                offset=0 if one.timestamp == -2 else len(self.logs[one.partition_index]),
            )
            for topic in request.topics
            for one in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=partitions)])

    async def _fetch(self, node_id: int, version: int, request: FetchRequest) -> FetchResponse:
        self.fetches.append((node_id, version, request))
        if self.answers:
            response = self.answers.pop(0)(node_id, request)
            if response is not None:
                return response
        data = [self._data(node_id, one) for topic in request.topics for one in topic.partitions]
        if not any(one.records or one.error_code for one in data):
            await asyncio.sleep(min(request.max_wait_ms, 50) / 1000)
        by_id = version >= 13
        topic = FetchableTopicResponse(
            topic="" if by_id else TOPIC, topic_id=self.topic_id if by_id else bytes(16), partitions=data
        )
        hints = [NodeEndpoint(node_id=node, host="127.0.0.1", port=port) for node, port in self._ports.items()]
        return FetchResponse(responses=[topic], node_endpoints=hints if self.gives_hints else [])

    def _data(self, node_id: int, asked: Any) -> PartitionData:
        error = self.errors.get((node_id, asked.partition)) or self._refusal(node_id, asked)
        log = self.logs[asked.partition]
        if error is not None:
            hint = None
            if self.gives_hints and error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                hint = LeaderIdAndEpoch(leader_id=self.leaders[asked.partition][0], leader_epoch=self._epoch(asked))
            return PartitionData(
                partition_index=asked.partition, error_code=error, high_watermark=-1, current_leader=hint, records=b""
            )
        is_sent_away = self.preferred not in (-1, node_id)
        diverging = self._diverging(log, asked)
        return PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=len(log),
            last_stable_offset=len(log),
            log_start_offset=0,
            diverging_epoch=diverging,
            preferred_read_replica=self.preferred if is_sent_away else -1,
            records=b"" if is_sent_away or diverging else batch(asked.fetch_offset, log),
        )

    def _epoch(self, asked: Any) -> int:
        return self.leaders[asked.partition][1]

    def _refusal(self, node_id: int, asked: Any) -> ErrorCode | None:
        if self.leaders[asked.partition][0] != node_id and self.preferred != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= asked.current_leader_epoch < self._epoch(asked):
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.current_leader_epoch > self._epoch(asked):
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        is_beyond = getattr(asked, "fetch_offset", 0) > len(self.logs[asked.partition])
        return ErrorCode.OFFSET_OUT_OF_RANGE if is_beyond else None

    @staticmethod
    def _diverging(log: list[int], asked: Any) -> DivergingEpoch | None:
        if asked.last_fetched_epoch < 0:
            return None
        epoch, end = epoch_end(log, asked.last_fetched_epoch)
        is_diverging = epoch < asked.last_fetched_epoch or end < asked.fetch_offset
        return DivergingEpoch(epoch=epoch, end_offset=end) if is_diverging else None

    def _epoch_ends(self, node_id: int, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        rows = []
        for topic in request.topics:
            for asked in topic.partitions:
                error = self._refusal(node_id, asked)
                epoch, end = (-1, -1) if error else epoch_end(self.logs[asked.partition], asked.leader_epoch)
                rows.append(
                    EpochEndOffset(error_code=error or 0, partition=asked.partition, leader_epoch=epoch, end_offset=end)
                )
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=TOPIC, partitions=rows)])


def epoch_end(log: list[int], epoch: int) -> tuple[int, int]:
    """As Kafka's LeaderEpochFileCache: the largest epoch up to this one, and where it ends; (-1, -1): none is newer."""
    if not log or epoch > log[-1]:
        return -1, -1
    before = [one for one in log if one <= epoch]
    return (before[-1] if before else epoch), len(before)


def batch(offset: int, log: list[int] | None = None) -> bytes:
    """The batch with the one record of this offset."""
    log = [0] * RECORDS if log is None else log
    if offset >= len(log):
        return b""
    record = Record(offset, 1000 + offset, None, b"%d" % offset)
    return bytes(build_batch([record], base_offset=offset, leader_epoch=log[offset]))
