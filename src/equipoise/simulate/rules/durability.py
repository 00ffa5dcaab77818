"""What was answered is durable, and the log says what memory has."""

from __future__ import annotations

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.simulate.calls import Call
from equipoise.simulate.observer import Observer
from equipoise.simulate.world import GROUP, World
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    decode_record,
)


class Durability(Observer):
    """Keeps what the log says of generations and epochs, as far as it has been read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read = 0
        self._generation = -1
        self._epochs: dict[str, int] = {}
        self._generations_ever: set[int] = set()
        self._epochs_ever: dict[str, int] = {}  # the highest, also of members that are gone
        self._asked: dict[Call, Shard] = {}

    def arrived(self, call: Call, shard: Shard) -> None:
        """Notes whom it asks."""
        self._asked[call] = shard

    def answered(self, call: Call) -> None:
        """An assignment counts when it is in the log: after a crash the group must go on from there.

        A coordinator that is none any more, and has not heard of it, says what the log has had once."""
        is_deposed = self._asked.pop(call, self._world.shard) is not self._world.shard
        request = call.request
        if not isinstance(request, SyncGroupRequest | ConsumerGroupHeartbeatRequest):
            return
        reply = call.reply
        if reply.error_code != ErrorCode.NONE:
            return
        self._read_on()
        epochs = self._epochs_ever if is_deposed else self._epochs
        if isinstance(request, SyncGroupRequest):
            is_durable = request.generation_id == self._generation
            is_durable |= is_deposed and request.generation_id in self._generations_ever
            is_durable |= epochs.get(request.member_id, -1) >= request.generation_id
            assert is_durable, f"SyncGroup of {call.client_id} is answered before its generation is durable"
        elif reply.member_epoch > 0:
            is_durable = epochs.get(reply.member_id or request.member_id, -1) >= reply.member_epoch
            assert is_durable, f"{call.client_id} is told epoch {reply.member_epoch} before it is durable"

    def _read_on(self) -> None:
        log = self._world.coordinator.log
        for key_bytes, value_bytes in log[self._read :]:
            record = decode_record(key_bytes, value_bytes)
            assert isinstance(record, CoordinatorRecord)
            key, value = record
            if isinstance(key, GroupMetadataKey):
                self._generation = value.generation if isinstance(value, GroupMetadataValue) else -1
                self._generations_ever.add(self._generation)
            elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
                is_there = isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._epochs[key.member_id] = epoch = value.member_epoch if is_there else -1  # type: ignore[union-attr]
                self._epochs_ever[key.member_id] = max(epoch, self._epochs_ever.get(key.member_id, -1))
        self._read = len(log)

    def check_replay(self) -> None:
        """A coordinator that starts now has the group that this one has, but for what it may lose."""
        coordinator = self._world.coordinator
        shard = coordinator.shard
        if shard.status is not Status.ACTIVE or coordinator.under_way:
            return
        read = Shard(coordinator.config, lambda: "x")
        for record in coordinator.records:
            read.apply(record, self._world.now)
        assert read.consumer_groups.get(GROUP) == shard.consumer_groups.get(GROUP), "the log says otherwise"
        group = shard.groups.get(GROUP)
        if group is not None and group.state is State.STABLE:
            found = read.groups.get(GROUP)
            assert found is not None, "the log does not have the group"
            assert found.generation_id == group.generation_id, "the log has another generation"
            assert found.assignments() == group.assignments(), "the log has other assignments"
