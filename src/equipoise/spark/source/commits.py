"""What a query commits to its group: each place once, and again after a pause if it was refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from equipoise.member import OffsetAndMetadata, TopicPartition
from equipoise.spark.source.group import Group

_PAUSE_SECONDS = 5.0


class Commits:
    """On the loop of its session."""

    def __init__(self, group: Group) -> None:
        self.known: dict[TopicPartition, int] = {}  # to the group, or soon
        self.under_way: set[asyncio.Task[None]] = set()
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
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def _send(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        error = await self._group.commit(offsets)
        if error is not None:
            self._pause_ends = time.monotonic() + _PAUSE_SECONDS
            refused = {one: at.offset for one, at in offsets.items()}
            self.known = {one: at for one, at in self.known.items() if refused.get(one) != at}

    async def settle(self, seconds: float) -> bool:
        """Whether none is under way any more, after so long at most."""
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=max(seconds, 0))
        return not self.under_way

    async def abandon(self) -> None:
        """Those that nobody will answer any more, since the group is left."""
        under_way = list(self.under_way)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
