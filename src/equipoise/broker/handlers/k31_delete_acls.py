"""DeleteAcls (31): removes the ACLs that match any of the filters, together, and tells them for each filter."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from equipoise.broker.handlers.acls import filter_of, require_acls
from equipoise.security.acls import CLUSTER, MAX_RECORDS_PER_USER_OP, Acl, AclFilter, AclOperation
from equipoise.security.state import SecurityState, acl_record
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

_MAX_COMPARISONS = 100_000  # of filters with ACLs: some 50 ms


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
        found = _find(state, filters)
        results.extend(_deleted(found[wanted]) for wanted in filters)
        doomed = {acl: None for one in found.values() if not isinstance(one, KafkaError) for acl in one}
        return [acl_record(state.acl_ids[acl], None) for acl in doomed]

    def reply(error: KafkaError | None) -> DeleteAclsResponse:
        return DeleteAclsResponse(filter_results=results if error is None else [_failed(error)] * len(filters))

    server.security.answer(call, decide, reply)
    return None


def _find(state: SecurityState, filters: list[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
    """What each filter matches. The work and the answer are bounded, so that the other clients do not wait."""
    acls = state.authorizer
    times = Counter(filters)
    if len(times) > 1 and sum(len(acls.candidates(wanted)) for wanted in times) > _MAX_COMPARISONS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"too many filters for {len(acls)} ACLs; send fewer")
    found: dict[AclFilter, list[Acl] | KafkaError] = {}
    rows = 0
    for wanted, count in times.items():
        try:
            wanted.check()
            found[wanted] = matching = acls.matching(wanted)
        except KafkaError as error:
            found[wanted] = error
        else:
            rows += count * len(matching)
    if rows > MAX_RECORDS_PER_USER_OP:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"more than {MAX_RECORDS_PER_USER_OP} ACLs match")
    return found


def _deleted(acls: list[Acl] | KafkaError) -> DeleteAclsFilterResult:
    if isinstance(acls, KafkaError):
        return _failed(acls)
    matching = [DeleteAclsMatchingAcl(error_code=ErrorCode.NONE, **acl.fields()) for acl in acls]
    return DeleteAclsFilterResult(error_code=ErrorCode.NONE, matching_acls=matching)


def _failed(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=str(error), matching_acls=[])
