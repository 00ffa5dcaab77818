"""A query that shares partitions: it reads those that its group assigns, from the group's committed offsets."""

from __future__ import annotations

import asyncio
import logging

from equipoise.client.consumer.config import EARLIEST
from equipoise.client.group.committed_offsets import Found
from equipoise.member import TopicPartition
from equipoise.member.partitions import Owned
from equipoise.spark.options import SourceOptions
from equipoise.spark.source.batch_claim import BatchClaim, ClaimFile
from equipoise.spark.source.group_member import QueryMember
from equipoise.spark.source.offset_commits import OffsetCommits, commit_metadata, own_batch
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.spark.source.source_offset import PartitionOffsetMap, PartitionRanges, SourceOffset
from equipoise.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

_HAND_OVER_SECONDS = 10.0  # how long others wait for a commit before they get the partition without
_LAST_COMMIT_SECONDS = 5.0


class GroupPartitions:
    """On the loop of its reader."""

    def __init__(self, reader: OffsetReader, options: SourceOptions) -> None:
        self._reader = reader
        self._options = options
        self._group = QueryMember(reader)
        self._group.join(options.strategy)
        self._positions: PartitionOffsetMap = {}  # of owned partitions, where the next batch begins
        self._epochs: dict[TopicPartition, int] = {}  # of the leaders by whose word they stand there; -1: not known
        self._recreated: set[str] = set()  # topics in which no earlier offset has a meaning
        self._commits = OffsetCommits(self._group)
        self._seen: dict[str, int] | None = None  # not known yet
        self._given_up: set[TopicPartition] = set()  # which may be because their topic is deleted
        self._deleted: set[TopicPartition] = set()  # not there any more, and not yet told
        self._claim = ClaimFile()
        self._group.on_change = lambda: self._claim.move(self._group.metadata, self._group.kept)

    @property
    def is_settled(self) -> bool:
        """Whether no rebalance and no commit is under way: what the query owns stays its own for now."""
        return self._group.is_settled and not self._commits.under_way

    @property
    def rebalances(self) -> int:
        """How many assignments the member has had since the start."""
        return self._group.rebalances

    # -- batches

    async def commit_batch(self, start: SourceOffset) -> None:
        """The batch that ended at `start` is in Spark's commit log: commits it, and gives up what others wait for."""
        group = self._group
        self._forget()
        ended = {one: start.to[one] for one in group.busy.keys() & self._positions.keys() if one in start.to}
        self._positions |= ended
        self._epochs |= {one: start.epoch(one, at) for one, at in ended.items()}
        self._commit(start, at_once=bool(group.busy))
        if group.is_giving_up:
            await self._commits.settle(_HAND_OVER_SECONDS)
            self._finish_batch()

    def _finish_batch(self) -> None:
        """With what the group has refused to take, or has not taken in time."""
        known, waiting = self._commits.known, self._commits.waiting()
        held = self._group.unknown_to_group()
        self._group.finish_batch(
            {one: bounds for one, bounds in held.items() if one in waiting or known.get(one, -1) < bounds[1]}
        )

    def _forget(self) -> None:
        """Of partitions that are not owned any more: another member may read on, even if they come back later."""
        held = self._group.owned - self._group.fresh
        self._given_up |= self._positions.keys() - held
        self._positions = {one: at for one, at in self._positions.items() if one in held}

    def _commit(self, start: SourceOffset, *, at_once: bool) -> None:
        self._commits.send(self._positions, commit_metadata(start), self._epochs, at_once=at_once)

    async def positions(self, start: SourceOffset) -> PartitionOffsetMap:
        """Where the next batch begins, of each partition owned now and not wanted by others."""
        failure = self._group.take_failure()
        if failure is not None:
            raise failure
        if self._seen is None and self._group.is_settled:
            await self._note_topics(start)
        while self._group.fresh and self._seen is not None:
            await self._begin(self._group.fresh, start)
        if self._given_up:
            given_up, self._given_up = self._given_up, set()
            await self._reader.cluster.refresh()
            self._deleted |= {one for one in given_up if not self._reader.has(one)}
        return self._free()

    def _free(self) -> PartitionOffsetMap:
        self._forget()
        leaving = [callback.partitions for callback in self._group.member.callbacks]
        return {one: at for one, at in self._positions.items() if not any(one in gone for gone in leaving)}

    async def ready(self, positions: PartitionOffsetMap, seconds: float) -> PartitionOffsetMap:
        """Of these, what a batch may hold: what was not given up meanwhile, and nothing before the last batch is known
        to the group, or a crash would repeat both."""
        if not await self._commits.settle(seconds):
            self._look_for_deleted()
            return {}
        self._finish_batch()
        free = self._free()
        return {one: at for one, at in positions.items() if one in free}

    def _look_for_deleted(self) -> None:
        """A broker that assigns by itself asks partitions of a deleted topic back at once. Their commit, which waits
        for the topic, must not hold up the others."""
        absent = {one for one in self._commits.waiting() - self._group.owned if not self._reader.has(one)}
        if absent:
            self._commits.drop(absent)
            self._deleted |= absent
        elif not self._commits.waiting() <= self._group.owned:
            self._reader.cluster.request_refresh()

    def take_deleted(self) -> set[TopicPartition]:
        """What was read by the checkpoint, or given up since the last call, and is not there any more."""
        found, self._deleted = self._deleted, set()
        return found

    async def _begin(self, fresh: Owned, start: SourceOffset) -> None:
        """Finds where newly assigned partitions begin: the group knows, or the checkpoint, or startingOffsets."""
        generation = self._group.member.generation_id
        found = self._meaningful(await self._group.fetch(fresh), start)
        _tell_of_copies(found, start)
        begun = _begun(found, fresh, start, group_decides=self._options.is_exactly_once)
        begun |= await self._initial(sorted(fresh - begun.keys()))
        if self._group.member.generation_id != generation:
            return  # they may have been with others meanwhile
        self._group.fresh -= fresh
        self._positions |= begun
        self._epochs |= {one: _epoch(one, at, found, start) for one, at in begun.items()}
        self._commits.known = {one: at for one, at in self._commits.known.items() if one not in fresh}
        self._commits.known |= {
            one: at.offset for one, at in found.items() if own_batch(at.metadata, start.query) is not None
        }
        _tell_of_others(begun, start)
        # Committed before anything is read: the next owner of these partitions must not begin behind this position.
        # After a crash this query goes by its checkpoint.
        self._forget()
        self._commit(start, at_once=True)
        await self._commits.settle(_HAND_OVER_SECONDS)

    def _meaningful(self, found: Found, start: SourceOffset) -> Found:
        """Without what this query has committed in a topic that is another one now."""
        return {
            one: at
            for one, at in found.items()
            if one.topic not in self._recreated or own_batch(at.metadata, start.query) is None
        }

    async def _initial(self, partitions: list[TopicPartition]) -> PartitionOffsetMap:
        """Partitions that came after the query began are read from their first record on."""
        seen = {name: count for name, count in (self._seen or {}).items() if name not in self._recreated}
        old = [one for one in partitions if one.partition < seen.get(one.topic, 0)]
        begun = await self._reader.resolving(self._options.starting, old, {})
        return begun | await self._reader.ends([one for one in partitions if one not in begun], EARLIEST)

    # -- exactly once

    async def hold_again(self, ranges: PartitionRanges) -> PartitionRanges:
        """Of a batch that was under way when the query ended, what is read again: what the query owns now, from where
        the group stands. Others have read the rest, or are about to."""
        while True:
            await self._until_settled()
            place, mine = self._group.metadata, self._group.owned & ranges.keys()
            found = await self._group.fetch(mine)
            if self._group.metadata == place and mine <= self._group.kept:
                break
        begun = {one: found[one].offset if one in found else ranges[one][0] for one in mine}
        held = {one: (at, ranges[one][1]) for one, at in begun.items() if ranges[one][0] <= at < ranges[one][1]}
        self._group.fresh -= held.keys()
        self._positions |= {one: at for one, (at, _) in held.items()}
        return held

    async def _until_settled(self) -> None:
        patience = self._options.consumer.default_api_timeout_ms / 2000
        try:
            async with asyncio.timeout(patience):
                while not self._group.is_settled:
                    failure = self._group.take_failure()
                    if failure is not None:
                        raise failure
                    self._group.news.clear()
                    await self._group.news.wait()
        except TimeoutError:
            raise not_joined(self._group.name, patience) from None

    def claim(self, batch: SourceOffset, ranges: PartitionRanges) -> None:
        """Tells the sink which offsets it commits with the rows, and in whose name."""
        ends = {one: end for one, (_, end) in ranges.items()}
        claim = BatchClaim(batch=batch.batch, ends=ends, group=self._group.metadata)
        self._claim.write(batch.query, claim.moved(self._group.metadata, self._group.kept))

    def must_record(self, start: SourceOffset, positions: PartitionOffsetMap) -> bool:
        """Where a partition begins is in the group; what there was when the query first began is in the checkpoint."""
        return start.is_initial and self._seen is not None and self.is_settled

    def move(self, partition: TopicPartition, at: int) -> None:
        """To where it goes on after a loss; the next commit says so."""
        if partition in self._positions:
            self._positions[partition] = at
            self._epochs[partition] = -1

    def epoch(self, start: SourceOffset, partition: TopicPartition, at: int) -> int:
        """The leader epoch that was committed with this start; -1 if the batch starts elsewhere."""
        return self._epochs.get(partition, -1) if self._positions.get(partition) == at else -1

    def forget_topics(self, topics: set[str]) -> None:
        """Made anew: their partitions begin again, by what others have committed, or with their first record."""
        self._recreated |= topics
        old = {one for one in self._positions if one.topic in topics}
        self._positions = {one: at for one, at in self._positions.items() if one not in old}
        self._commits.known = {one: at for one, at in self._commits.known.items() if one not in old}
        self._group.fresh |= self._group.owned & old

    # -- topics

    async def _note_topics(self, start: SourceOffset) -> None:
        """What there is when the query first begins; a later start has it from the checkpoint."""
        if not start.is_initial:
            self._seen = dict(start.seen)
            covers, has = self._options.strategy.covers, self._reader.has
            self._deleted |= {one for one in start.to if covers(one.topic) and not has(one)}
            return
        await self._reader.cluster.refresh()
        self._reader.check_topics(self._options.strategy.topics)
        known, subscribed = self._reader.cluster.topics, self._group.member.subscription.topics
        seen = {name: known[name].partitions for name in subscribed if name in known}
        self._options.starting.check_names(TopicPartition(name, one) for name in seen for one in range(seen[name]))
        self._seen = seen

    def seen(self) -> dict[str, int]:
        """How many partitions each topic had when the query first saw it: what came later is read from its start."""
        return self._seen or {}

    # -- the engine

    def poll_begins(self) -> None:
        """Spark asks for a batch: the member is alive."""
        self._group.poll_begins()

    def poll_ends(self, busy: PartitionRanges) -> None:
        """A batch was planned. Its partitions stay the member's own until Spark has committed it."""
        if busy:
            self._group.busy = busy
        self._group.poll_ends(sum(end - start for start, end in busy.values()))

    async def close(self, start: SourceOffset) -> None:
        """Out of the group, with all that is finished committed: what waits for the end of a rebalance, too."""
        self._claim.remove()
        self._forget()
        self._commit(start, at_once=True)
        await self._commits.settle(_LAST_COMMIT_SECONDS)
        await self._group.leave()
        await self._commits.abandon()


