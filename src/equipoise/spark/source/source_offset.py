"""A query's position in its topics, as Spark keeps it in the checkpoint: JSON in one canonical form.

`to` has the end of each partition of the batch. `from` has the start of a partition if the previous offset does not
contain it: the partition was newly assigned, or another member has read on meanwhile. A batch can therefore be read
again from its two offsets alone. Spark compares offsets as text, so keys are sorted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from equipoise.member.partitions import TopicPartition
from equipoise.spark.options import SourceOptions
from equipoise.wire.errors import UsageError

VERSION = 1
PartitionOffsetMap = dict[TopicPartition, int]
PartitionRanges = dict[TopicPartition, tuple[int, int]]  # from, and up to
_REMEDY = "begin with a new checkpoint, or name {} as before"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """`query` is the id of the query, `batch` the number of this batch; both go into the metadata of commits.

    `seen`: how many partitions each topic had when the query began; those that came later are read from their start.
    `group`: of the query, "" if it has none; None in checkpoints that were written before offsets said so.
    `epochs`: of the leaders that told where partitions end. `ids`: of the topics, in hexadecimal. Where they are not
    known, nothing can be checked.
    """

    to: Mapping[TopicPartition, int] = field(default_factory=dict)
    since: Mapping[TopicPartition, int] = field(default_factory=dict)  # "from" in JSON
    query: str = ""
    batch: int = -1
    seen: Mapping[str, int] = field(default_factory=dict)
    group: str | None = None
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_initial(self) -> bool:
        """Whether the query has planned no batch yet."""
        return self.batch < 0

    @property
    def topics(self) -> set[str]:
        """The topics that the query has read or seen."""
        return {one.topic for one in self.to} | self.seen.keys()

    @classmethod
    def parse(cls, given: Json) -> SourceOffset:
        """Reads our own form, and that of Spark's connector. UsageError: a newer release has written it."""
        if "v" not in given:
            return _official(given)
        if given["v"] != VERSION:
            raise UsageError(
                f"the checkpoint's offset has version {given['v']}, this release knows {VERSION}: read it with the "
                "release that wrote it, or begin with a new checkpoint"
            )
        return cls(
            to=_flat(given.get("to", {})),
            since=_flat(given.get("from", {})),
            query=given.get("query", ""),
            batch=given.get("batch", -1),
            seen=given.get("seen", {}),
            group=given.get("group"),
            epochs=_flat(given.get("epochs", {})),
            ids=given.get("ids", {}),
        )

    def json(self) -> Json:
        """The form for the checkpoint. Fields without contents are left out, and keys are in order: Spark compares
        text."""
        given: Json = {"v": VERSION}
        if self.query:
            given |= {"query": self.query, "batch": self.batch, "to": _nested(self.to)}
        if self.group is not None:
            given["group"] = self.group
        if self.since:
            given["from"] = _nested(self.since)
        if self.seen:
            given["seen"] = dict(sorted(self.seen.items()))
        if self.epochs:
            given["epochs"] = _nested(self.epochs)
        if self.ids:
            given["ids"] = dict(sorted(self.ids.items()))
        return given

    def epoch(self, partition: TopicPartition, at: int) -> int:
        """Of the leader that told the end offset `at`; -1: it is not known, or the partition ends elsewhere."""
        return self.epochs.get(partition, -1) if self.to.get(partition) == at else -1

    def without(self, topics: Collection[str]) -> SourceOffset:
        """Without offsets of these topics, which were recreated."""
        to = {one: at for one, at in self.to.items() if one.topic not in topics}
        return replace(self, to=to, since={}, ids={name: id_ for name, id_ in self.ids.items() if name not in topics})

    def ranges(self, before: SourceOffset) -> PartitionRanges:
        """What is to be read between the offset `before` and this one; UsageError if that is not known."""
        found: PartitionRanges = {}
        for partition, end in sorted(self.to.items()):
            start = self.since.get(partition, before.to.get(partition))
            if start is None:
                raise UsageError(
                    f"the checkpoint does not say where {partition} begins: its offsets are not of one run"
                )
            if start < end:
                found[partition] = start, end
        return found


INITIAL = SourceOffset()


def check_checkpoint(offset: SourceOffset, options: SourceOptions) -> None:
    """UsageError if `offset` is of another group, or has no topic in common with what the query reads.

    With another query's checkpoint, what that query has read would count as read here: no error, and no rows. Spark
    shows a source nothing of the checkpoint but its offsets. Topics may be added to a subscription, and single ones
    left out: failOnDataLoss decides about those.
    """
    if offset.is_initial:
        return
    group = options.consumer.group_id or ""
    if offset.group is not None and offset.group != group:
        raise UsageError(
            f"the checkpoint is of a query with {_named(offset.group)}, this one has {_named(group)}: what was read "
            f"there would count as read here; {_REMEDY.format('the group')}"
        )
    read = offset.topics
    if read and not any(options.strategy.covers(name) for name in read):
        told = ", ".join(sorted(read))
        raise UsageError(
            f"the checkpoint is of a query that reads {told}, this one reads {options.strategy}: "
            f"{_REMEDY.format('the topics')}"
        )


def _named(group: str) -> str:
    return f"the group {group!r}" if group else "no group"


def _official(given: Json) -> SourceOffset:
    """As Spark's own Kafka connector writes it: a query that used that one goes on here."""
    try:
        return SourceOffset(to=_flat(given), batch=0)
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"{given!r} is no offset of this source: begin with a new checkpoint") from None


def _flat(nested: Mapping[str, Mapping[str, int]]) -> PartitionOffsetMap:
    return {TopicPartition(topic, int(one)): at for topic, ends in nested.items() for one, at in ends.items()}


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), at in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = at
    return found
