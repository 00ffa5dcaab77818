"""Groups and logs moved from one broker to another: by copying records over the wire, or Kafka's files into ours.

copy_groups(ours, kafka)        what is committed, who is a member and of which generation
kafka.restart()                 a coordinator reads its records when it starts
"""

from __future__ import annotations

import re
import shutil
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from equipoise.client import Admin
from equipoise.client.admin import TopicDescription
from equipoise.client.net.blocking import Connection, error_from
from equipoise.coordinator.placement import partition_for
from equipoise.log.recovery.inventory import TopicRecord
from equipoise.log.storage.directory import DataDirectory
from equipoise.log.storage.disk import write_json
from equipoise.wire.apis.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from equipoise.wire.errors import UsageError
from equipoise.wire.offsets_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    OffsetCommitValue,
    UnknownRecordType,
    decode_record,
    encode_key,
    encode_value,
)
from equipoise.wire.records.batch import iter_headers
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.records.read import read_all
from equipoise.wire.schema import ZERO_UUID, Message
from proving.tools import Listening

OFFSETS_TOPIC = "__consumer_offsets"
COORDINATORS = (OFFSETS_TOPIC, "__transaction_state")  # the topics that keep what coordinators know
_MAY_WRITE_INTERNAL_TOPICS = "__admin_client"
_RECORDS_A_BATCH = 1000
_FETCH_BYTES = 10_000_000
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
_CHECKPOINTS = ("recovery-point", "replication", "log-start")
_COMPACTED = {"cleanup.policy": "compact"}

Pair = tuple[bytes, bytes | None]


class _HasTopicId(Protocol):
    topic_id: bytes


def copy_groups(source: Listening, target: Listening) -> int:
    """Appends the records of all groups to those of `target`, and says how many. They count when it starts again.

    Both brokers must have made the topic. `target` is Apache Kafka: ours takes such records from nobody. A group goes
    to the partition that is its own on `target`, and records name topics by the ids that they have there.
    """
    with Admin(target.bootstrap_servers) as admin:
        ids = {topic.name: topic.topic_id for topic in admin.topics()}
        places = len(admin.topic(OFFSETS_TOPIC).partitions)
    with Admin(source.bootstrap_servers) as admin:
        new_ids = {topic.topic_id: ids.get(topic.name, ZERO_UUID) for topic in admin.topics()}
    placed: dict[int, list[Pair]] = defaultdict(list)
    for records in read_topic(source, OFFSETS_TOPIC).values():
        for group, pair in _translated(records, new_ids):
            placed[partition_for(group, places)].append(pair)
    for partition, pairs in placed.items():
        _append(target, ids[OFFSETS_TOPIC], partition, pairs)
    return sum(map(len, placed.values()))


def _translated(records: list[Record], new_ids: dict[bytes, bytes]) -> Iterator[tuple[str, Pair]]:
    """Each record with its group; those of kinds that are not known here are left out."""
    for record in records:
        found = decode_record(record.key or b"", record.value)
        if isinstance(found, UnknownRecordType):
            continue
        key, value = found
        for row in _with_topic_ids(value):
            row.topic_id = new_ids.get(row.topic_id, ZERO_UUID)
        group: str = key.group if hasattr(key, "group") else key.group_id  # type: ignore[attr-defined]
        yield group, (encode_key(key), None if value is None else encode_value(value))


def _with_topic_ids(value: Message | None) -> Iterator[_HasTopicId]:
    """What in a record names topics by their ids."""
    match value:
        case OffsetCommitValue():
            yield value
        case ConsumerGroupTargetAssignmentMemberValue():
            yield from value.topic_partitions
        case ConsumerGroupCurrentMemberAssignmentValue():
            yield from value.assigned_partitions
            yield from value.partitions_pending_revocation


def _append(target: Listening, topic_id: bytes, partition: int, pairs: list[Pair]) -> None:
    with _connect(target, _MAY_WRITE_INTERNAL_TOPICS) as connection:
        for first in range(0, len(pairs), _RECORDS_A_BATCH):
            some = pairs[first : first + _RECORDS_A_BATCH]
            batch = build_batch([Record(offset, 0, key, value) for offset, (key, value) in enumerate(some)])
            _produce(connection, topic_id, PartitionProduceData(index=partition, records=bytes(batch)))


