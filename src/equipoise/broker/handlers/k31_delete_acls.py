"""DeleteAcls (31): removes the ACLs that match any of the filters, together, and tells them for each filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.acls import filter_of, require_acls
from equipoise.security.acls import CLUSTER, MAX_RECORDS_PER_USER_OP, Acl, AclFilter, AclOperation
from equipoise.security.state import SecurityState, acl_of, acl_record
from equipoise.wire.apis.k31_delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.security_records import SecurityRecord

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "1-3"
_MAX_COMPARISONS = 1_000_000  # half a second


def handle(server: Server, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse | None:
    """Answers when the removal is durable, and no later request heeds the ACLs (AclControlManager.deleteAcls)."""
    try:
        server.authorize(call, AclOperation.ALTER, CLUSTER)
        require_acls(server)
    except KafkaError as error:
        return DeleteAclsResponse(filter_results=[_failed(error)] * len(request.filters))
    filters = [filter_of(asked) for asked in request.filters]
    results: list[DeleteAclsFilterResult] = []

    def decide(state: SecurityState) -> list[SecurityRecord]:
        if len(filters) * len(state.acls) > _MAX_COMPARISONS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"too many filters for {len(state.acls)} ACLs; send fewer")
        found = [_matching(state, wanted) for wanted in filters]
        results.extend(_failed(one) if isinstance(one, KafkaError) else _deleted(one) for one in found)
        doomed = {acl for one in found if not isinstance(one, KafkaError) for acl in one}
        if len(doomed) > MAX_RECORDS_PER_USER_OP:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {MAX_RECORDS_PER_USER_OP} ACLs match")
        return [acl_record(acl_id, None) for acl_id, value in state.acls.items() if acl_of(value) in doomed]

    def reply(error: KafkaError | None) -> DeleteAclsResponse:
        return DeleteAclsResponse(filter_results=results if error is None else [_failed(error)] * len(filters))

    server.security.answer(call, decide, reply)
    return None


def _matching(state: SecurityState, wanted: AclFilter) -> list[Acl] | KafkaError:
    try:
        wanted.check()
    except KafkaError as error:
        return error
    return state.authorizer.matching(wanted)


def _deleted(acls: list[Acl]) -> DeleteAclsFilterResult:
    matching = [DeleteAclsMatchingAcl(error_code=ErrorCode.NONE, **acl.fields()) for acl in acls]
    return DeleteAclsFilterResult(error_code=ErrorCode.NONE, matching_acls=matching)


def _failed(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=str(error), matching_acls=[])
