"""CreateAcls (30): adds access rules.

v2  flexible
v3  resource type USER
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.apis.k29_describe_acls import LITERAL
from equipoise.wire.schema import Message, Struct, field


class AclCreation(Struct):
    resource_type: int = field("int8")
    resource_name: str = field("string")
    resource_pattern_type: int = field("int8", "1+", default=LITERAL)
    principal: str = field("string")
    host: str = field("string")
    operation: int = field("int8")
    permission_type: int = field("int8")


class CreateAclsRequest(Message, api_key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = field([AclCreation])


class AclCreationResult(WithError):
    """Of the creation at the same place in the request."""


class CreateAclsResponse(Throttled, Message, api_key=30, versions="1-3", flexible="2+"):
    results: list[AclCreationResult] = field([AclCreationResult])
