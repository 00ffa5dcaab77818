"""Twenty-one deliberate bugs, for the hunts to find: a checker that finds nothing proves nothing.

Each replaces a function of the pure cores while a test runs; the product has none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from equipoise.assignors.cooperative_sticky import CooperativeStickyAssignor
from equipoise.coordinator import changes, shard
from equipoise.coordinator.classic import group as classic_group
from equipoise.coordinator.classic import heartbeat as classic_heartbeat
from equipoise.coordinator.classic import sync
from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.join import Joining
from equipoise.coordinator.classic.rebalance import Rebalancer
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer import heartbeat as consumer_heartbeat
from equipoise.coordinator.consumer.assignment import reconcile
from equipoise.coordinator.consumer.states import MemberStep
from equipoise.coordinator.offsets import commit
from equipoise.coordinator.parked import ANSWERED, Why
from equipoise.coordinator.timers import TimerKind
from equipoise.member.classic import join
from equipoise.member.classic.states import MemberState
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message

Patch = pytest.MonkeyPatch


class Mutant(NamedTuple):
    """`kinds`: where it is looked for. `wrong` is part of what the broken rule says."""

    name: str
    kinds: tuple[str, ...]
    apply: Callable[[Patch], None]
    wrong: str = ""


def _nothing(*_args: Any, **_more: Any) -> None:
    """What is left out."""


# -- the coordinator of classic groups


def skip_generation_check(patch: Patch) -> None:
    """Requests of any generation count."""
    original = classic_group.check_request

    def check_request(groups: Any, request: Any) -> Any:
        if request.group_id in groups:
            request.generation_id = groups[request.group_id].generation_id
        return original(groups, request)

    patch.setattr(Group, "check_generation", _nothing)
    patch.setattr(classic_heartbeat, "check_request", check_request)
    patch.setattr(sync, "check_request", check_request)


def skip_commit_check(patch: Patch) -> None:
    """Anybody commits anything."""
    patch.setattr(commit, "_validate", _nothing)


def answer_sync_before_the_write(patch: Patch) -> None:
    """Members hear of an assignment that a crash takes back."""
    original = Rebalancer.write_assignment

    def write_assignment(self: Rebalancer, group: Group, assignments: dict[str, bytes], step: Any) -> None:
        original(self, group, assignments, step)
        self._become_stable(group, step.writes[-1].records[0].value, step)

    patch.setattr(Rebalancer, "write_assignment", write_assignment)


def answer_commit_before_the_write(patch: Patch) -> None:
    """A commit is acknowledged that a crash takes back."""

    def commit_offsets(one: Any, request: Any, caller: Any, step: Any, *, topic_ids: Any) -> None:
        commit._validate(one, request, caller, step.now, topic_ids=topic_ids)
        records, _ = commit.commit_records(one, request, one.wall_time(step.now), topic_ids)
        step.write(records)
        step.reply(caller, commit.commit_response(request, ErrorCode.NONE))

    patch.setattr(commit, "commit_offsets", commit_offsets)


def forget_a_parked_join(patch: Patch) -> None:
    """Of several JoinGroups the last is not answered."""
    original = Rebalancer._answer_joins

    def answer_joins(self: Rebalancer, group: Group, members: Any, step: Any) -> None:
        if len(group.parked.joins) > 1:
            group.parked.joins.popitem()
        original(self, group, members, step)

    patch.setattr(Rebalancer, "_answer_joins", answer_joins)


def forget_a_fenced_request(patch: Patch) -> None:
    """What the old incarnation of a static member has parked is not answered."""
    patch.setattr(Joining, "fence", _nothing)


def forget_a_held_heartbeat(patch: Patch) -> None:
    """A heartbeat that waits for news never has any."""

    def release_heartbeat(self: Rebalancer, group: Group, member: Any, release: Any, step: Any) -> None:
        group.parked.heartbeats.pop(member.member_id, None)

    patch.setattr(Rebalancer, "release_heartbeat", release_heartbeat)


def drop_the_sync_timer(patch: Patch) -> None:
    """Nobody waits for those who have joined and never sync."""
    original = Rebalancer._begin_generation

    def begin_generation(self: Rebalancer, group: Group, step: Any) -> None:
        original(self, group, step)
        self._timers.cancel(group.timer(TimerKind.SYNC))

    patch.setattr(Rebalancer, "_begin_generation", begin_generation)


def forget_signs_of_life(patch: Patch) -> None:
    """A heartbeat does not lengthen the session."""
    patch.setattr(Rebalancer, "keep_alive", _nothing)


def never_expire(patch: Patch) -> None:
    """Members that are dead stay."""
    patch.setattr(classic_heartbeat, "on_session_timer", _nothing)


def begin_no_sessions(patch: Patch) -> None:
    """After a join phase no session is armed."""
    patch.setattr(Rebalancer, "_arm_sessions", _nothing)


def accept_an_old_assignment(patch: Patch) -> None:
    """The assignment of a generation that is over takes effect when it is durable."""

    def assignment_written(self: Rebalancer, write: Any, error: ErrorCode, step: Any) -> None:
        group = self._shard.groups.get(write.outcome.group_id)
        if group is not None and error is ErrorCode.NONE and group.generation_id > 0:
            group.apply(write.records[0].value, step.now)
            self._answer_joins(group, [group.members[one] for one in group.parked.joins], step)
            if group.state is not State.STABLE:
                self._transition(group, State.STABLE, step)
            for member in group.members.values():
                self.release_sync(group, member, ANSWERED, step)

    patch.setattr(Rebalancer, "assignment_written", assignment_written)


def forget_the_generation(patch: Patch) -> None:
    """A coordinator that has read a group back begins with an older generation."""
    original = classic_group.load_group

    def load_group(group_id: str, value: Any, now: int) -> Group:
        group = original(group_id, value, now)
        group.generation_id -= 1
        return group

    patch.setattr(shard, "load_group", load_group)


def forget_who_waits_at_a_move(patch: Patch) -> None:
    """A shard goes elsewhere, and those who wait hear nothing."""
    original = Rebalancer.release

    def release(self: Rebalancer, group: Group, member: Any, why: Any, step: Any) -> None:
        if why.why is not Why.UNLOADED:
            original(self, group, member, why, step)

    patch.setattr(Rebalancer, "release", release)


# -- the coordinator of consumer groups


def accept_an_old_epoch(patch: Patch) -> None:
    """Heartbeats of any epoch count."""
    patch.setattr(consumer_heartbeat._Heartbeat, "check_epoch", _nothing)


def assign_before_revoke(patch: Patch) -> None:
    """A partition goes to its next owner while the last one has it."""
    original = reconcile._next

    def next_(member: Any, situation: Any) -> Any:
        return original(member, situation._replace(owners={}))

    patch.setitem(reconcile._STEPS, MemberStep.NEXT, next_)


def answer_before_the_write(patch: Patch) -> None:
    """A member hears of an epoch that a crash takes back."""

    def answer(self: changes.Changes, step: Any, caller: Any, response: Message) -> None:
        step.reply(caller, response)
        if self.records:
            self._begin(step, None)
            self._tell(step)

    patch.setattr(changes.Changes, "answer", answer)


def keep_what_was_not_written(patch: Patch) -> None:
    """Records that could not be written stay in effect."""
    original = changes.end_write

    def end_write(one: Any, write: Any, error: ErrorCode, step: Any, *, is_lost: bool) -> ErrorCode:
        original(one, write, ErrorCode.NONE, step, is_lost=is_lost)
        return error

    patch.setattr(shard, "end_write", end_write)


# -- members


def keep_while_joining(patch: Patch) -> None:
    """An eager member does not give its partitions back before it joins."""
    patch.setattr(join, "prepare", _nothing)


def join_before_revoking(patch: Patch) -> None:
    """A member joins again while its application still has what it is to give back."""

    def go_on(member: Any, step: Any) -> None:
        joining = member.joining
        if joining.in_flight is not None or not member.may_join:
            return
        if joining.is_wanted:
            join.prepare(member)
            for callback in member.callbacks:
                member.assignment -= callback.partitions
            join._send_join(member, step)
        elif member.state is MemberState.COMPLETING_REBALANCE and member.subscription.can_assign:
            join._send_sync(member, step)

    patch.setattr(join, "go_on", go_on)


def hand_over_in_one_round(patch: Patch) -> None:
    """The cooperative assignor gives a partition away that its owner has not revoked."""
    from equipoise.assignors.sticky import StickyAssignor

    patch.setattr(CooperativeStickyAssignor, "assign", StickyAssignor.assign)


EAGER, COOPERATIVE, STATIC = ("eager", "sticky"), ("cooperative",), ("static", "static-eager")
CONSUMER = ("consumer",)
MUTANTS = (
    Mutant("skip_generation_check", (*EAGER, *COOPERATIVE), skip_generation_check, "is accepted"),
    Mutant("skip_commit_check", (*EAGER, *COOPERATIVE), skip_commit_check),
    Mutant("answer_sync_before_the_write", EAGER, answer_sync_before_the_write, "durable"),
    Mutant("answer_commit_before_the_write", EAGER, answer_commit_before_the_write, "not durable"),
    Mutant("forget_a_parked_join", EAGER, forget_a_parked_join),
    Mutant("forget_a_fenced_request", STATIC, forget_a_fenced_request),
    Mutant("forget_a_held_heartbeat", COOPERATIVE, forget_a_held_heartbeat, "never answered"),
    Mutant("drop_the_sync_timer", COOPERATIVE, drop_the_sync_timer),
    Mutant("forget_signs_of_life", COOPERATIVE, forget_signs_of_life),
    Mutant("never_expire", EAGER, never_expire),
    Mutant("begin_no_sessions", EAGER, begin_no_sessions),
    Mutant("accept_an_old_assignment", EAGER, accept_an_old_assignment),
    Mutant("forget_the_generation", EAGER, forget_the_generation),
    Mutant("forget_who_waits_at_a_move", EAGER, forget_who_waits_at_a_move, "never answered"),
    Mutant("accept_an_old_epoch", CONSUMER, accept_an_old_epoch, "is accepted"),
    Mutant("assign_before_revoke", CONSUMER, assign_before_revoke, "is owned by"),
    Mutant("answer_before_the_write", CONSUMER, answer_before_the_write, "durable"),
    Mutant("keep_what_was_not_written", CONSUMER, keep_what_was_not_written),
    Mutant("keep_while_joining", EAGER, keep_while_joining),
    Mutant("join_before_revoking", COOPERATIVE, join_before_revoking),
    Mutant("hand_over_in_one_round", COOPERATIVE, hand_over_in_one_round, "is owned by"),
)
