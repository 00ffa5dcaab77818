"""A query that shares partitions: it reads those that its group assigns to it, from where the group stands."""

from __future__ import annotations

import asyncio
import logging

from equipoise.client.config import EARLIEST
from equipoise.member import OffsetAndMetadata, TopicPartition
from equipoise.member.partitions import Owned
from equipoise.spark.group import Group
from equipoise.spark.offsets import SourceOffset
from equipoise.spark.options import SourceOptions
from equipoise.spark.session import Offsets, Session
from equipoise.spark.tokens import is_own, token

log = logging.getLogger(__name__)

_HAND_OVER_SECONDS = 10.0  # how long others wait for a commit before they get the partition without


class Shared:
    """On the loop of its session."""

    def __init__(self, session: Session, options: SourceOptions) -> None:
        self._session = session
        self._options = options
        self._group = Group(session)
        self._group.join(options.choice)
        self._positions: Offsets = {}  # of owned partitions, where the next batch begins
        self._committed: Offsets = {}
        self._commits: set[asyncio.Task[None]] = set()
        self._seen: dict[str, int] | None = None  # not known yet

    @property
    def is_settled(self) -> bool:
        return self._group.is_settled

    @property
    def rebalances(self) -> int:
        return self._group.rebalances

    # -- batches

    async def finished(self, start: SourceOffset) -> None:
        """The batch that ended at `start` is in Spark's commit log: commits it, and gives up what others wait for."""
        group = self._group
        if group.busy:
            held = (
                group.owned - group.fresh
            ) & group.busy  # what was lost meanwhile belongs to others, if it is back too
            self._positions |= {one: start.to[one] for one in held if one in start.to}
            commit = self._commit(start)
            if commit is not None and group.is_giving_up:
                await asyncio.wait([commit], timeout=_HAND_OVER_SECONDS)
        group.finish_batch()

    def _commit(self, start: SourceOffset) -> asyncio.Task[None] | None:
        """All that is finished and not committed yet; None if there is nothing of that kind."""
        changed = {one: at for one, at in self._positions.items() if self._committed.get(one) != at}
        if not changed:
            return None
        self._committed |= changed
        task = asyncio.create_task(self._send(changed, token(start)))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        return task

    async def _send(self, offsets: Offsets, metadata: str) -> None:
        error = await self._group.commit({one: OffsetAndMetadata(at, metadata) for one, at in offsets.items()})
        if error is not None:  # the next commit takes them with it, if they are still ours
            self._committed = {one: at for one, at in self._committed.items() if offsets.get(one) != at}

    async def positions(self, start: SourceOffset) -> Offsets:
        """Where the next batch begins, of each partition owned now and not wanted by others."""
        failure = self._group.take_failure()
        if failure is not None:
            raise failure
        if self._seen is None and self._group.is_settled:
            await self._note_topics(start)
        while self._group.fresh and self._seen is not None:
            await self._begin(self._group.fresh, start)
        self._forget()
        leaving = [callback.partitions for callback in self._group.member.callbacks]
        return {one: at for one, at in self._positions.items() if not any(one in gone for gone in leaving)}

    def _forget(self) -> None:
        owned = self._group.owned
        self._positions = {one: at for one, at in self._positions.items() if one in owned}
        self._committed = {one: at for one, at in self._committed.items() if one in owned}

    async def _begin(self, fresh: Owned, start: SourceOffset) -> None:
        """Finds where newly assigned partitions begin: the group knows, or the checkpoint, or startingOffsets."""
        generation = self._group.member.generation_id
        found = await self._group.fetch(fresh)
        own = {one for one, at in found.items() if is_own(at.metadata, start.query)} | (fresh - found.keys())
        begun = {one: at.offset for one, at in found.items()}
        begun |= {one: start.to[one] for one in own if one in start.to}
        begun |= await self._initial(sorted(fresh - begun.keys()))
        if self._group.member.generation_id != generation:
            return  # they may have been with others meanwhile
        self._positions |= begun
        self._committed = {one: at for one, at in self._committed.items() if one not in fresh}
        self._committed |= {one: at.offset for one, at in found.items()}
        self._group.fresh -= fresh
        _tell_of_others(begun, start)
        # Written down before anything is read: whoever has these partitions next must not begin behind this place.
        commit = self._commit(start)
        if commit is not None:
            await asyncio.wait([commit], timeout=_HAND_OVER_SECONDS)

    async def _initial(self, partitions: list[TopicPartition]) -> Offsets:
        """Partitions that came after the query began are read from their first record on."""
        seen = self._seen or {}
        old = [one for one in partitions if one.partition < seen.get(one.topic, 0)]
        begun = await self._session.resolving(self._options.starting, old, {})
        return begun | await self._session.ends([one for one in partitions if one not in begun], EARLIEST)

    def must_record(self, start: SourceOffset, positions: Offsets) -> bool:
        """Never: where a partition begins is in the group."""
        return False

    # -- topics

    async def _note_topics(self, start: SourceOffset) -> None:
        """What there is when the query first begins; a later start has it from the checkpoint."""
        if not start.is_initial:
            self._seen = dict(start.seen)
            return
        await self._session.cluster.refresh()
        known, subscribed = self._session.cluster.topics, self._group.member.subscription.topics
        self._seen = {name: known[name].partitions for name in subscribed if name in known}

    def seen(self) -> dict[str, int]:
        return self._seen or {}

    # -- the engine

    def engine_calls(self) -> None:
        self._group.engine_calls()

    def engine_goes(self, busy: Owned, records: int) -> None:
        if busy:
            self._group.busy = busy
        self._group.engine_goes(records)

    async def close(self, start: SourceOffset) -> None:
        self._commit(start)
        await self._group.leave()


def _tell_of_others(begun: Offsets, start: SourceOffset) -> None:
    moved = {one: (start.to[one], at) for one, at in begun.items() if start.to.get(one, at) != at}
    if moved:
        told = ", ".join(f"{one} from {ours} to {theirs}" for one, (ours, theirs) in sorted(moved.items()))
        log.info("others have committed since the checkpoint was written, which gives way: %s", told)
