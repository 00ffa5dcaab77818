"""DeleteGroups (42): Empty groups and their offsets. A name given twice is answered once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import caller_of
from equipoise.broker.net.authorizer import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.coordinator.step import Caller

VERSIONS = "0-3"


class _Gathered:
    """The token of each group's deletion; the call is answered when all have come in."""

    def __init__(self, call: Call, count: int) -> None:
        self._call = call
        self._count = count
        self._results: list[DeletableGroupResult] = []

    def reply(self, response: Message) -> None:
        assert isinstance(response, DeleteGroupsResponse)
        self._results += response.results
        if len(self._results) == self._count:
            self._call.reply(DeleteGroupsResponse(results=self._results))


def handle(server: Server, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse | None:
    names = list(dict.fromkeys(request.groups_names))
    if not names:
        return DeleteGroupsResponse(results=[])
    gathered = _Gathered(call, len(names))
    server.turns.run(call, map(partial(_begin, server, call, gathered), names), None)
    return None


def _begin(server: Server, call: Call, gathered: _Gathered, name: str) -> None:
    shard = server.groups.shard_of(name)
    try:
        server.authorize(call, AclOperation.DELETE, Resource(ResourceType.GROUP, name))
        if shard.core.unavailable is not ErrorCode.NONE:
            raise KafkaError(shard.core.unavailable)
    except KafkaError as error:
        result = DeletableGroupResult(group_id=name, error_code=error.code)
        gathered.reply(DeleteGroupsResponse(results=[result]))
        return
    shard.after_writes(partial(_delete, server, shard, name, caller_of(call, gathered)))


def _delete(server: Server, shard: GroupShard, name: str, caller: Caller) -> None:
    """Only when commits under way are done: their offsets must go too."""
    shard.run(shard.core.delete_group(name, caller, server.clock.now()))
