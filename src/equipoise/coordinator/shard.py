"""One partition of `__consumer_offsets` and the groups it keeps: the door through which all requests come in.

Load it record by record, activate it, then give it requests and ticks, one at a time. It never asks for the
time, never waits and never fails: what goes wrong is a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from equipoise.coordinator import admin
from equipoise.coordinator.classic import membership, sync
from equipoise.coordinator.classic.group import Group, Member, WallTime, load_group, unchanged
from equipoise.coordinator.classic.join import Joining, group_created, static_member_replaced
from equipoise.coordinator.classic.rebalance import Rebalancer
from equipoise.coordinator.classic.replies import join_error, sync_error
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.offsets import offsets
from equipoise.coordinator.offsets.offsets import Offsets
from equipoise.coordinator.outcomes import (
    Answered,
    AssignmentWritten,
    GroupCreated,
    GroupTombstoned,
    OffsetsCommitted,
    StaticMemberReplaced,
)
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Caller, Step, Write, write_error
from equipoise.coordinator.timers import Timers
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic, OffsetFetchResponseTopic
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)

_EXPIRY = ("expiry",)
_LONGEST_STRING = 32_767  # bytes, in a request and in a record
_ID_SUFFIX = 37  # what `new_member_id` adds: a dash and a UUID


class Status(Enum):
    LOADING = auto()
    ACTIVE = auto()
    CLOSED = auto()


class Shard:
    """`new_id` makes the random part of member ids; it is the only thing that is not decided here.

    `now` never jumps, and all deadlines are counted in it. What is written down must mean something after a restart:
    `wall_time` tells the wall time of a `now`. Expiry of offsets compares wall times, as in Kafka.
    """

    def __init__(self, config: GroupConfig, new_id: Callable[[], str], wall_time: WallTime = unchanged) -> None:
        self.config = config
        self.status = Status.LOADING
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.timers = Timers()
        self.rebalancer = Rebalancer(self)
        self.wall_time = wall_time
        self._new_id = new_id

    # -- life

    def apply(self, record: Record, now: int) -> None:
        """A durable record takes effect: while loading, and behind every write that has succeeded."""
        key, value = record
        if isinstance(key, OffsetCommitKey):
            self.offsets.apply(key, value if isinstance(value, OffsetCommitValue) else None)
            if value is not None and self.status is Status.LOADING and key.group not in self.groups:
                self.create_group(key.group, now)
        elif isinstance(key, GroupMetadataKey) and self.status is Status.LOADING:
            if isinstance(value, GroupMetadataValue):
                self.groups[key.group] = load_group(key.group, value, now, self.wall_time)
            else:
                self.groups.pop(key.group, None)

    def activate(self, now: int) -> Step:
        """Loading is over. Every member gets its full session; a group above the size limit is rebalanced."""
        self.status = Status.ACTIVE
        step = Step()
        self.timers.arm(_EXPIRY, now + self.config.offsets_retention_check_interval_ms)
        for group in self.groups.values():
            for member in group.members.values():
                self.rebalancer.keep_alive(member, now)
            if len(group.members) > self.config.group_max_size:
                cause = Cause(Trigger.SIZE_LIMIT, limit_ms=self.config.group_max_size)
                self.rebalancer.prepare(group, cause, now, step)
        return step

    def close(self, now: int) -> Step:
        """The shard goes elsewhere: whoever waits is told to look for it."""
        step, error = Step(), ErrorCode.NOT_COORDINATOR
        self.status = Status.CLOSED
        for group in self.groups.values():
            for member in group.members.values():
                join, member_sync = group.unpark_join(member), member.awaiting_sync
                member.awaiting_sync = None
                if join is not None:
                    step.reply(join, join_error(join, error, member.member_id))
                if member_sync is not None:
                    step.reply(member_sync, sync_error(error))
                self.rebalancer.release_heartbeat(member, error, step)
            group.transition(State.DEAD, now)
        self.groups.clear()
        self.timers.clear()
        return step

    # -- writes

    def written(self, write: Write, error: ErrorCode, now: int) -> Step:
        """A write of ours is durable and takes effect, or it has failed; what follows stands in its outcome."""
        step = Step()
        if error is ErrorCode.NONE:
            for record in write.records:
                self.apply(record, now)
        self._follow(write, error, now, step)
        return step

    def _follow(self, write: Write, error: ErrorCode, now: int, step: Step) -> None:
        match write.outcome:
            case OffsetsCommitted() as outcome:
                offsets.offsets_committed(self, outcome, error, step)
            case Answered(caller, response):
                failed = error is not ErrorCode.NONE
                step.reply(caller, type(response)(error_code=write_error(error)) if failed else response)
            case GroupCreated() as outcome:
                group_created(self, outcome, error, step)
            case AssignmentWritten():
                self.rebalancer.assignment_written(write, error, now, step)
            case StaticMemberReplaced() as outcome:
                static_member_replaced(self, outcome, error, now, step)
            case GroupTombstoned() as outcome:
                admin.group_tombstoned(self, outcome, error, now, step)

    # -- time

    def next_deadline(self) -> int | None:
        return self.timers.next_deadline()

    def tick(self, now: int) -> Step:
        step = Step()
        while (key := self.timers.pop_due(now)) is not None:
            assert isinstance(key, tuple)
            self._fire(key, now, step)
        return step

    def _fire(self, key: tuple[str, ...], now: int, step: Step) -> None:
        if key == _EXPIRY:
            self.timers.arm(_EXPIRY, now + self.config.offsets_retention_check_interval_ms)
            admin.expire(self, now, step)
            return
        kind, group = key[0], self.groups.get(key[1])
        if group is None:
            return
        if kind == "session":
            membership.on_session_timer(self, group, key[2], now, step)
        elif kind == "hold":
            member = group.members.get(key[2])
            if member is not None:
                self.rebalancer.release_heartbeat(member, ErrorCode.NONE, step)
        elif kind == "join":
            self.rebalancer.on_join_timer(group, now, step)
        elif kind == "debounce":
            self.rebalancer.maybe_complete_join(group, now, step)
        elif kind == "sync":
            sync.on_sync_timer(self, group, now, step)

    # -- requests

    def join_group(self, request: JoinGroupRequest, caller: Caller, now: int) -> Step:
        step = Step()
        error = self._join_error(request, caller)
        if error is ErrorCode.NONE:
            Joining(self, request, caller, now, step).run()
        else:
            is_elsewhere = error is self.unavailable
            step.reply(caller, join_error(caller, error, "" if is_elsewhere else request.member_id))
        return step

    def _join_error(self, request: JoinGroupRequest, caller: Caller) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        low, high = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not _can_be_member_id(request.group_instance_id or caller.client_id):
            return ErrorCode.INVALID_REQUEST
        return self.unavailable

    def sync_group(self, request: SyncGroupRequest, caller: Caller, now: int) -> Step:
        step = Step()
        error = ErrorCode.INVALID_GROUP_ID if not request.group_id else self.unavailable
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The rebalance this belongs to is lost with the load; several clients take 14 here as fatal.
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is ErrorCode.NONE:
            sync.sync_group(self, request, caller, now, step)
        else:
            step.reply(caller, sync_error(error))
        return step

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: int, hold_ms: int = 0) -> Step:
        """While loading every heartbeat is fine: the session begins anew when it is over."""
        step = Step()
        error = ErrorCode.INVALID_GROUP_ID if not request.group_id else self.unavailable
        if error is ErrorCode.NONE:
            membership.heartbeat(self, request, caller, hold_ms, now, step)
        else:
            loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            step.reply(caller, HeartbeatResponse(error_code=ErrorCode.NONE if loading else error))
        return step

    def is_well(self, request: HeartbeatRequest, now: int) -> bool:
        """The short way for a heartbeat that is not to be held: a member of a Stable group, and nothing to tell.

        True: its sign of life is noted, and the answer is "all is well". Anything else is for `heartbeat`.
        """
        group = self.groups.get(request.group_id)
        if group is None or group.state is not State.STABLE or self.status is not Status.ACTIVE:
            return False
        member = group.members.get(request.member_id)
        if (
            member is None
            or member.held_heartbeat is not None
            or request.generation_id != group.generation_id
            or request.group_instance_id != member.group_instance_id
        ):
            return False
        self.rebalancer.keep_alive(member, now)
        return True

    def release_heartbeat(self, group_id: str, member_id: str, now: int) -> Step:
        """The client has something else to say, or to hear: its held heartbeat is answered "all is well"."""
        step = Step()
        member = self.find_member(group_id, member_id)
        if member is not None:
            self.rebalancer.release_heartbeat(member, ErrorCode.NONE, step)
        return step

    def leave_group(self, request: LeaveGroupRequest, caller: Caller, now: int) -> Step:
        step = Step()
        error = ErrorCode.INVALID_GROUP_ID if not request.group_id else self.unavailable
        if error is ErrorCode.NONE:
            membership.leave_group(self, request, caller, now, step)
        else:
            step.reply(caller, membership.leave_error(error))
        return step

    def commit_offsets(
        self, request: OffsetCommitRequest, topic_ids: Mapping[str, bytes], caller: Caller, now: int
    ) -> Step:
        """The empty group id is allowed here, as Kafka still does."""
        step = Step()
        error = self.unavailable
        if error is ErrorCode.NONE:
            offsets.commit_offsets(self, request, topic_ids, caller, now, step)
        else:
            step.reply(caller, offsets.commit_response(request, error))
        return step

    def fetch_offsets(
        self, group_id: str, topics: list[OffsetFetchRequestTopic] | None
    ) -> list[OffsetFetchResponseTopic]:
        return offsets.fetch_offsets(self, group_id, topics)

    def delete_offsets(self, request: OffsetDeleteRequest, caller: Caller, now: int) -> Step:
        step = Step()
        offsets.delete_offsets(self, request, caller, now, step)
        return step

    def delete_group(self, group_id: str, caller: Caller, now: int) -> Step:
        step = Step()
        admin.delete_group(self, group_id, caller, now, step)
        return step

    def topic_deleted(self, topic: str, topic_id: bytes, now: int) -> Step:
        """Offsets of a deleted topic go at once, in every group; those of an older topic of that name too."""
        step = Step()
        records = [
            offsets.tombstone(group_id, topic, partition)
            for group_id, partition, committed in self.offsets.of_topic(topic)
            if committed.topic_id in (topic_id, bytes(16))
        ]
        if records:
            step.write(records)
        return step

    # -- what the rules share

    @property
    def unavailable(self) -> ErrorCode:
        if self.status is Status.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NONE if self.status is Status.ACTIVE else ErrorCode.NOT_COORDINATOR

    def find_member(self, group_id: str, member_id: str) -> Member | None:
        group = self.groups.get(group_id)
        return group.members.get(member_id) if group is not None else None

    def create_group(self, group_id: str, now: int) -> Group:
        group = self.groups[group_id] = Group(group_id, now, self.wall_time)
        return group

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{self._new_id()}"


def _can_be_member_id(prefix: str) -> bool:
    """Whether it can be written with what `new_member_id` adds. On Kafka too such joins fail, but only in the log."""
    longest = _LONGEST_STRING - _ID_SUFFIX
    return len(prefix) * 4 <= longest or len(prefix.encode()) <= longest
