"""ACLs on the wire: the requests of `Admin`, and the values in their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from equipoise.security.acls import Acl, AclFilter
from equipoise.wire.apis.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from equipoise.wire.apis.k30_create_acls import AclCreation, CreateAclsRequest
from equipoise.wire.apis.k31_delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest


def create_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    """CreateAcls of these."""
    return CreateAclsRequest(creations=[_creation(**acl.fields()) for acl in acls])


def _creation(*, pattern_type: int, **fields: Any) -> AclCreation:
    return AclCreation(resource_pattern_type=pattern_type, **fields)


def describe_request(wanted: AclFilter) -> DescribeAclsRequest:
    """DescribeAcls with this filter."""
    return DescribeAclsRequest(**_fields(wanted))


def delete_request(filters: Sequence[AclFilter]) -> DeleteAclsRequest:
    """DeleteAcls with these filters."""
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**_fields(wanted)) for wanted in filters])


def _fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def described(answer: DescribeAclsResponse) -> list[Acl]:
    """The ACLs of an answer, ordered by resource."""
    return sorted(
        Acl.read(resource, resource.pattern_type, row) for resource in answer.resources for row in resource.acls
    )


def deleted(result: DeleteAclsFilterResult) -> list[Acl]:
    """The ACLs that a filter has removed."""
    return sorted(Acl.read(row, row.pattern_type, row) for row in result.matching_acls)
