"""Computes the targets of large groups in a thread: those of 2,000 members with different subscriptions to 100,000
partitions take a second. What they are computed from are values, which nobody changes. Meanwhile the loop asks for the
interpreter in each turn, and gets it after half a millisecond instead of Python's five. Rule A12.7."""

from __future__ import annotations

import asyncio
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.server import Server
    from equipoise.coordinator.consumer.assignment.target import TargetRequest, Targets

log = logging.getLogger(__name__)

_SWITCH_S = 0.0005


class TargetThread:
    """One target after the other. The thread starts with the first."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="equipoise-targets")

    def compute(self, shard: GroupShard, asked: TargetRequest) -> None:
        """The shard gets the target when it is there."""
        try:
            future = asyncio.get_running_loop().run_in_executor(self._thread, _compute, asked)
        except RuntimeError:  # no room for a thread
            self._answer(shard, asked, asked.compute())
        else:
            future.add_done_callback(partial(self._computed, shard, asked))

    def _computed(self, shard: GroupShard, asked: TargetRequest, future: asyncio.Future[Targets]) -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            log.error("group %s: no target: %r", printable(asked.group_id), error, exc_info=error)
        self._answer(shard, asked, None if error is not None else future.result())

    def _answer(self, shard: GroupShard, asked: TargetRequest, targets: Targets | None) -> None:
        shard.run(shard.core.target_computed(asked, targets, self._server.clock.now()))

    def end(self) -> None:
        """Waits for the target that is being computed, and forgets the others."""
        self._thread.shutdown(cancel_futures=True)


def _compute(asked: TargetRequest) -> Targets:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_S))
    try:
        return asked.compute()
    finally:
        sys.setswitchinterval(before)
