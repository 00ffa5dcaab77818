"""DeleteAcls (31): removes the access rules that match any of some filters.

v2  flexible
v3  resource type USER
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.apis.k29_describe_acls import AclEntry, AclFilterRows, AclResource
from equipoise.wire.schema import Message, field


class DeleteAclsFilter(AclFilterRows):
    """The ACLs that match are deleted."""


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = field([DeleteAclsFilter])


class DeleteAclsMatchingAcl(WithError, AclResource, AclEntry):
    """An ACL that is deleted, or why it is not."""


class DeleteAclsFilterResult(WithError):
    matching_acls: list[DeleteAclsMatchingAcl] = field([DeleteAclsMatchingAcl])


class DeleteAclsResponse(Throttled, Message, api_key=31, versions="1-3", flexible="2+"):
    filter_results: list[DeleteAclsFilterResult] = field([DeleteAclsFilterResult])
