"""What a test does to the groups of a running broker, on its loop: by name of a group, and of a member.

A member is named by its member id, its client id or its group.instance.id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from equipoise.broker.control import Control, Cut, Fail, Fault, Standing, Unheard
from equipoise.coordinator import interventions
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.step import Step
from equipoise.wire.errors import ErrorCode, UsageError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.coordinator.shard import Shard

_HEARTBEATS = ("Heartbeat", "ConsumerGroupHeartbeat")
_OF_MEMBERS = ("JoinGroup", "SyncGroup", "OffsetCommit", *_HEARTBEATS)


class Named(NamedTuple):
    """A member by all its names."""

    member_id: str
    client_id: str
    group_instance_id: str | None


def members_of(server: Server, group_id: str) -> list[Named]:
    """UsageError: there is no such group."""
    for shard in server.group_coordinator.opened:
        group = shard.find(group_id)
        if isinstance(group, ConsumerGroup):
            return [Named(one.member_id, one.client_id, one.instance_id) for one in group.members.values()]
        if group is not None:
            return [Named(one.member_id, one.client_id, one.group_instance_id) for one in group.members.values()]
    raise UsageError(f"there is no group {printable(group_id)!r}")


def find_member(server: Server, group_id: str, who: str) -> Named:
    """UsageError: there is none of that name, or more than one."""
    members = members_of(server, group_id)
    found = [one for one in members if who in one]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{one.member_id} (client id {one.client_id})" for one in found or members)
    many = f"several members are called {who!r}: use a member id" if found else f"there is no member {who!r}"
    raise UsageError(f"group {group_id}: {many}; {names or 'it has none'}")


# -- at once


def kick(server: Server, group_id: str, who: str) -> None:
    """The member is removed, as by an administrator."""
    member_id = find_member(server, group_id, who).member_id
    _act(server, group_id, lambda shard, step: interventions.kick(shard, group_id, member_id, step))


def expire(server: Server, group_id: str, who: str) -> None:
    """The member's session is over."""
    member_id = find_member(server, group_id, who).member_id
    _act(server, group_id, lambda shard, step: interventions.expire_now(shard, group_id, member_id, step))


def rebalance(server: Server, group_id: str) -> None:
    """A rebalance begins, without a cause in the group."""
    members_of(server, group_id)
    _act(server, group_id, lambda shard, step: interventions.rebalance(shard, group_id, step))


def _act(server: Server, group_id: str, act: Callable[[Shard, Step], None]) -> None:
    shard = server.group_coordinator.shard_of(group_id)
    step = Step(server.clock.now())
    act(shard.core, step)
    shard.run(step)


# -- until it is ended


def control_of(server: Server) -> Control:
    """The faults of the server, which begin with the first."""
    if server.control is None:
        server.take_control(Control())
    assert server.control is not None
    return server.control


def pause_heartbeats(server: Server, group_id: str, who: str) -> Fault:
    """The member's heartbeats count for nothing."""
    return Unheard(apis=_HEARTBEATS, group=group_id, who=find_member(server, group_id, who).member_id)


def cut(server: Server, group_id: str, who: str) -> Fault:
    """The member's connections end."""
    return Cut(who=find_member(server, group_id, who).client_id)


def fence(server: Server, group_id: str, who: str) -> Fault:
    """A static member is told that another one has its group.instance.id, whatever it asks."""
    instance_id = find_member(server, group_id, who).group_instance_id
    if instance_id is None:
        raise UsageError(f"{who} has no group.instance.id, and cannot be fenced: kick removes it")
    return Fail(apis=_OF_MEMBERS, group=group_id, who=instance_id, error=ErrorCode.FENCED_INSTANCE_ID)


def stand(server: Server, fault: Fault, end: Callable[[Standing], None]) -> Standing:
    """The fault is in force."""
    standing = Standing(fault, end)
    control_of(server).set(standing)
    return standing
