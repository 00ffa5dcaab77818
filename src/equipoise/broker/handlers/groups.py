"""The common part of the handlers of group requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.broker.groups.held_heartbeats import intervals_of
from equipoise.coordinator.liveness import liveness
from equipoise.coordinator.step import Caller
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.compiler import encode_rows, join_rows
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.liveness import SOFTWARE
from equipoise.wire.schema import Encoded, Message

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
    shard = server.group_coordinator.shard_for(call, group_id)
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
    """The call as the coordinator sees it. Every request makes one: the short way past the named tuple's own."""
    return tuple.__new__(Caller, (token or call, call.version, call.client_id, call.connection.client_host))


class LivenessRows:
    """The deadlines of the groups that an answer describes, for clients that understand them; for all others nothing.

    They become bytes group by group, in the turns of the answer.
    """

    def __init__(self, server: Server, call: Call, response: type[Message]) -> None:
        self._server = server
        self._call = call
        self._response = response
        self._rows: list[Encoded] = []
        self._is_wanted = call.connection.client_software[0] == SOFTWARE and not server.config.strict

    def add(self, group_id: str) -> None:
        """A group that the caller may describe."""
        if not self._is_wanted:
            return
        found = liveness(self._server.group_coordinator.shard_of(group_id).core, group_id, self._call.now)
        if found is not None:
            self._rows.append(encode_rows(self._response, self._call.version, [found]))

    @property
    def rows(self) -> Any:
        """All of them, for the tagged field; an empty list leaves the field out."""
        return join_rows(self._rows) if self._rows else []
