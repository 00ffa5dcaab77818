"""CreateAcls (30): adds ACLs, all that are valid together. One that is there already is a success."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.acls import require_acls
from equipoise.broker.security_store import new_acl_records
from equipoise.security.acls import CLUSTER, MAX_RECORDS_PER_USER_OP, Acl, AclOperation, check_new
from equipoise.security.state import SecurityState
from equipoise.wire.apis.k30_create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.security_records import SecurityRecord

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: CreateAclsRequest, call: Call) -> CreateAclsResponse | None:
    """Answers when the ACLs are durable, and every later request heeds them (AclControlManager.createAcls)."""
    try:
        server.authorize(call, AclOperation.ALTER, CLUSTER)
        require_acls(server)
        if len(request.creations) > MAX_RECORDS_PER_USER_OP:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"more than {MAX_RECORDS_PER_USER_OP} ACLs in one request")
    except KafkaError as error:
        return CreateAclsResponse(results=[_failed(error)] * len(request.creations))
    acls = [Acl.read(one, one.resource_pattern_type, one) for one in request.creations]
    results = [_result(acl) for acl in acls]

    def decide(state: SecurityState) -> list[SecurityRecord]:
        valid = (acl for acl, result in zip(acls, results, strict=True) if result.error_code == ErrorCode.NONE)
        return new_acl_records(state, valid)

    def reply(error: KafkaError | None) -> CreateAclsResponse:
        return CreateAclsResponse(results=results if error is None else [_failed(error)] * len(results))

    server.security.answer(call, decide, reply)
    return None


def _result(acl: Acl) -> AclCreationResult:
    try:
        check_new(acl)
    except KafkaError as error:
        return _failed(error)
    return AclCreationResult(error_code=ErrorCode.NONE)


def _failed(error: KafkaError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=str(error))
