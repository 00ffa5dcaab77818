"""The rebalance: how it is begun, what it waits for, how the join phase ends. Section 2.8 of Kafka's rules, exactly.

Two additions change timing only. `group.initial.rebalance.delay.early`: the initial delay ends when as many
members as the group last had, or all its static ones, are back. `group.rebalance.debounce.ms`: a rebalance
of a Stable group waits at least so long, so that a burst of members costs one rebalance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group, Member
from equipoise.coordinator.classic.replies import join_error, joined, sync_error, synced
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.events import MemberJoined, MemberLeft, StateChanged
from equipoise.coordinator.outcomes import AssignmentWritten
from equipoise.coordinator.reasons import Cause, Departure, Trigger
from equipoise.coordinator.step import Caller, Step, Write, write_error
from equipoise.wire.apis.k12_heartbeat import HeartbeatResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import GroupMetadataValue

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


class Rebalancer:
    """Moves the groups of one shard through their rebalances."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._config = shard.config
        self._timers = shard.timers

    # -- members come and go

    def add_member(
        self, group: Group, member: Member, caller: Caller, protocol_type: str, now: int, step: Step
    ) -> None:
        member.is_new = True
        member.last_seen = now
        if group.in_initial_phase:
            group.new_member_added = True
        group.add(member, protocol_type)
        self.park_join(group, member, caller, now, step)
        self._timers.arm(member.timer, now + NEW_MEMBER_JOIN_TIMEOUT_MS)
        step.events.append(MemberJoined(group.group_id, now, member.who))

    def park_join(self, group: Group, member: Member, caller: Caller, now: int, step: Step) -> None:
        member.last_seen = now
        self.release_heartbeat(member, ErrorCode.REBALANCE_IN_PROGRESS, step)
        older = group.park_join(member, caller)
        if older is not None:  # a client that reconnected: the newest request is the one that counts
            step.reply(older, join_error(older, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))

    def rename(self, group: Group, member: Member, member_id: str, now: int) -> None:
        """A static member under a new id. No newcomer, so it does not expire while it is parked."""
        self._timers.cancel(member.timer)
        group.rename(member, member_id)
        member.is_new = False
        self.arm_session(member, now)

    def remove_member(
        self,
        group: Group,
        member: Member,
        departure: Departure,
        now: int,
        step: Step,
        *,
        said: str | None = None,
        limit_ms: int = 0,
    ) -> None:
        """Takes a member out and answers what it has parked; the caller decides what follows for the others."""
        join, sync = member.awaiting_join, member.awaiting_sync
        group.remove(member.member_id)
        self._timers.cancel(member.timer)
        member.awaiting_join = member.awaiting_sync = None
        if join is not None:
            step.reply(join, join_error(join, ErrorCode.UNKNOWN_MEMBER_ID, ""))
        if sync is not None:
            step.reply(sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        self.release_heartbeat(member, ErrorCode.UNKNOWN_MEMBER_ID, step)
        group.journal.released(member, now)
        silent = now - member.last_seen
        step.events.append(MemberLeft(group.group_id, now, member.who, departure, said, silent, limit_ms))

    def after_removal(self, group: Group, cause: Cause, now: int, step: Step) -> None:
        """What a removal means for those who stay."""
        if group.is_in(State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group, cause, now, step)
        elif group.state is State.PREPARING_REBALANCE:
            self.maybe_complete_join(group, now, step)

    def keep_alive(self, member: Member, now: int) -> None:
        """A sign of life, or the end of a wait in which there could be none."""
        member.last_seen = now
        self.arm_session(member, now)

    def arm_session(self, member: Member, now: int) -> None:
        self._timers.arm(member.timer, now + member.session_timeout_ms)

    def release_heartbeat(self, member: Member, error: ErrorCode, step: Step) -> None:
        held, member.held_heartbeat = member.held_heartbeat, None
        if held is not None:
            self._timers.cancel(("hold", *member.timer[1:]))
            step.reply(held, HeartbeatResponse(error_code=error))

    # -- the join phase begins

    def prepare(self, group: Group, cause: Cause, now: int, step: Step) -> None:
        if group.state is State.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, now, step)
        group.pending_sync.clear()
        self._timers.cancel(("sync", group.group_id))
        was = group.state
        group.transition(State.PREPARING_REBALANCE, now)
        group.journal.begin(cause, group.generation_id, now)
        step.events.append(
            StateChanged(group.group_id, now, was, State.PREPARING_REBALANCE, group.generation_id, cause)
        )
        for member in group.members.values():
            self.release_heartbeat(member, ErrorCode.REBALANCE_IN_PROGRESS, step)
        if was is State.EMPTY:
            self._begin_initial_delay(group, now)
            self.maybe_complete_join(group, now, step)
            return
        if was is State.STABLE and self._config.group_rebalance_debounce_ms:
            group.not_before = now + self._config.group_rebalance_debounce_ms
            self._timers.arm(("debounce", group.group_id), group.not_before)
        self._timers.arm(("join", group.group_id), now + group.rebalance_timeout_ms)
        self.maybe_complete_join(group, now, step)

    def reset_assignments(self, group: Group, error: ErrorCode, now: int, step: Step) -> None:
        """Whoever waits for an assignment is told that there will be none."""
        for member in group.members.values():
            member.assignment = b""
            caller, member.awaiting_sync = member.awaiting_sync, None
            if caller is not None:
                self.keep_alive(member, now)
                step.reply(caller, sync_error(error))

    def _begin_initial_delay(self, group: Group, now: int) -> None:
        delay = self._config.group_initial_rebalance_delay_ms
        group.initial_delay = (delay, max(group.rebalance_timeout_ms - delay, 0))
        group.new_member_added = False
        self._timers.arm(("join", group.group_id), now + delay)

    # -- the join phase ends

    def on_join_timer(self, group: Group, now: int, step: Step) -> None:
        if group.state is not State.PREPARING_REBALANCE:
            return
        if group.initial_delay is not None and group.new_member_added and group.initial_delay[1] != 0:
            elapsed, remaining = group.initial_delay
            group.new_member_added = False
            delay = min(self._config.group_initial_rebalance_delay_ms, remaining)
            group.initial_delay = (delay, max(remaining - elapsed, 0))
            self._timers.arm(("join", group.group_id), now + delay)
            return
        self.complete_join(group, now, step)

    def maybe_complete_join(self, group: Group, now: int, step: Step) -> None:
        """Completes if nobody is missing. The initial delay is waited for, unless all who were here are back."""
        if group.state is not State.PREPARING_REBALANCE or not group.has_all_joined or now < group.not_before:
            return
        if group.in_initial_phase and not self._all_are_back(group):
            return
        self.complete_join(group, now, step)

    def _all_are_back(self, group: Group) -> bool:
        if not self._config.group_initial_rebalance_delay_early:
            return False
        if 0 < group.last_members <= len(group.members):
            return True
        return bool(group.last_static_members) and group.last_static_members <= group.static_members.keys()

    def complete_join(self, group: Group, now: int, step: Step) -> None:
        """Everybody has joined, or time is up. Static members that have not rejoined stay."""
        self._timers.cancel(("join", group.group_id))
        self._remove_absent(group, now, step)
        if group.members and not group.joined:
            # At least a millisecond: with a timeout of 0 this would come up again before anything else could happen.
            self._timers.arm(("join", group.group_id), now + max(group.rebalance_timeout_ms, 1))
            return
        leader = group.members.get(group.leader or "")
        if leader is None or leader.awaiting_join is None:
            group.leader = next((m.member_id for m in group.members.values() if m.awaiting_join is not None), None)
        group.initial_delay = None
        group.not_before = 0
        self._timers.cancel(("debounce", group.group_id))
        group.generation_id += 1
        group.pending_sync.clear()
        if group.members:
            self._begin_generation(group, now, step)
        else:
            self._become_empty(group, now, step)

    def _remove_absent(self, group: Group, now: int, step: Step) -> None:
        absent = [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]
        limit = group.rebalance_timeout_ms
        for member in absent:
            self.remove_member(group, member, Departure.JOIN_EXPIRED, now, step, limit_ms=limit)

    def _become_empty(self, group: Group, now: int, step: Step) -> None:
        group.protocol_name = None
        group.transition(State.EMPTY, now)
        group.update_subscribed_topics()
        group.journal.completed_empty(group.generation_id, now)
        step.events.append(
            StateChanged(group.group_id, now, State.PREPARING_REBALANCE, State.EMPTY, group.generation_id)
        )
        step.write([group.record()])

    def _begin_generation(self, group: Group, now: int, step: Step) -> None:
        group.protocol_name = group.select_protocol()
        group.update_subscribed_topics()
        group.transition(State.COMPLETING_REBALANCE, now)
        group.last_members = len(group.members)
        group.last_static_members = frozenset(group.static_members)
        group.assigning = False
        group.journal.joined(group.generation_id, group.members.values(), now)
        step.events.append(
            StateChanged(
                group.group_id, now, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, group.generation_id
            )
        )
        for member in group.members.values():
            caller = group.unpark_join(member)
            if caller is not None:
                member.last_seen = now  # it could not speak while it was parked
                step.reply(caller, joined(group, member, caller))
            self.arm_session(member, now)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._timers.arm(("sync", group.group_id), now + group.rebalance_timeout_ms)

    # -- the assignment

    def write_assignment(self, group: Group, assignments: dict[str, bytes], now: int, step: Step) -> None:
        """The leader has spoken. Members learn of it when the record is durable, if nothing has changed meanwhile."""
        group.assigning = True
        group.journal.assigned(now)
        outcome = AssignmentWritten(group.group_id, group.generation_id, group.leader)
        step.write([group.record(assignments)], outcome)

    def assignment_written(self, write: Write, error: ErrorCode, now: int, step: Step) -> None:
        (record,), outcome = write
        assert isinstance(outcome, AssignmentWritten)
        assert isinstance(record.value, GroupMetadataValue)
        group = self._shard.groups.get(outcome.group_id)
        if group is None or group.state is not State.COMPLETING_REBALANCE:
            return
        if (group.generation_id, group.leader) != (outcome.generation_id, outcome.leader):
            return
        if error is ErrorCode.NONE:
            self._become_stable(group, record.value, now, step)
        else:
            self._assignment_not_written(group, error, now, step)

    def _become_stable(self, group: Group, value: GroupMetadataValue, now: int, step: Step) -> None:
        group.apply(value, now)
        group.transition(State.STABLE, now)
        step.events.append(
            StateChanged(group.group_id, now, State.COMPLETING_REBALANCE, State.STABLE, group.generation_id)
        )
        for member in group.members.values():
            caller, member.awaiting_sync = member.awaiting_sync, None
            if caller is not None:
                self.keep_alive(member, now)
                step.reply(caller, synced(group, member))
        group.journal.stable(group.consumers(), now)

    def _assignment_not_written(self, group: Group, error: ErrorCode, now: int, step: Step) -> None:
        self.reset_assignments(group, write_error(error), now, step)
        self.prepare(group, Cause(Trigger.ASSIGNMENT_NOT_WRITTEN), now, step)
