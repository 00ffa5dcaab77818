"""The requests that most tests make, in a line each, and the checks on their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.wire.apis.k00_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from equipoise.wire.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import iter_headers
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_all
from tests.broker.rawclient import RawClient

ALL, NONE = -1, 0
NOW = 1_700_000_000_000  # a timestamp for records where the time does not matter
SOMEBODY = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
BY_NAME = 12  # the last version of Produce and Fetch in which topics have names


def batch_of(*values: bytes, key: bytes | None = None, timestamp: int = NOW, **options: Any) -> bytearray:
    """A batch with one record for each value."""
    records = [Record(offset, timestamp, key, value) for offset, value in enumerate(values)]
    return build_batch(records, **options)


def create_topic(
    client: RawClient, name: str = "t", partitions: int = 1, configs: Mapping[str, str] | None = None
) -> bytes:
    """The new topic's id."""
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=rows)
    (result,) = client.call(CreateTopicsRequest(topics=[topic])).topics
    assert result.error_code == ErrorCode.NONE, result.error_message
    topic_id: bytes = result.topic_id
    return topic_id


def delete_topic(client: RawClient, name: str) -> int:
    (result,) = client.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5).responses
    return int(result.error_code)


def produce_request(
    batch: bytes | bytearray | None, topic: str = "t", partition: int = 0, acks: int = ALL, timeout_ms: int = 60_000
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch if batch is None else bytes(batch))
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produced(response: Any) -> PartitionProduceResponse:
    """The answer for the only partition."""
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    assert isinstance(partition, PartitionProduceResponse)
    return partition


def produce(client: RawClient, batch: bytes | bytearray | None, **options: Any) -> PartitionProduceResponse:
    return produced(client.call(produce_request(batch, **options), BY_NAME))


def append(client: RawClient, *values: bytes, topic: str = "t", partition: int = 0, **options: Any) -> int:
    """Appends the values as one batch, durably, and returns their first offset."""
    answer = produce(client, batch_of(*values, **options), topic=topic, partition=partition)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return answer.base_offset


def fetch_request(
    offsets: Mapping[tuple[str, int], int] | int = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    **options: Any,
) -> FetchRequest:
    """A number stands for that offset of partition 0 of topic t."""
    asked = {("t", 0): offsets} if isinstance(offsets, int) else offsets
    topics: dict[str, FetchTopic] = {}
    for (name, index), offset in asked.items():
        topic = topics.setdefault(name, FetchTopic(topic=name, partitions=[]))
        topic.partitions.append(
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=leader_epoch,
            )
        )
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=list(topics.values()), **options)


def fetched(response: Any) -> PartitionData:
    """The answer for the only partition."""
    (partition,) = partitions_of(response).values()
    return partition


def partitions_of(response: Any) -> dict[tuple[str, int], PartitionData]:
    """The partitions of a Fetch answer, by topic and index, in its order."""
    return {
        (topic.topic, partition.partition_index): partition
        for topic in response.responses
        for partition in topic.partitions
    }


def fetch(client: RawClient, offset: int = 0, **options: Any) -> PartitionData:
    return fetched(client.call(fetch_request(offset, **options), BY_NAME))


def stored(partition: PartitionData) -> bytes:
    """The record batches as they lie in the log."""
    assert not isinstance(partition.records, list)
    return bytes(partition.records or b"")


def records_in(partition: PartitionData) -> list[Record]:
    return read_all(stored(partition))


def values_in(partition: PartitionData) -> list[bytes | None]:
    return [record.value for record in records_in(partition)]


def read_partition(client: RawClient, topic: str = "t", partition: int = 0, start: int = 0) -> list[Record]:
    """Every record from `start` to the high watermark."""
    records: list[Record] = []
    while True:
        data = fetched(client.call(fetch_request({(topic, partition): start}), BY_NAME))
        assert data.error_code == ErrorCode.NONE
        new = [record for record in records_in(data) if record.offset >= start]
        records += new
        if not data.records:
            return records
        start = last_offset_in(data) + 1


def last_offset_in(partition: PartitionData) -> int:
    """The last offset that the batches cover, even where compaction has removed its record."""
    assert not isinstance(partition.records, list)
    *_, (_, header) = iter_headers(partition.records or b"")
    return header.last_offset


def list_offsets(
    client: RawClient,
    timestamp: int,
    *,
    topic: str = "t",
    partition: int = 0,
    leader_epoch: int = -1,
    isolation_level: int = 0,
    version: int | None = None,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    request = ListOffsetsRequest(isolation_level=isolation_level, topics=topics)
    (answer,) = client.call(request, version).topics
    (row,) = answer.partitions
    assert isinstance(row, ListOffsetsPartitionResponse)
    return row


def init_producer_id(client: RawClient, producer_id: int = -1, producer_epoch: int = -1) -> tuple[int, int]:
    answer = client.call(
        InitProducerIdRequest(transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=producer_epoch)
    )
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def served_apis(client: RawClient, version: int = 4) -> dict[int, tuple[int, int]]:
    """API keys with the versions that the broker says it serves."""
    rows: Sequence[Any] = client.call(SOMEBODY, version).api_keys
    return {row.api_key: (row.min_version, row.max_version) for row in rows}
