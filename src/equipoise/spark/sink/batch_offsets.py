"""The offsets of a micro-batch's source, from Spark's checkpoint: the sink commits them with the rows.

Spark writes offsets/N before batch N runs, so that the file is there when the sink commits the batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.member import OffsetAndMetadata
from equipoise.member.partitions import NOTHING, Owned, TopicPartition
from equipoise.spark.local_path import local_path
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.source.batch_claim import read_claim
from equipoise.spark.source.offset_commits import commit_metadata
from equipoise.spark.source.source_offset import SourceOffset
from equipoise.wire.errors import UsageError


class BatchOffsets(NamedTuple):
    """What the sink commits for the group of the source, and in whose name; `lost`: partitions that other members read
    by now."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata
    lost: Owned = NOTHING

    @property
    def are_lost(self) -> bool:
        """Whether others read all that the batch has read."""
        return bool(self.lost) and self.lost >= self.offsets.keys()


def batch_offsets(options: SinkOptions, batch: int) -> BatchOffsets | None:
    """Where the group's part of the batch ends; None if the option group.id is not given."""
    if options.group_id is None:
        return None
    for offset in _offsets(_read(options, batch)):
        if offset.group == options.group_id:
            return _claimed(options.group_id, offset)
    raise UsageError(
        f"group.id={options.group_id}: no source of this query is in this group, by batch {batch} of its checkpoint; "
        "name the group of the source, or leave the option out of the sink"
    )


def _claimed(group_id: str, offset: SourceOffset) -> BatchOffsets:
    claim = read_claim(offset.query)
    if claim is None or claim.batch != offset.batch:
        raise UsageError(
            f"group.id={group_id}: the source has not left the commits of this group to the sink: set its option "
            "delivery to exactly-once too"
        )
    metadata = commit_metadata(offset)
    ends = {one: OffsetAndMetadata(at, metadata, offset.epoch(one, at)) for one, at in claim.ends.items()}
    return BatchOffsets(ends, claim.group, claim.lost)


def _read(options: SinkOptions, batch: int) -> str:
    assert options.checkpoint is not None
    path = f"{options.checkpoint.rstrip('/')}/offsets/{batch}"
    local = local_path(path)
    try:
        if local is not None:
            return local.read_text(encoding="utf-8")
        from pyarrow import fs

        files, inside = fs.FileSystem.from_uri(path)
        with files.open_input_file(inside) as file:
            text: str = file.read().decode()
            return text
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(f"the checkpoint's {path} cannot be read, which group.id of the sink needs: {error}") from None


def _offsets(text: str) -> Iterator[SourceOffset]:
    """Those of our source: a version, a line on the batch, then a line for each source. A source that has a name
    (Spark 4.2) has it before its offsets: `orders:{...}`."""
    for line in text.splitlines()[2:]:
        try:
            yield from _found(json.loads(line[max(line.find("{"), 0) :]))
        except json.JSONDecodeError:  # "-": the source has nothing in this batch
            continue


def _found(value: Any) -> Iterator[SourceOffset]:
    """Spark 4.1 may keep offsets by the name of the source."""
    if isinstance(value, dict) and "v" in value and "query" in value:
        yield SourceOffset.parse(value)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _found(json.loads(one) if isinstance(one, str) and one.startswith("{") else one)