def _produce(connection: Connection, topic_id: bytes, data: PartitionProduceData) -> None:
    topic = TopicProduceData(name=OFFSETS_TOPIC, topic_id=topic_id, partition_data=[data])
    answer = connection.send(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), ProduceResponse)
    (result,) = answer.responses[0].partition_responses
    if result.error_code:
        raise error_from(result.error_code, f"partition {data.index} was not written: {result.error_message}")


def read_topic(broker: Listening, topic: str) -> dict[int, list[Record]]:
    """All records of a topic, by partition."""
    with Admin(broker.bootstrap_servers) as admin, _connect(broker) as connection:
        described = admin.topic(topic)
        return {
            partition: list(_read_partition(connection, described, partition, offsets.earliest, offsets.latest))
            for partition, offsets in admin.offsets(topic).items()
        }


def _connect(broker: Listening, client_id: str = "equipoise") -> Connection:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return Connection(host, int(port), client_id=client_id)


def _read_partition(
    connection: Connection, topic: TopicDescription, partition: int, offset: int, end: int
) -> Iterator[Record]:
    while offset < end:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        asked = FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[wanted])
        request = FetchRequest(max_wait_ms=1000, min_bytes=1, topics=[asked])
        (found,) = connection.send(request, FetchResponse).responses[0].partitions
        if found.error_code:
            raise error_from(found.error_code, f"partition {partition} of {topic.name} cannot be read")
        assert isinstance(found.records, memoryview)  # decoded as a view of the frame
        records = [record for record in read_all(found.records) if record.offset >= offset]
        yield from records
        offset = records[-1].offset + 1 if records else end  # compaction may have emptied the last batch


def adopt_logs(kafka_logs: Path, data: Path) -> list[str]:
    """Makes a data directory of ours from the `log.dirs` of a Kafka that is stopped: its topics, ids and segments.

    Returns the topics. What a topic was configured with stays behind, in Kafka's metadata log.
    """
    partitions = {path: _PARTITION.fullmatch(path.name) for path in sorted(kafka_logs.iterdir()) if path.is_dir()}
    topics: dict[str, list[Path]] = defaultdict(list)
    for path, found in partitions.items():
        if found and (path / "partition.metadata").exists() and found["topic"] != "__cluster_metadata":
            topics[found["topic"]].append(path)
    _save_topics(data, topics)  # before the records: a directory that has records and no topics is refused
    for path in (path for paths in topics.values() for path in paths):
        shutil.copytree(path, data / path.name, ignore=_all_but_segments)
    write_json(data / "producer-ids.json", {"next": _last_producer_id(data) + 1}, durable=False)
    return list(topics)


def give_logs(data: Path, kafka_logs: Path, *topics: str) -> None:
    """Puts our segments in the place of those of a Kafka that is stopped, which has the topics. It recovers the rest
    from them: indexes, snapshots of producers, aborted transactions."""
    for name in (".kafka_cleanshutdown", *(f"{kind}-offset-checkpoint" for kind in _CHECKPOINTS)):
        (kafka_logs / name).unlink(missing_ok=True)
    for path in sorted(kafka_logs.iterdir()):
        found = _PARTITION.fullmatch(path.name)
        if found is None or found["topic"] not in topics:
            continue
        for old in path.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for segment in (data / path.name).glob("*.log"):
            shutil.copy(segment, path)


def _save_topics(data: Path, topics: Mapping[str, list[Path]]) -> None:
    directory = DataDirectory(data)
    directory.save_topics(
        [
            TopicRecord(topic, _topic_id(paths[0]), len(paths), _COMPACTED if topic in COORDINATORS else {})
            for topic, paths in topics.items()
        ]
    )
    directory.close()


def _all_but_segments(_: str, names: list[str]) -> set[str]:
    return {name for name in names if not name.endswith(".log")}


def _last_producer_id(data: Path) -> int:
    """A new producer must not be taken for one whose records are here."""
    headers = [header for path in data.glob("*/*.log") for _, header in iter_headers(path.read_bytes())]
    return max((header.producer_id for header in headers), default=-1)


def _topic_id(partition: Path) -> bytes:
    for line in (partition / "partition.metadata").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "topic_id":
            return urlsafe_b64decode(value + "==")
    raise UsageError(f"{partition} names no topic id: it was written by a Kafka before 2.8")
