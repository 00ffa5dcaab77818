"""DeleteGroups (42): Empty groups and their offsets. A name given twice is answered once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.handlers.collected_reply import CollectedReply
from equipoise.broker.handlers.groups import caller_of, loaded_shard
from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.coordinator.step import Caller


def _combined(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[row for answer in answers for row in answer.results])


def handle(server: Server, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse | None:
    """Deletes each group behind its commits under way (KafkaApis.handleDeleteGroupsRequest)."""
    names = list(dict.fromkeys(request.groups_names))
    if not names:
        return DeleteGroupsResponse(results=[])
    token = CollectedReply(call, len(names), _combined)
    server.turns.run(call, map(partial(_begin, server, call, token), names), None)
    return None


def _begin(server: Server, call: Call, token: CollectedReply[DeleteGroupsResponse], name: str) -> None:
    try:
        shard = loaded_shard(server, call, AclOperation.DELETE, name)
    except KafkaError as error:
        result = DeletableGroupResult(group_id=name, error_code=error.code)
        token.reply(DeleteGroupsResponse(results=[result]))
        return
    shard.after_writes(partial(_delete, server, shard, name, caller_of(call, token)))


def _delete(server: Server, shard: GroupShard, name: str, caller: Caller) -> None:
    """Only when the commits before the request are done: their offsets must go too. So must those of commits that have
    begun meanwhile, for they are in the log before the tombstones, and take effect when the group is gone."""
    if shard.core.unavailable is not ErrorCode.NONE:  # it has moved meanwhile
        result = DeletableGroupResult(group_id=name, error_code=shard.core.unavailable)
        caller.token.reply(DeleteGroupsResponse(results=[result]))
        return
    under_way = shard.commits_under_way(name)
    shard.run(shard.core.delete_group(name, caller, server.clock.now(), under_way))
