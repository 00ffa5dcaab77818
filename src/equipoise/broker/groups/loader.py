"""Loads groups and offsets from the records of a shard's partition: a million offsets in a few seconds."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from equipoise.coordinator.offsets.committed import NO_PRODUCER_ID, CommittedOffset
from equipoise.coordinator.shard import Shard
from equipoise.wire.offsets_records import CoordinatorRecord, OffsetCommitKey, decode_record, decode_usual_value
from equipoise.wire.records.batch import BatchHeader
from equipoise.wire.records.control import read_marker
from equipoise.wire.records.read import read_pairs

_PARTITION = Struct(">i")


class CoordinatorLoader:
    """Applies records as `Shard.apply` does, with a short way for what there is most of.

    That is a commit of a group for a topic that both have been seen before. The key then differs from one seen
    before in its last four bytes only, the partition, and need not be decoded.
    """

    def __init__(self, core: Shard, now: int) -> None:
        self._core = core
        self._now = now
        self._known: dict[bytes, dict[int, CommittedOffset]] = {}  # by the key without its partition
        self._topic_ids: dict[bytes, bytes] = {}  # each once: a million copies take 49 MB

    def take_batch(self, view: memoryview, pos: int, header: BatchHeader) -> None:
        """Applies a batch: records, those of a transaction, or its marker. Rule T.73.

        Kafka: CoordinatorLoaderImpl.load.
        """
        if header.is_control:
            marker = read_marker(view, pos, header)
            if marker is not None:
                self._core.offsets.end_transaction(header.producer_id, commit=marker.commit)
        elif header.is_transactional:
            for key, value in read_pairs(view, pos, header):
                self._apply(key or b"", value, header.producer_id)
        else:
            self.take(read_pairs(view, pos, header))

    def take(self, pairs: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Applies records, as keys and values, in the order of the log."""
        if self._core.offsets.pending:  # a commit may overtake one of those
            for key, value in pairs:
                self._apply(key or b"", value)
            return
        known, new, partition_of = self._known, tuple.__new__, _PARTITION.unpack_from
        one_of_each = self._topic_ids.setdefault
        for key, value in pairs:
            partitions = known.get(key[:-4]) if key and value else None
            usual = decode_usual_value(value) if value and partitions is not None else None
            if partitions is None or usual is None or key is None:
                self._apply(key or b"", value)
                continue
            offset, leader_epoch, at, topic_id = usual
            (partition,) = partition_of(key, len(key) - 4)
            topic_id = one_of_each(topic_id, topic_id)
            partitions[partition] = new(CommittedOffset, (offset, leader_epoch, "", at, -1, topic_id))

    def _apply(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> None:
        found = decode_record(key, value)
        if not isinstance(found, CoordinatorRecord):
            return
        self._core.apply(found, self._now, producer_id)
        if value is None:
            self._known.clear()  # a group or its last offset may be gone
        elif isinstance(found.key, OffsetCommitKey) and producer_id < 0:
            self._known[key[:-4]] = self._core.offsets.partitions(found.key.group, found.key.topic)
