"""The common part of the handlers of group requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.broker.groups.held_heartbeats import intervals_of
from equipoise.coordinator.step import Caller
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.coordinator.classic.group import ClassicGroupMember
    from equipoise.coordinator.consumer.group import Presence


def authorize_group(server: Server, call: Call, group_id: str) -> None:
    """What every request of a member needs. Where all is allowed nothing is built to be asked: there are many."""
    if not server.allows_all:
        server.authorize(call, AclOperation.READ, Resource(ResourceType.GROUP, group_id))


def loaded_shard(server: Server, call: Call, operation: AclOperation, group_id: str) -> GroupShard:
    """The shard of a group that the caller may ask about. KafkaError: it may not, or the shard is still loaded."""
    server.authorize(call, operation, Resource(ResourceType.GROUP, group_id))
    shard = server.group_coordinator.shard_of(group_id)
    if shard.core.unavailable is not ErrorCode.NONE:
        raise KafkaError(shard.core.unavailable)
    return shard


def note_carrier(server: Server, call: Call, member: ClassicGroupMember | Presence | None) -> None:
    """The connection carries this member: if it ends, the member may be gone. Mostly it has carried no other."""
    carried = call.connection.carried
    if member is not None and member is not carried.last:
        carried.note(member, server.group_coordinator.carriers)
        notes = intervals_of(member)
        notes.principal, notes.listener = call.connection.session.principal, call.connection.listener.name


def caller_of(call: Call, token: Any = None) -> Caller:
    """The call as the coordinator sees it."""
    return Caller(token or call, call.version, call.client_id, call.connection.client_host)
