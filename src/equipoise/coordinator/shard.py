"""A shard: one partition of `__consumer_offsets` and its groups. All requests come in here.

Load it record by record, activate it, then give it requests and ticks, one at a time. A shard never reads a clock,
never waits and never fails: an error is a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from equipoise.coordinator import admin
from equipoise.coordinator.changes import Changes, end_write
from equipoise.coordinator.classic import heartbeat, join, leave, lost_connections, sync
from equipoise.coordinator.classic.group import ClassicGroupMember, Group, load_group
from equipoise.coordinator.classic.rebalance import Rebalancer
from equipoise.coordinator.classic.replies import join_error, sync_error
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer import holds
from equipoise.coordinator.consumer.assignment.epochs import target_computed
from equipoise.coordinator.consumer.assignment.target import TargetRequest, Targets
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.guests import requests as guests
from equipoise.coordinator.consumer.heartbeat import consumer_group_heartbeat, quiet_interval
from equipoise.coordinator.consumer.membership import lost_connections as lost_in_consumer_groups
from equipoise.coordinator.consumer.membership.expiry import on_timer
from equipoise.coordinator.consumer.offsets import check_fetch
from equipoise.coordinator.consumer.records import replay
from equipoise.coordinator.consumer.regexes import regexes_resolved
from equipoise.coordinator.incremental import calls, joins, turning
from equipoise.coordinator.metadata import MetadataImage
from equipoise.coordinator.offsets import commit, delete, expiry, fetch
from equipoise.coordinator.offsets.committed import NO_PRODUCER_ID
from equipoise.coordinator.outcomes import (
    Answered,
    AssignmentWritten,
    CommitsWritten,
    GroupCreated,
    GroupTombstoned,
    OffsetsCommitted,
    StaticMemberReplaced,
)
from equipoise.coordinator.parked import ANSWERED, UNLOADED
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.shard_state import ShardState, Status, unchanged
from equipoise.coordinator.step import Caller, Resolve, Step, Write, write_error
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic, OffsetFetchResponseTopic
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.offsets_records import (
    ConsumerGroupMetadataKey,
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

_EXPIRY = TimerKey(TimerKind.EXPIRY)
_LONGEST_STRING = 32_767  # bytes, in a request and in a record
_ID_SUFFIX = 37  # what `new_member_id` adds: a dash and a UUID


# Every heartbeat asks for these: a name of the module is found in a third of the time of a member of an enum.
_LOADING, _ACTIVE, _STABLE = Status.LOADING, Status.ACTIVE, State.STABLE
_NONE = ErrorCode.NONE  # an attribute of an enum costs more than a name of the module


class Shard(ShardState):
    """A shard serves the requests of its groups. Kafka: GroupCoordinatorShard."""

    def __init__(
        self, config: GroupConfig, new_id: Callable[[], str], wall_time: Callable[[int], WallTime] = unchanged
    ) -> None:
        super().__init__(config, new_id, wall_time)
        self.rebalancer = Rebalancer(self)

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self.rebalancer = Rebalancer(self)

    # -- life

    def apply(self, record: CoordinatorRecord, now: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """A durable record takes effect: while loading, and behind every write that has succeeded."""
        key, value = record
        if isinstance(key, OffsetCommitKey):
            self.offsets.apply(key, value if isinstance(value, OffsetCommitValue) else None, producer_id)
            if value is not None and self.status is _LOADING and self.find(key.group) is None:
                self.create_group(key.group, now)
        elif self.status is not _LOADING:
            return  # records of groups have taken effect when they were made
        elif isinstance(key, GroupMetadataKey):
            found = load_group(key.group, value, now) if isinstance(value, GroupMetadataValue) else None
            self.install(key.group, found)
        elif isinstance(key, replay.ConsumerGroupKey):
            self._replay(key, record)

    def _replay(self, key: replay.ConsumerGroupKey, record: CoordinatorRecord) -> None:
        """A group that only offsets have made gives way; one with a record of its own is a damaged log.

        Rules A20.1 and A20.2. Kafka: GroupMetadataManager.getOrMaybeCreatePersistedConsumerGroup.
        """
        group_id, group = key.group_id, self.consumer_groups.get(key.group_id)
        if record.value is None and group is None:
            return
        if isinstance(key, ConsumerGroupMetadataKey) and record.value is None:
            del self.consumer_groups[group_id]
            return
        if group is None:
            if (classic := self.groups.get(group_id)) is not None and not classic.is_simple:
                raise ProtocolError(f"group {group_id} is classic, and has a record of a consumer group")
            group = ConsumerGroup(group_id)
            self.install(group_id, group)
        replay.apply(group, record)

    def activate(self, now: int) -> Step:
        """Loading is over. Every member gets its full session; a group above the size limit is rebalanced."""
        self.status = Status.ACTIVE
        step = Step(now)
        self.timers.arm(_EXPIRY, now + self.config.offsets_retention_check_interval_ms)
        for group in self.groups.values():
            for member in group.members.values():
                self.rebalancer.begin_session(member, now)
            if len(group.members) > self.config.group_max_size:
                cause = Cause(Trigger.SIZE_LIMIT, group_max_size=self.config.group_max_size)
                self.rebalancer.prepare(group, cause, step)
        for consumer_group in list(self.consumer_groups.values()):
            turning.activate(self, consumer_group, step)
        return step

    def close(self, now: int) -> Step:
        """The shard goes elsewhere: all waiting clients are to look for it.

        Rule 5.3. Kafka: GroupMetadataManager.onUnloaded.
        """
        step = Step(now)
        self.status = Status.CLOSED
        for group in self.groups.values():
            for member in group.members.values():
                self.rebalancer.release(group, member, UNLOADED, step)
            group.transition(State.DEAD, self.wall_time(now))
        for consumer_group in self.consumer_groups.values():
            for member_id in list(consumer_group.members):
                holds.refuse(self, consumer_group, member_id, step, error=ErrorCode.NOT_COORDINATOR)
        self.groups.clear()
        self.consumer_groups.clear()
        self.timers.clear()
        return step

    # -- writes

    def written(self, write: Write, error: ErrorCode, now: int, *, is_lost: bool = True) -> Step:
        """As `settle_write`, for a single write."""
        step = Step(now)
        self.settle_write(write, error, step, is_lost=is_lost)
        return step

    def settle_write(self, write: Write, error: ErrorCode, step: Step, *, is_lost: bool = True) -> None:
        """A write of ours is durable and takes effect, or it has failed. What follows stands in its outcome, and is
        done by the module that made it. `is_lost`: after an error the records are not in the log; else `settle_late`
        may follow. Rule 0.3."""
        if write.early is not None:
            error = end_write(self, write, error, step, is_lost=is_lost)
        if error is _NONE:
            producer_id = NO_PRODUCER_ID if write.producer is None else write.producer.producer_id
            for record in write.records:
                self.apply(record, step.now, producer_id)
        match write.outcome:
            case CommitsWritten() as outcome:
                commit.commits_written(self, outcome, error, step, is_lost=is_lost)
            case OffsetsCommitted() as outcome:
                commit.offsets_committed(self, outcome, error, step, is_lost=is_lost)
            case Answered() as outcome:
                _answer(outcome, error, step)
            case GroupCreated() as outcome:
                join.group_created(self, outcome, error, step)
            case AssignmentWritten():
                self.rebalancer.assignment_written(write, error, step)
                turning.maybe_turn(self, write.outcome.group_id, step)
            case StaticMemberReplaced() as outcome:
                join.static_member_replaced(self, outcome, error, step)
            case GroupTombstoned() as outcome:
                admin.group_tombstoned(self, outcome, error, step, is_lost=is_lost)

    def settle_late(self, write: Write, error: ErrorCode, step: Step) -> None:
        """A write that was in the log when its time ran out is durable after all, or has failed. Whoever waited has had
        an answer; what is in memory follows the log. Kafka: CoordinatorRuntime.OperationTimeout.run."""
        self.settle_write(write._replace(early=None, outcome=None), error, step)
        match write.outcome:
            case OffsetsCommitted(request=request):
                self.offsets.commit_ends(request.group_id)
            case CommitsWritten(commits=commits):
                for _, known in commits:
                    self.offsets.commit_ends(known.request.group_id)
            case GroupTombstoned() as outcome:
                admin.group_gone(self, outcome, error, step)
            case StaticMemberReplaced() as outcome:
                join.replacement_late(self, outcome, error, step)

    # -- time

    def next_deadline(self) -> int | None:
        """When to call `tick` next; None: no timer is armed."""
        return self.timers.next_deadline()

    def tick(self, now: int) -> Step:
        """Every timer that is due fires. Behind a new target of a `consumer` group, behind many of its held heartbeats,
        and behind many members that are gone, the rest waits for the next call: `next_deadline` says so."""
        step, released = Step(now), 0
        while released < holds.AT_ONCE and (key := self.timers.pop_due(now)) is not None:
            released += self._weight(key)
            self._fire(key, step)
        return step

    def _weight(self, key: TimerKey) -> int:
        """What a timer takes, in held heartbeats."""
        if key.kind in (TimerKind.TARGET, TimerKind.WAKE):
            return holds.AT_ONCE
        is_of_a_crowd = key.kind in (TimerKind.SESSION, TimerKind.LOST)  # a client may leave thousands of them behind
        return int(is_of_a_crowd or (key.kind is TimerKind.HOLD and key.group_id in self.consumer_groups))

    def _fire(self, key: TimerKey, step: Step) -> None:
        """Acts on a timer. The module that armed it knows what follows."""
        if key.kind is TimerKind.EXPIRY:
            self.timers.arm(_EXPIRY, step.now + self.config.offsets_retention_check_interval_ms)
            expiry.sweep(self, step)
            return
        group = self.groups.get(key.group_id)
        if group is None:
            if (consumer_group := self.consumer_groups.get(key.group_id)) is not None:
                on_timer(self, consumer_group, key, step)
            return
        match key.kind:
            case TimerKind.JOIN | TimerKind.SYNC if key.member_id:
                pass  # of a guest before the downgrade. Rule A16.15. Kafka: GroupMetadataManager.consumerGroupJoinKey
            case TimerKind.SESSION:
                heartbeat.on_session_timer(self, group, key.member_id, step)
            case TimerKind.HOLD:
                self._release_heartbeat(group, key.member_id, step)
            case TimerKind.JOIN:
                self.rebalancer.on_join_timer(group, step)
            case TimerKind.DEBOUNCE:
                self.rebalancer.maybe_complete_join(group, step)
            case TimerKind.SYNC:
                sync.on_sync_timer(self, group, step)
            case TimerKind.QUIET:
                self.rebalancer.on_quiet_timer(group, step)
            case TimerKind.LOST:
                lost_connections.on_lost_timer(self, group, key.member_id, step)

    def _release_heartbeat(self, group: Group, member_id: str, step: Step) -> None:
        member = group.members.get(member_id)
        if member is not None:
            self.rebalancer.release_heartbeat(group, member, ANSWERED, step)

    # -- requests

    def join_group(self, request: JoinGroupRequest, caller: Caller, now: int) -> Step:
        """Rule 2.2. Kafka: GroupCoordinatorService.joinGroup."""
        step = Step(now)
        error = self._join_error(request, caller)
        if error is _NONE:
            joins.join_group(self, request, caller, step)
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
        """Rule 3.1. Kafka: GroupCoordinatorService.syncGroup."""
        step = Step(now)
        if request.group_id and self.status is _ACTIVE:
            serve = guests.sync_group if request.group_id in self.consumer_groups else sync.sync_group
            serve(self, request, caller, step)
        else:
            error = ErrorCode.INVALID_GROUP_ID if not request.group_id else self.unavailable
            # The rebalance this belongs to is lost with the load; several clients take 14 here as fatal.
            loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            step.reply(caller, sync_error(ErrorCode.REBALANCE_IN_PROGRESS if loading else error))
        return step

    def heartbeat(self, request: HeartbeatRequest, caller: Caller, now: int, hold_ms: int = 0) -> Step:
        """While loading every heartbeat is fine: the session begins anew when it is over."""
        step = Step(now)
        if request.group_id and self.status is _ACTIVE:
            serve = guests.heartbeat if request.group_id in self.consumer_groups else heartbeat.heartbeat
            serve(self, request, caller, step, hold_ms=hold_ms)
        else:
            error = ErrorCode.INVALID_GROUP_ID if not request.group_id else self.unavailable
            loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            step.reply(caller, HeartbeatResponse(error_code=ErrorCode.NONE if loading else error))
        return step

    def is_well(self, request: HeartbeatRequest, now: int) -> bool:
        """The short way for a heartbeat that is not to be held: a member of a Stable group, and nothing to tell.

        True: its sign of life is noted, and the answer is "all is well". Anything else is for `heartbeat`.
        """
        group = self.groups.get(request.group_id)
        if group is None and (kept := self.consumer_groups.get(request.group_id)) is not None:
            return calls.is_well(self, kept, request, now)
        if group is None or group.state is not _STABLE or self.status is not _ACTIVE:
            return False
        member = group.members.get(request.member_id)
        if (
            member is None
            or request.member_id in group.parked.heartbeats
            or request.generation_id != group.generation_id
            or request.group_instance_id != member.group_instance_id
        ):
            return False
        self.rebalancer.keep_alive(member, now)
        return True

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, now: int, hold_ms: int = 0
    ) -> Step:
        """Rule A3. Kafka: GroupCoordinatorService.consumerGroupHeartbeat."""
        step = Step(now)
        consumer_group_heartbeat(self, request, caller, step, hold_ms=hold_ms)
        return step

    def regexes_resolved(self, asked: Resolve, found: Mapping[str, Collection[str]], now: int) -> Step:
        """What the runner has found for a `Resolve`: the topics of each regular expression. Rule A14.5."""
        step = Step(now)
        regexes_resolved(self, asked, found, step)
        return step

    def target_computed(self, asked: TargetRequest, targets: Targets | None, now: int) -> Step:
        """The runner has computed a target; None: it could not. Rule A12.7."""
        target_computed(self, asked, targets, now)
        return Step(now)

    def quiet_interval(
        self, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str, now: int
    ) -> int | None:
        """The short way for a ConsumerGroupHeartbeat that changes nothing, as `is_well` for a Heartbeat."""
        if self.status is not _ACTIVE:
            return None
        return quiet_interval(self, request, (client_id, client_host), now)

    def changes(self, group_id: str) -> Changes:
        """Changes to a `consumer` group, for one input."""
        return Changes(self, group_id)

    def release_heartbeat(self, group_id: str, member_id: str, now: int, is_interrupted: bool = False) -> Step:
        """The client has something else to say, or to hear: its held heartbeat is answered "all is well"."""
        step = Step(now)
        group = self.groups.get(group_id)
        if group is not None:
            self._release_heartbeat(group, member_id, step)
        elif (consumer_group := self.consumer_groups.get(group_id)) is not None:
            holds.release(self, consumer_group, member_id, step, is_interrupted=is_interrupted)
        return step

    def leave_group(self, request: LeaveGroupRequest, caller: Caller, now: int) -> Step:
        """Rule 3.4. Kafka: GroupCoordinatorService.leaveGroup."""
        step = Step(now)
        error = ErrorCode.INVALID_GROUP_ID if not request.group_id else self.unavailable
        if error is _NONE:
            serve = guests.leave_group if request.group_id in self.consumer_groups else leave.leave_group
            serve(self, request, caller, step)
        else:
            step.reply(caller, leave.leave_error(error))
        return step

    def connection_lost(self, group_id: str, member_id: str, now: int) -> Step:
        """The runner says that a member has no connection left. Rule 7.9."""
        step = Step(now)
        if self.status is _ACTIVE and (group := self.consumer_groups.get(group_id)) is not None:
            lost_in_consumer_groups.connection_lost(self, group, member_id, step)
        elif self.status is _ACTIVE:
            lost_connections.connection_lost(self, group_id, member_id, step)
        return step

    def client_came(self, group_id: str, member_id: str, now: int) -> Step:
        """The runner says that the client of a lost member is connected again. Rule 7.9.3."""
        if (group := self.consumer_groups.get(group_id)) is not None:
            lost_in_consumer_groups.client_came(self, group, member_id)
        return Step(now)

    def spare_lost(self, since: int, now: int) -> Step:
        """The runner says that many connections have ended since then. Rule 7.9.1."""
        step = Step(now)
        lost_connections.spare_lost(self, since, step)
        for group in self.consumer_groups.values():
            lost_in_consumer_groups.spare_lost(self, group, since, now)
        return step

    def commit_offsets(
        self, request: OffsetCommitRequest, topic_ids: Mapping[str, bytes], caller: Caller, now: int
    ) -> Step:
        """The empty group id is allowed here, as Kafka still does."""
        step = Step(now)
        error = self.unavailable
        if error is _NONE:
            commit.commit_offsets(self, request, caller, step, topic_ids=topic_ids)
        else:
            step.reply(caller, commit.commit_response(request, error))
        return step

    def commit_again(
        self, known: commit.KnownCommit, offsets: Sequence[int], epochs: Sequence[int], caller: Caller, *, now: int
    ) -> Step:
        """As `commit_offsets`, for a commit that is like one before but for its offsets and their epochs."""
        step = Step(now)
        if self.status is _ACTIVE:
            commit.commit_again(self, known, offsets, epochs, caller=caller, step=step)
        else:
            step.reply(caller, commit.commit_response(known.request, self.unavailable))
        return step

    def find_committing(self, known: commit.KnownCommit) -> ClassicGroupMember | None:
        """The member, if a commit like this one is sure to be accepted: `join_commits` may then take it."""
        return commit.find_committing(self, known.request) if self.status is _ACTIVE else None

    def fetch_offsets(
        self, group_id: str, topics: list[OffsetFetchRequestTopic] | None, *, require_stable: bool = False
    ) -> list[OffsetFetchResponseTopic]:
        """Rule 4.3. It changes nothing, and may be asked at any time."""
        return fetch.fetch_offsets(self.offsets, group_id, topics, require_stable=require_stable)

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Raises KafkaError if a member of a `consumer` group may not read its offsets. Rule A17.8."""
        group = self.consumer_groups.get(group_id)
        if group is not None:
            check_fetch(group, member_id, member_epoch)

    def delete_offsets(
        self, request: OffsetDeleteRequest, caller: Caller, now: int, under_way: Iterable[tuple[str, int]] = ()
    ) -> Step:
        """Rule 4.4. `under_way`: topics and partitions of the group's commits that are not yet durable."""
        step = Step(now)
        delete.delete_offsets(self, request, caller, step, under_way=under_way)
        return step

    def delete_group(self, group_id: str, caller: Caller, now: int, under_way: Iterable[tuple[str, int]] = ()) -> Step:
        """Rule 1.4. `under_way`: topics and partitions of the group's commits that are not yet durable."""
        step = Step(now)
        admin.delete_group(self, group_id, caller, step, under_way=under_way)
        return step

    def topic_deleted(self, topic: str, topic_id: bytes, now: int, under_way: Iterable[tuple[str, int]] = ()) -> Step:
        """Rule 4.6. The runner says which topics are gone. `under_way`: groups and partitions of commits for the topic
        that are not yet durable."""
        step = Step(now)
        delete.topic_deleted(self, topic, topic_id, step, under_way=under_way)
        return step

    def metadata_changed(self, image: MetadataImage, names: Iterable[str], now: int) -> Step:
        """Topics were created, deleted or changed. Groups that read them look at the new image with their next
        heartbeat. Rules A13.1 and A13.2. Kafka: GroupMetadataManager.onMetadataUpdate.
        """
        step = Step(now)
        before, self.image, changed = self.image, image, list(names)
        if any(name in image.topics and name not in before.topics for name in changed):
            self.new_topics_version = image.version
        for group in self.consumer_groups.values():
            if any(map(group.is_subscribed_to, changed)):
                group.refreshed_at_epoch = None
                has_timer = self.config.group_consumer_assignment_timer or group.incremental is not None
                if has_timer and self.status is _ACTIVE:
                    self.timers.arm(group.timer(TimerKind.TARGET), now)
        return step


def _answer(outcome: Answered, error: ErrorCode, step: Step) -> None:
    caller, response = outcome
    if error is not _NONE:
        code = write_error(error)
        is_join = isinstance(response, JoinGroupResponse)
        response = join_error(caller, code, "") if is_join else type(response)(error_code=code)
    step.reply(caller, response)


def _can_be_member_id(prefix: str) -> bool:
    """Whether it can be written with what `new_member_id` adds. On Kafka too such joins fail, but only in the log."""
    longest = _LONGEST_STRING - _ID_SUFFIX
    return len(prefix) * 4 <= longest or len(prefix.encode()) <= longest
