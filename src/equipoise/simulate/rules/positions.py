"""What applications have read: no record is skipped, no acknowledged commit is lost, offsets do not go back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.step import Write
from equipoise.member import Callback, CallbackKind, TopicPartition
from equipoise.simulate.calls import Call
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.observer import Observer
from equipoise.simulate.topic_ids import topic_id
from equipoise.simulate.world import GROUP, World
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import OffsetCommitKey, OffsetCommitValue


class Positions(Observer):
    """Every application reads each of its partitions from the committed offset on, and commits what it has read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._positions: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
        self._processed: dict[TopicPartition, int] = {}  # all records below were processed, by anybody
        self._committed: dict[TopicPartition, int] = {}  # and durable
        self._foreign: dict[Call, dict[tuple[str, int], str]] = {}  # commits, and who else has their partitions

    # -- applications

    def called_back(self, name: str, callback: Callback) -> None:
        """A partition is read on from where the group is."""
        if callback.kind is not CallbackKind.ASSIGNED:
            return
        for one in callback.partitions:
            start = self._fetch(one)
            processed, committed = self._processed.get(one, 0), self._committed.get(one, 0)
            where = f"{one.topic}:{one.partition}"
            assert start <= processed, f"{name} begins with {where}={start}: from {processed} on nobody has read it"
            assert start >= committed, f"{name} begins with {where}={start}, but {committed} was acknowledged"
            self._positions[name][one] = start

    def _fetch(self, one: TopicPartition) -> int:
        shard = self._world.shard
        if shard.status is not Status.ACTIVE:
            return self._committed.get(one, 0)
        wanted = [OffsetFetchRequestTopic(name=one.topic, partition_indexes=[one.partition])]
        (topic,) = shard.fetch_offsets(GROUP, wanted)
        return max(topic.partitions[0].committed_offset, 0)

    def read(self, consumer: Consumer, records: int) -> dict[TopicPartition, int]:
        """It processes so many records of each partition that it may read. Where it is then."""
        mine = self._positions[consumer.name]
        if consumer.is_frozen or consumer.is_in_callback:
            return {}
        found = sorted(one for one in consumer.member.readable if one in mine)
        for one in found:
            mine[one] += records
            self._processed[one] = max(self._processed.get(one, 0), mine[one])
        return {one: mine[one] for one in found}

    def of(self, name: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where an application is."""
        mine = self._positions[name]
        return {one: mine[one] for one in sorted(partitions) if one in mine}

    # -- commits

    def write_ended(self, write: Write, error: ErrorCode) -> None:
        """Offsets do not go back: who commits has begun where the one before has ended."""
        if error is not ErrorCode.NONE:
            return
        for key, value in write.records:
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                one = TopicPartition(key.topic, key.partition)
                before = self._committed.get(one, 0)
                assert value.offset >= before, f"{one.topic}:{one.partition} goes back from {before} to {value.offset}"
                self._committed[one] = value.offset

    def answered(self, call: Call) -> None:
        """An accepted commit is durable, and of no partition that another member has."""
        request = call.request
        if not isinstance(request, OffsetCommitRequest):
            return
        asked = {(topic.name, row.partition_index): row for topic in request.topics for row in topic.partitions}
        accepted = [
            (topic.name, row.partition_index)
            for topic in call.reply.topics
            for row in topic.partitions
            if row.error_code == ErrorCode.NONE
        ]
        for name, partition in accepted:
            offset = asked[name, partition].committed_offset
            durable = self._committed.get(TopicPartition(name, partition), 0)
            assert durable >= offset, f"{name}:{partition}={offset} of {call.client_id} is acknowledged and not durable"
        foreign = self._foreign.pop(call, {})
        for one in accepted:
            assert one not in foreign, f"{request.member_id} commits what {foreign[one]} has"

    def arrived(self, call: Call, shard: Shard) -> None:
        """Who else has the partitions of a commit at this moment. Until it is durable they may change hands."""
        request = call.request
        group = shard.consumer_groups.get(GROUP)
        if not isinstance(request, OffsetCommitRequest) or group is None:
            return
        named = {(topic.name, row.partition_index) for topic in request.topics for row in topic.partitions}
        owners = {one: group.owners.get((topic_id(one[0]), one[1]), request.member_id) for one in named}
        foreign = {one: owner for one, owner in owners.items() if owner != request.member_id}
        if foreign:
            self._foreign[call] = foreign
