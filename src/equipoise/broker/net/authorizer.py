"""Authorization. Every handler that touches a resource asks; today the answer is always yes."""

from __future__ import annotations

from typing import Protocol

from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.errors import ErrorCode

# What a principal is told that may not do something to a resource of the type.
AUTHORIZATION_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Authorizer(Protocol):
    """Decides for every handler. `allow_all` is one."""

    def __call__(self, session: Session, operation: AclOperation, resource: Resource) -> bool: ...


def allow_all(session: Session, operation: AclOperation, resource: Resource) -> bool:
    """The authorizer of a broker without access rules."""
    return True


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


# "Authorized operations" as bit fields: all that Kafka knows for the kind of resource.
NO_OPERATIONS = -(2**31)  # not asked for, or the caller may not know
TOPIC_OPERATIONS = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
