"""A query's place in its topics, as Spark keeps it in the checkpoint: JSON, written one way only.

`to` is where each partition of the batch ends. `from` is where it begins, if that is not where the offset before
has it: it was assigned anew, or somebody else has read on meanwhile. So a batch can be read again from its two offsets
alone. Spark compares offsets as text: keys are in order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import UsageError

VERSION = 1
Offsets = Mapping[TopicPartition, int]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """`query` is the id of the query, `batch` the number of this batch; both go into the metadata of commits.

    `seen`: how many partitions each topic had when the query began; those that came later are read from their start.
    `group`: of the query, "" if it has none; None in checkpoints that were written before offsets said so.
    `epochs`: of the leaders that told where partitions end. `ids`: of the topics, in hexadecimal. Where they are not
    known, nothing can be checked.
    """

    to: Offsets = field(default_factory=dict)
    since: Offsets = field(default_factory=dict)  # "from" in JSON
    query: str = ""
    batch: int = -1
    seen: Mapping[str, int] = field(default_factory=dict)
    group: str | None = None
    epochs: Offsets = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_initial(self) -> bool:
        return self.batch < 0

    @property
    def topics(self) -> set[str]:
        return {one.topic for one in self.to} | self.seen.keys()

    @classmethod
    def parse(cls, given: Json) -> SourceOffset:
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
        """Of the leader by whose word the partition stands at this place; -1: not known, or it stands elsewhere."""
        return self.epochs.get(partition, -1) if self.to.get(partition) == at else -1

    def without(self, topics: Collection[str]) -> SourceOffset:
        """Of topics that were made anew no place has a meaning any more."""
        to = {one: at for one, at in self.to.items() if one.topic not in topics}
        return replace(self, to=to, since={}, ids={name: id_ for name, id_ in self.ids.items() if name not in topics})

    def ranges(self, before: SourceOffset) -> dict[TopicPartition, tuple[int, int]]:
        """What is to be read between the offset `before` and this one; UsageError if that is not known."""
        found: dict[TopicPartition, tuple[int, int]] = {}
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


def _official(given: Json) -> SourceOffset:
    """As Spark's own Kafka connector writes it: a query that used that one goes on here."""
    try:
        return SourceOffset(to=_flat(given), batch=0)
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"{given!r} is no offset of this source: begin with a new checkpoint") from None


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, int(one)): at for topic, ends in nested.items() for one, at in ends.items()}


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), at in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = at
    return found
