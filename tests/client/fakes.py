"""A cluster of several brokers that a test bends at will: leaders move, replicas are preferred, versions are old.

It lives on the test's own loop and serves what a reader needs: ApiVersions, Metadata, ListOffsets, Fetch.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_request_header, encode_response_header
from equipoise.wire.apis.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
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
from equipoise.wire.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.schema import Message

TOPIC, TOPIC_ID = "t", b"T" * 16
RECORDS = 10


class FakeCluster:
    """One topic, whose partitions hold `RECORDS` records each, one a batch; every broker has all of them."""

    def __init__(self, *, nodes: int = 2, partitions: int = 1, fetch_versions: tuple[int, int] = (4, 18)) -> None:
        self.node_ids = list(range(1, nodes + 1))
        self.leaders = dict.fromkeys(range(partitions), (1, 0))  # node and epoch
        self.fetch_versions = fetch_versions
        self.topic_id = TOPIC_ID
        self.fetches: list[tuple[int, int, FetchRequest]] = []  # node, version, request
        self.answers: list[Callable[[int, FetchRequest], FetchResponse | None]] = []  # in place of the next answers
        self.errors: dict[tuple[int, int], ErrorCode] = {}  # by node and partition: answered as long as it stands
        self.preferred = -1
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None] | None] = set()

    async def __aenter__(self) -> FakeCluster:
        for node_id in self.node_ids:
            await self.begin(node_id)
        return self

    async def __aexit__(self, *_: object) -> None:
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
            rows = {1: self.fetch_versions, 2: (1, 7), 3: (0, 12), 18: (0, 4)}
            keys = [ApiVersion(api_key=one, min_version=low, max_version=high) for one, (low, high) in rows.items()]
            return ApiVersionsResponse(error_code=0, api_keys=keys)
        if key == 3:
            return self._metadata(request)
        if key == 2:
            return self._list_offsets(request)
        return await self._fetch(node_id, version, request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
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

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        partitions = [
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index, error_code=0, offset=0 if one.timestamp == -2 else RECORDS
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
        return FetchResponse(responses=[topic])

    def _data(self, node_id: int, asked: Any) -> PartitionData:
        error = self.errors.get((node_id, asked.partition))
        leader, _ = self.leaders[asked.partition]
        if error is None and leader != node_id and self.preferred != node_id:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not None:
            return PartitionData(partition_index=asked.partition, error_code=error, high_watermark=-1, records=b"")
        is_sent_away = self.preferred not in (-1, node_id)
        return PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=RECORDS,
            last_stable_offset=RECORDS,
            log_start_offset=0,
            preferred_read_replica=self.preferred if is_sent_away else -1,
            records=b"" if is_sent_away else batch(asked.fetch_offset),
        )


def batch(offset: int) -> bytes:
    """The batch with the one record of this offset."""
    if offset >= RECORDS:
        return b""
    return bytes(build_batch([Record(offset, 1000 + offset, None, b"%d" % offset)], base_offset=offset))