def not_joined(group_id: str | None, seconds: float) -> KafkaError:
    """Its rebalance takes too long."""
    return KafkaError(
        ErrorCode.REBALANCE_IN_PROGRESS,
        f"group {group_id} has not said within {seconds:g} s what this query is to read: it waits for a member that is "
        "slow to join again; try later, or raise kafka.default.api.timeout.ms",
    )


def _begun(found: Found, fresh: Owned, start: SourceOffset, *, group_decides: bool) -> PartitionOffsetMap:
    """Where the group stands; but if it has that from this query, after an earlier batch, the checkpoint rules. With
    `group_decides` it does not: the group has what counts, no more and no less."""
    begun = {}
    for one in fresh:
        at = found.get(one)
        batch = start.batch if at is None else own_batch(at.metadata, start.query)
        is_behind = batch not in (None, start.batch) and not group_decides
        if one in start.to and (at is None or is_behind):
            begun[one] = start.to[one]
        elif at is not None:
            begun[one] = at.offset
    return begun


def _epoch(one: TopicPartition, at: int, found: Found, start: SourceOffset) -> int:
    """By the group's commit, or by the checkpoint: whichever says that it stands there."""
    committed = found.get(one)
    if committed is not None and committed.offset == at and committed.leader_epoch >= 0:
        return committed.leader_epoch
    return start.epoch(one, at)


def _tell_of_copies(found: Found, start: SourceOffset) -> None:
    """What is committed is in the checkpoint, before: unless that is an old copy, or another query has a copy of it."""
    batches = {one: own_batch(at.metadata, start.query) for one, at in found.items() if one in start.to}
    later = {one: batch for one, batch in batches.items() if batch is not None and batch > start.batch}
    if later:
        told = ", ".join(
            f"{one} from {start.to[one]} on" for one in sorted(later) if start.to[one] != found[one].offset
        )
        log.warning(
            "the group has commits of this query after batch %d, its checkpoint ends with batch %d: it is an old copy, "
            "or a copy of it is in use by another query, which must have its own; by the checkpoint, read again: %s",
            max(later.values()),
            start.batch,
            told or "nothing",
        )


def _tell_of_others(begun: PartitionOffsetMap, start: SourceOffset) -> None:
    moved = {one: (start.to[one], at) for one, at in begun.items() if start.to.get(one, at) != at}
    if moved:
        told = ", ".join(f"{one} from {ours} to {theirs}" for one, (ours, theirs) in sorted(moved.items()))
        log.info("others have committed since the checkpoint was written, which gives way: %s", told)
