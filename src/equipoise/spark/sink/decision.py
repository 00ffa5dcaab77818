"""The decision on a micro-batch, as the sink keeps it in Kafka: the number of the last batch whose transactions are to
be committed, and the tasks that have one. A pure text format.

Theory of operation. Each task with rows writes them in a transaction of its own, and leaves it open. When all tasks
are done, the driver writes the decision in one transaction, and then commits those of the tasks. Until the decision
nothing of the batch counts, and a repeated batch begins anew. From the decision on the batch counts: a repeated batch
writes nothing, and the driver commits what is left to commit. So a row is neither lost nor written twice, wherever a
process dies.

The decision is an offset that is committed for a group of its own: the offset is the number of the batch, and its
metadata names the tasks. A commit of an offset is durable, replaces the one before, and can be part of a transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from equipoise.member import OffsetAndMetadata
from equipoise.wire.errors import UsageError

_METADATA = re.compile(r"equipoise sink batch=(\d+) (?:tasks=([\d.,-]*)|undone)")
_MOST_CHARACTERS = 4096  # offset.metadata.max.bytes, unless a broker has another


class TaskAttempt(NamedTuple):
    """A task of a batch, and which attempt at it. Attempts do not share an id: Spark runs two at once, and takes the
    result of one."""

    task: int
    attempt: int = 0

    def transactional_id(self, name: str) -> str:
        """Of the sink with this name."""
        return f"{name}-{self.task}" + (f"-{self.attempt}" if self.attempt else "")


class Decision(NamedTuple):
    """Batch `batch` counts, with the transactions of these tasks."""

    batch: int
    tasks: tuple[TaskAttempt, ...]

    def commit(self) -> OffsetAndMetadata:
        """As it is committed. UsageError: there are too many tasks for the metadata of an offset."""
        metadata = f"equipoise sink batch={self.batch} tasks={','.join(_ranges(self.tasks))}"
        if len(metadata) > _MOST_CHARACTERS:
            raise UsageError(
                f"{len(self.tasks)} tasks take {len(metadata)} characters in the metadata of an offset, "
                f"{_MOST_CHARACTERS} is the most: write with fewer tasks, for instance coalesce(1000)"
            )
        return OffsetAndMetadata(self.batch, metadata)

    def undo(self) -> OffsetAndMetadata:
        """As it is committed when the batch does not count after all: it reads as the decision on the one before."""
        return OffsetAndMetadata(self.batch, f"equipoise sink batch={self.batch} undone")

    @classmethod
    def parse(cls, committed: OffsetAndMetadata) -> Decision:
        """UsageError: somebody else has committed for the group."""
        found = _METADATA.fullmatch(committed.metadata)
        if found is None or int(found[1]) != committed.offset:
            raise UsageError(
                f"the offset {committed.offset} with metadata {committed.metadata!r} is no decision of this sink: "
                "another program commits for its group; give kafka.transactional.id a value of its own"
            )
        if found[2] is None:
            return cls(committed.offset - 1, ())
        return cls(committed.offset, tuple(_tasks(found[2])))


def _ranges(tasks: Iterable[TaskAttempt]) -> Iterator[str]:
    """First attempts as ranges, others one by one: 0-7,9,3.1"""
    first = sorted(one.task for one in tasks if not one.attempt)
    while first:
        length = next((n for n, task in enumerate(first) if task != first[0] + n), len(first))
        yield f"{first[0]}-{first[length - 1]}" if length > 1 else f"{first[0]}"
        del first[:length]
    yield from (f"{one.task}.{one.attempt}" for one in sorted(tasks) if one.attempt)


def _tasks(text: str) -> Iterator[TaskAttempt]:
    for part in filter(None, text.split(",")):
        if "." in part:
            yield TaskAttempt(*map(int, part.split(".")))
        else:
            first, _, last = part.partition("-")
            yield from map(TaskAttempt, range(int(first), int(last or first) + 1))
