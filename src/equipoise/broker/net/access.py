"""Who may do what. Every handler that touches a resource asks; today the answer is always yes."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

from equipoise.wire.errors import ErrorCode


class Operation(IntEnum):
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


class Kind(Enum):
    """A kind of resource; its value is the error for a principal that may not."""

    TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
    CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class Resource(NamedTuple):
    kind: Kind
    name: str


CLUSTER = Resource(Kind.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
    def __call__(self, principal: str, operation: Operation, resource: Resource) -> bool: ...


def allow_all(principal: str, operation: Operation, resource: Resource) -> bool:
    return True


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


# "Authorized operations" as bit fields: all that Kafka knows for the kind of resource.
NO_OPERATIONS = -(2**31)  # nobody has asked, or the caller may not know
TOPIC_OPERATIONS = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = _bits(
    Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
)
CLUSTER_OPERATIONS = _bits(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
