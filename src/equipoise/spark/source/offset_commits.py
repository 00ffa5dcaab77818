"""The commits of a query to its group, and the metadata by which it recognises its own commits.

Each offset is committed once, and again after a pause if the group refused it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping

from equipoise.member import AnyMember, Commit, OffsetAndMetadata, Step, TopicPartition
from equipoise.member.partitions import listed
from equipoise.spark.source.group_member import QueryMember
from equipoise.spark.source.source_offset import SourceOffset
from equipoise.wire.errors import KafkaError

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0
_METADATA = re.compile(r"equipoise query=(\w+) batch=(-?\d+)")


def commit_metadata(offset: SourceOffset) -> str:
    """The metadata of a commit after the batch that ended at `offset`."""
    return f"equipoise query={offset.query} batch={offset.batch}"


def own_batch(metadata: str, query: str) -> int | None:
    """The batch after which this query made the commit; None if another made it."""
    found = _METADATA.fullmatch(metadata)
    return int(found[2]) if found is not None and found[1] == query else None


class OffsetCommits:
    """On the loop of its reader."""

    def __init__(self, group: QueryMember) -> None:
        self.known: dict[TopicPartition, int] = {}  # to the group, or soon
        self.under_way: dict[asyncio.Task[None], Mapping[TopicPartition, OffsetAndMetadata]] = {}
        self._group = group
        self._pause_ends = 0.0

    def send(
        self,
        offsets: Mapping[TopicPartition, int],
        metadata: str,
        epochs: Mapping[TopicPartition, int],
        *,
        at_once: bool,
    ) -> None:
        """Those that the group does not know yet. `at_once`: also if commits were refused a moment ago."""
        new = {one: at for one, at in offsets.items() if self.known.get(one) != at}
        if not new or not (at_once or time.monotonic() >= self._pause_ends):
            return
        self.known |= new
        committed = {one: OffsetAndMetadata(at, metadata, epochs.get(one, -1)) for one, at in new.items()}
        task = asyncio.create_task(self._send(committed))
        self.under_way[task] = committed
        task.add_done_callback(lambda ended: self.under_way.pop(ended, None))

    async def _send(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Never raises: what cannot be committed is logged with its reason, and read again by the next owner."""
        error = await self._commit(offsets)
        if error is not None:
            log.warning("group %s: offsets of %s are not committed: %s", self._group.name, listed(offsets), error)
            self._pause_ends = time.monotonic() + _PAUSE_SECONDS
            self._unlearn(offsets)

    def _unlearn(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        refused = {one: at.offset for one, at in offsets.items()}
        self.known = {one: at for one, at in self.known.items() if refused.get(one) != at}

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> KafkaError | None:
        done: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

        def finish(commit: Commit) -> None:
            if not done.done():
                done.set_result(commit.error)

        def act(member: AnyMember, now: int) -> Step:
            commit, step = member.commit(offsets, now)
            commit.on_done = finish
            if commit.is_done:
                finish(commit)
            return step

        self._group.membership.act(act)
        return await done

    async def settle(self, seconds: float) -> bool:
        """Whether none is under way any more, after so long at most."""
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=max(seconds, 0))
        return not self.under_way

    def waiting(self) -> set[TopicPartition]:
        """The partitions whose commit is under way."""
        return {one for offsets in self.under_way.values() for one in offsets}

    def drop(self, partitions: set[TopicPartition]) -> None:
        """Nobody waits any more for commits that name one of these. What else they name is committed again."""
        for task, offsets in list(self.under_way.items()):
            if not partitions.isdisjoint(offsets):
                self._unlearn(offsets)
                self.under_way.pop(task)
                task.cancel()

    async def abandon(self) -> None:
        """Drops the commits that will not be answered, because the member has left."""
        under_way = list(self.under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
