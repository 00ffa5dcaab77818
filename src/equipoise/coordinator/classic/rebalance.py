"""The rebalance: its causes, what it waits for, the end of the join phase, and the way of the assignment to the
members.

Three additions change timing only. `group.initial.rebalance.delay.early`: the initial delay ends when as many members
as the group last had, or all its static members, are back. `group.initial.rebalance.delay.quiet.ms`: it ends when no
new member has come for so long. `group.rebalance.debounce.ms`: a rebalance of a Stable group takes at least this long,
so that a burst of members costs one rebalance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from equipoise.coordinator.classic import lost_connections
from equipoise.coordinator.classic.group import ClassicGroupMember, Group, InitialDelay
from equipoise.coordinator.classic.replies import join_error, joined, sync_error, synced
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.events import MemberJoined, MemberLeft, MembersSynced, StateChanged
from equipoise.coordinator.outcomes import AssignmentWritten
from equipoise.coordinator.parked import ANSWERED, REBALANCE, REMOVED, SENT_AGAIN, Release, Why, not_written
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step, Write
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k12_heartbeat import HeartbeatResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import GroupMetadataValue

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_MANY = 1000  # members: the end of their join phase takes milliseconds, and comes in portions of so many


def note_syncs(group: Group, step: Step) -> None:
    """Who asked for its assignment after the end of the rebalance; nothing, if nobody did."""
    if syncs := group.journal.take_syncs():
        step.note(MembersSynced(group.group_id, step.now, group.generation_id, syncs))


class Rebalancer:
    """Moves the groups of one shard through their rebalances. It has no state of its own."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._config = shard.config
        self._timers = shard.timers

    def _transition(self, group: Group, target: State, step: Step, cause: Cause | None = None) -> None:
        """Changes the state and notes it. Rule 1.2. Kafka: ClassicGroup.transitionTo."""
        origin = group.state
        group.transition(target, self._shard.wall_time(step.now))
        step.note(StateChanged(group.group_id, step.now, origin, target, group.generation_id, cause))

    # -- members come and go

    def add_member(self, group: Group, member: ClassicGroupMember, caller: Caller, step: Step) -> None:
        """A parked client cannot heartbeat, so a new member has a longer timer than its session.

        Rule 2.7. Kafka: GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin.
        """
        member.is_new = True
        if group.in_initial_phase:
            group.new_member_added = True
            self._arm_quiet(group, step)
        self.park_join(group, member, caller, step)
        self._timers.arm(member.timer, step.now + NEW_MEMBER_JOIN_TIMEOUT_MS)
        lost_connections.look_again(self._shard, group, step)
        step.note(MemberJoined(group.group_id, step.now, member.who))

    def rename(self, group: Group, member: ClassicGroupMember, member_id: str, step: Step) -> None:
        """A static member under a new id (KIP-345). No newcomer, so it does not expire while it is parked.

        Rule 2.10. Kafka: ClassicGroup.replaceStaticMember.
        """
        self._timers.cancel(member.timer)
        group.rename(member, member_id)
        member.is_new = False
        self.arm_session(member, step.now)

    def remove_member(
        self,
        group: Group,
        member: ClassicGroupMember,
        departure: Departure,
        step: Step,
        *,
        said: str | None = None,
        limit_ms: int = 0,
        group_max_size: int = 0,
    ) -> None:
        """Takes a member out and answers what it has parked; the caller decides what follows for the others.

        Kafka: GroupMetadataManager.removeMemberAndUpdateClassicGroup.
        """
        group.remove(member.member_id)
        self._timers.cancel(member.timer)
        if member.lost_at is not None:
            self._timers.cancel(member.lost_timer)
        self.release(group, member, REMOVED, step)
        who = member.who
        group.journal.released(who, member.last_seen, step.now)
        left = MemberLeft(
            group.group_id,
            step.now,
            who,
            departure,
            said,
            silent_ms=step.now - member.last_seen,
            limit_ms=limit_ms,
            group_max_size=group_max_size,
        )
        step.note(left)

    def after_removal(self, group: Group, cause: Cause, step: Step) -> None:
        """The others rebalance, or their join phase may be complete now.

        Rule 3.4. Kafka: GroupMetadataManager.removeMemberAndUpdateClassicGroup.
        """
        if group.is_in(State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group, cause, step)
        elif group.state is State.PREPARING_REBALANCE:
            self.maybe_complete_join(group, step)

    def keep_alive(self, member: ClassicGroupMember, now: int) -> None:
        """A sign of life. Rules 2.11 and 4.1.10.

        Kafka: GroupMetadataManager.rescheduleClassicGroupMemberHeartbeat.
        """
        silent = now - member.last_seen
        if silent > member.longest_silence_ms:
            member.longest_silence_ms = silent
        member.last_seen = now
        member.lost_at = None
        self._timers.arm(member.timer, now + member.session_timeout_ms)

    def begin_session(self, member: ClassicGroupMember, now: int) -> None:
        """The end of a wait in which there could be no sign of life. Rule 2.11.

        Kafka: GroupMetadataManager.rescheduleClassicGroupMemberHeartbeat.
        """
        member.last_seen = now
        self._timers.arm(member.timer, now + member.session_timeout_ms)

    def arm_session(self, member: ClassicGroupMember, now: int) -> None:
        """A full session from now on. Rule 2.11."""
        self._timers.arm(member.timer, now + member.session_timeout_ms)

    def _arm_sessions(self, members: Iterable[ClassicGroupMember], now: int) -> None:
        """A full session for each of many."""
        by_timeout: dict[int, list[TimerKey]] = {}
        for member in members:
            by_timeout.setdefault(member.session_timeout_ms, []).append(member.timer)
        for timeout_ms, keys in by_timeout.items():
            self._timers.arm_all(keys, now + timeout_ms)

    # -- parked requests

    def park_join(self, group: Group, member: ClassicGroupMember, caller: Caller, step: Step) -> None:
        """A JoinGroup waits for the end of the join phase; its client will send no more heartbeats.

        Rules 2.7 and 7.5.
        """
        member.last_seen = step.now
        member.lost_at = member.former = None
        self.release_heartbeat(group, member, REBALANCE, step)
        self.release_join(group, member, SENT_AGAIN, step)
        group.parked.joins[member.member_id] = caller

    def release(self, group: Group, member: ClassicGroupMember, release: Release, step: Step) -> None:
        """Answers every parked request of a member."""
        self.release_join(group, member, release, step)
        self.release_sync(group, member, release, step)
        self.release_heartbeat(group, member, release, step)

    def release_all(self, group: Group, release: Release, step: Step) -> None:
        """Answers every parked request of a group."""
        for member in group.members.values():
            self.release(group, member, release, step)

    def arm_missing(self, group: Group, now: int) -> None:
        """The group was another one for a while, and is back: timers that have passed meanwhile begin anew.

        Rule A21.4.
        """
        for member in group.members.values():
            if self._timers.deadline(member.timer) is None:
                self.begin_session(member, now)
        waits = {State.PREPARING_REBALANCE: TimerKind.JOIN, State.COMPLETING_REBALANCE: TimerKind.SYNC}
        kind = waits.get(group.state)
        if kind is not None and self._timers.deadline(group.timer(kind)) is None:
            self._timers.arm(group.timer(kind), now + group.rebalance_timeout_ms)

    def release_join(self, group: Group, member: ClassicGroupMember, release: Release, step: Step) -> bool:
        """Answers a parked JoinGroup: with the generation, or with an error. Whether there was one.

        Kafka: ClassicGroup.completeJoinFuture.
        """
        caller = group.parked.joins.pop(member.member_id, None)
        if caller is None:
            return False
        if release.why is Why.ANSWERED:
            step.reply(caller, joined(group, member, caller))
        else:
            step.reply(caller, join_error(caller, release.error, member.member_id if release.names_member else ""))
        return True

    def release_sync(self, group: Group, member: ClassicGroupMember, release: Release, step: Step) -> bool:
        """Answers a parked SyncGroup: with the assignment, or with an error. Whether there was one.

        Kafka: ClassicGroup.completeSyncFuture.
        """
        caller = group.parked.syncs.pop(member.member_id, None)
        if caller is None:
            return False
        step.reply(caller, synced(group, member) if release.why is Why.ANSWERED else sync_error(release.error))
        return True

    def release_heartbeat(self, group: Group, member: ClassicGroupMember, release: Release, step: Step) -> None:
        """Answers a held heartbeat. Rule 7.3."""
        caller = group.parked.heartbeats.pop(member.member_id, None)
        if caller is not None:
            self._timers.cancel(member.hold_timer)
            step.reply(caller, HeartbeatResponse(error_code=release.error))

    # -- the join phase begins

    def prepare(self, group: Group, cause: Cause, step: Step) -> None:
        """All members are to rejoin. Rules 2.8.2, 2.8.4 and 7.2. Kafka: GroupMetadataManager.prepareRebalance."""
        if group.state is State.COMPLETING_REBALANCE:
            self.reset_assignments(group, REBALANCE, step)
        note_syncs(group, step)
        group.pending_sync.clear()
        self._timers.cancel(group.timer(TimerKind.SYNC))
        was = group.state
        group.journal.begin(cause, group.generation_id, step.now)
        self._transition(group, State.PREPARING_REBALANCE, step, cause)
        for member in group.members.values():
            self.release_heartbeat(group, member, REBALANCE, step)
        if was is State.EMPTY:
            self._begin_initial_delay(group, step)
            self.maybe_complete_join(group, step)
            return
        if was is State.STABLE and self._config.group_rebalance_debounce_ms:
            group.not_before = step.now + self._config.group_rebalance_debounce_ms
            self._timers.arm(group.timer(TimerKind.DEBOUNCE), group.not_before)
        self._timers.arm(group.timer(TimerKind.JOIN), step.now + group.rebalance_timeout_ms)
        self.maybe_complete_join(group, step)

    def reset_assignments(self, group: Group, release: Release, step: Step) -> None:
        """An assignment of a rebalance that is overtaken reaches no member.

        Rule 2.8.1. Kafka: GroupMetadataManager.resetAndPropagateAssignmentWithError.
        """
        for member in group.members.values():
            member.assignment = b""
            if self.release_sync(group, member, release, step):
                self.begin_session(member, step.now)

    def _begin_initial_delay(self, group: Group, step: Step) -> None:
        """The first member waits for others, which saves rebalances when an application starts (KIP-134).

        Kafka: GroupMetadataManager.prepareRebalance.
        """
        delay = self._config.group_initial_rebalance_delay_ms
        group.initial_delay = InitialDelay(delay, max(group.rebalance_timeout_ms - delay, 0))
        group.new_member_added = False
        self._timers.arm(group.timer(TimerKind.JOIN), step.now + delay)
        self._arm_quiet(group, step)

    def _arm_quiet(self, group: Group, step: Step) -> None:
        """The addition `group.initial.rebalance.delay.quiet.ms`; Kafka waits the whole delay. Rule 7.8."""
        quiet = self._config.group_initial_rebalance_delay_quiet_ms
        if quiet:
            self._timers.arm(group.timer(TimerKind.QUIET), step.now + quiet)

    # -- the join phase ends

    def on_quiet_timer(self, group: Group, step: Step) -> None:
        """Nobody new has come for a while: those who are there begin. A member id that was given out is waited for.

        Rule 7.8.
        """
        if group.in_initial_phase and group.has_all_joined:
            self.complete_join(group, step)

    def complete_after_expiry(self, group: Group, step: Step) -> None:
        """The one thing that ends the initial delay early on Kafka too.

        Kafka: GroupMetadataManager.removePendingMemberAndUpdateClassicGroup.
        """
        if group.in_initial_phase and group.has_all_joined:
            self.complete_join(group, step)
        else:
            self.maybe_complete_join(group, step)

    def on_join_timer(self, group: Group, step: Step) -> None:
        """The initial delay goes on while new members come, up to the rebalance timeout (KIP-134).

        Rule 2.8.3. Kafka: GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule.
        """
        if group.state is State.COMPLETING_REBALANCE:
            self._answer_portion(group, step)
        if group.state is not State.PREPARING_REBALANCE:
            return
        if group.initial_delay is not None and group.new_member_added and group.initial_delay.left_ms != 0:
            elapsed, left = group.initial_delay
            group.new_member_added = False
            delay = min(self._config.group_initial_rebalance_delay_ms, left)
            group.initial_delay = InitialDelay(delay, max(left - elapsed, 0))
            self._timers.arm(group.timer(TimerKind.JOIN), step.now + delay)
            return
        self.complete_join(group, step)

    def maybe_complete_join(self, group: Group, step: Step) -> None:
        """Ends the join phase if no member is missing. The initial delay counts, unless all former members are back.

        Rules 2.8.3 and 7.1. Kafka: GroupMetadataManager.maybeCompleteJoinPhase.
        """
        if group.state is not State.PREPARING_REBALANCE or not group.has_all_joined or step.now < group.not_before:
            return
        if group.in_initial_phase and not self._all_are_back(group):
            return
        if len(group.members) < _MANY:
            self.complete_join(group, step)
        else:  # by itself, not together with what else came at this moment: it takes tens of milliseconds
            group.initial_delay = None
            self._timers.arm(group.timer(TimerKind.JOIN), step.now)

    def _all_are_back(self, group: Group) -> bool:
        """The addition `group.initial.rebalance.delay.early`; Kafka always waits."""
        if not self._config.group_initial_rebalance_delay_early:
            return False
        if 0 < group.last_members <= len(group.members):
            return True
        return bool(group.last_static_members) and group.last_static_members <= group.static_members.keys()

    def complete_join(self, group: Group, step: Step) -> None:
        """All members have joined, or time is up. Static members that have not rejoined stay (KIP-345).

        Rules 2.8.5, 2.8.6 and 2.8.7. Kafka: GroupMetadataManager.completeClassicGroupJoin.
        """
        self._timers.cancel(group.timer(TimerKind.JOIN))
        self._remove_absent(group, step)
        if group.members and not group.parked.joins:
            # At least a millisecond: with a timeout of 0 this would come up again before anything else could happen.
            self._timers.arm(group.timer(TimerKind.JOIN), step.now + max(group.rebalance_timeout_ms, 1))
            return
        self._elect_leader(group)
        group.initial_delay = None
        group.not_before = 0
        self._timers.cancel(group.timer(TimerKind.DEBOUNCE))
        self._timers.cancel(group.timer(TimerKind.QUIET))
        group.generation_id += 1
        group.pending_sync.clear()
        if group.members:
            self._begin_generation(group, step)
        else:
            self._become_empty(group, step)

    def _remove_absent(self, group: Group, step: Step) -> None:
        """A dynamic member that has not rejoined in time is gone. Kafka: ClassicGroup.notYetRejoinedMembers."""
        joins, limit = group.parked.joins, group.rebalance_timeout_ms
        for member in [one for one in group.members.values() if one.member_id not in joins and not one.is_static]:
            self.remove_member(group, member, Departure.JOIN_EXPIRED, step, limit_ms=limit)

    def _elect_leader(self, group: Group) -> None:
        """A leader must be there to assign. Kafka: ClassicGroup.maybeElectNewJoinedLeader."""
        if group.leader not in group.parked.joins:
            group.leader = next((one for one in group.members if one in group.parked.joins), None)

    def _become_empty(self, group: Group, step: Step) -> None:
        """No member has joined: the generation still counts, and is written. Rule 2.8.6.

        Kafka: GroupMetadataManager.completeClassicGroupJoin.
        """
        group.protocol_name = None
        self._transition(group, State.EMPTY, step)
        group.update_subscribed_topics()
        group.journal.completed_empty(group.generation_id, step.now)
        step.write([group.record()])

    def _begin_generation(self, group: Group, step: Step) -> None:
        """Every parked JoinGroup is answered; the leader learns of all members.

        Kafka: ClassicGroup.initNextGeneration, GroupMetadataManager.completeClassicGroupJoin.
        """
        joins = group.parked.joins
        absent = [member.who for member in group.members.values() if member.member_id not in joins]
        group.protocol_name = group.select_protocol()
        group.update_subscribed_topics()
        self._transition(group, State.COMPLETING_REBALANCE, step)
        group.last_members = len(group.members)
        group.last_static_members = frozenset(group.static_members)
        group.assigning = False
        group.journal.joined(
            group.generation_id, group.members.values(), absent, step.now, protocol=group.protocol_name
        )
        group.pending_sync.update(group.members)
        self._timers.arm(group.timer(TimerKind.SYNC), step.now + group.rebalance_timeout_ms)
        if len(group.members) < _MANY:
            self._answer_joins(group, group.members.values(), step)
        else:
            absent_or_leader = [one for key, one in group.members.items() if key not in joins or key == group.leader]
            self._answer_joins(group, absent_or_leader, step)
            self._answer_portion(group, step)

    def _answer_portion(self, group: Group, step: Step) -> None:
        """The next of thousands hear of their generation. A millisecond later more do: others are served in between.

        Until then they wait as in the join phase. If the next rebalance overtakes them, they take part in it.
        """
        self._answer_joins(group, [group.members[one] for one in islice(group.parked.joins, _MANY)], step)
        if group.parked.joins:
            self._timers.arm(group.timer(TimerKind.JOIN), step.now + 1)

    def _answer_joins(self, group: Group, members: Collection[ClassicGroupMember], step: Step) -> None:
        """Parked JoinGroups get their generation; sessions begin. Kafka: ClassicGroup.completeJoinFuture."""
        joins = group.parked.joins
        for member in members:
            caller = joins.pop(member.member_id, None)  # `release_join`, without its calls: there may be thousands
            if caller is not None:
                member.last_seen = step.now  # it could not speak while it was parked
                step.replies.append((caller, joined(group, member, caller)))
            member.is_new = False
        self._arm_sessions(members, step.now)

    # -- the assignment

    def write_assignment(self, group: Group, assignments: dict[str, bytes], step: Step) -> None:
        """The leader has assigned. Members hear of it when the record is durable.

        Rules 3.1.11 and 6.3. Kafka: GroupMetadataManager.classicGroupSyncToClassicGroup.
        """
        group.assigning = True
        group.journal.assigned(step.now)
        outcome = AssignmentWritten(group.group_id, group.generation_id, group.leader)
        step.write([group.record(assignments)], outcome)

    def assignment_written(self, write: Write, error: ErrorCode, step: Step) -> None:
        """If the group has moved on meanwhile, the assignment is of no more use.

        Rule 3.1.11. Kafka: GroupMetadataManager.classicGroupSyncToClassicGroup, its append future.
        """
        (record,), outcome = write.records, write.outcome
        assert isinstance(outcome, AssignmentWritten)
        assert isinstance(record.value, GroupMetadataValue)
        group = self._shard.groups.get(outcome.group_id)
        if group is None or group.state is not State.COMPLETING_REBALANCE:
            return
        if (group.generation_id, group.leader) != (outcome.generation_id, outcome.leader):
            return
        if error is ErrorCode.NONE:
            self._become_stable(group, record.value, step)
        else:
            self.reset_assignments(group, not_written(error), step)
            self.prepare(group, Cause(Trigger.ASSIGNMENT_NOT_WRITTEN), step)

    def _become_stable(self, group: Group, value: GroupMetadataValue, step: Step) -> None:
        """The assignment takes effect by its record, as after a restart. Rule 3.1.11.

        Kafka: GroupMetadataManager.setAndPropagateAssignment.
        """
        self._answer_joins(group, [group.members[one] for one in group.parked.joins], step)
        group.apply(value, step.now)
        self._transition(group, State.STABLE, step)
        for member in group.members.values():
            if self.release_sync(group, member, ANSWERED, step):
                self.begin_session(member, step.now)
        group.journal.stable(group.assignments(), step.now, (one for one in group.members if one in group.pending_sync))
