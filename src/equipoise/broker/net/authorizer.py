"""Authorization. Every handler that touches a resource asks; today the answer is always yes."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

from equipoise.security.session import Session
from equipoise.wire.errors import ErrorCode


class AclOperation(IntEnum):
    """Kafka's numbers for what an access rule can allow."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(Enum):
    """A kind of resource; its value is the error for a principal that may not."""

    TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
    CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class Resource(NamedTuple):
    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
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
