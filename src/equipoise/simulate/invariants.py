"""Invariants of a coordinator's data, checked after every step."""

from __future__ import annotations

from equipoise.coordinator.classic.group import ClassicGroupMember, Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.timers import TimerKind
from equipoise.simulate.observer import Observer


class Invariants(Observer):
    """Raises AssertionError at the step after which the data of a group are not consistent."""

    def stepped(self, shard: Shard) -> None:
        """All groups, and all their members."""
        for group in shard.groups.values():
            _check_group(group)
            _check_sync_timer(shard, group)
            for member in group.members.values():
                _check_member(shard, group, member)


def _check_group(group: Group) -> None:
    members, parked = group.members, group.parked
    assert parked.joins.keys() | parked.syncs.keys() | parked.heartbeats.keys() <= members.keys()
    assert all(member.member_id == key for key, member in members.items())
    assert group.static_members == {
        member.group_instance_id: key for key, member in members.items() if member.is_static
    }
    assert group.leader in members if members else group.leader is None
    assert group.pending_sync <= members.keys()
    assert not group.pending_members & members.keys()
    assert (not members) <= group.is_in(State.EMPTY, State.PREPARING_REBALANCE)
    assert not (members and group.state is State.EMPTY)


def _check_sync_timer(shard: Shard, group: Group) -> None:
    is_waiting = bool(group.pending_sync) and group.is_in(State.COMPLETING_REBALANCE, State.STABLE)
    has_timer = shard.timers.deadline(group.timer(TimerKind.SYNC)) is not None
    assert has_timer or not is_waiting, "who has joined and never syncs would stay for ever"


def _check_member(shard: Shard, group: Group, member: ClassicGroupMember) -> None:
    has_timer = shard.timers.deadline(member.timer) is not None or shard.status is Status.LOADING
    parked, member_id = group.parked, member.member_id
    join, sync, heartbeat = (one.get(member_id) for one in (parked.joins, parked.syncs, parked.heartbeats))
    assert join or sync or has_timer, f"{member_id} would live for ever"
    assert sync is None or group.state is State.COMPLETING_REBALANCE
    assert heartbeat is None or group.state is State.STABLE
    for caller in (join, sync, heartbeat):
        assert caller is None or caller.token.is_parked
