"""Authorization: every handler that touches a resource asks. Without an authorizer the answer is always yes."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from equipoise.security.acls import (
    AclOperation,
    Decision,
    Resource,
    ResourceType,
    StandardAuthorizer,
    host_address,
)
from equipoise.security.session import Session
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call

log = logging.getLogger("equipoise.access")

# What a principal is told that may not do something to a resource of the type.
AUTHORIZATION_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

NO_OPERATIONS = -(2**31)  # "authorized operations" that were not asked for, or that the caller may not know
# The operations that there are for each type of resource (AclEntry.supportedOperations).
OPERATIONS = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
ALL_OPERATIONS = {kind: sum(1 << operation for operation in each) for kind, each in OPERATIONS.items()}


class Authorizer(Protocol):
    """Decides for every handler. `allow_all` is one."""

    def __call__(self, session: Session, operation: AclOperation, resource: Resource) -> bool: ...


def allow_all(session: Session, operation: AclOperation, resource: Resource) -> bool:
    """The authorizer of a broker without access rules."""
    return True


class AclAuthorizer:
    """The ACLs decide, about the principal and the host of a session (StandardAuthorizer)."""

    def __init__(self, acls: StandardAuthorizer) -> None:
        self.acls = acls

    def __call__(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        return self.decide(session, operation, resource).is_allowed

    def decide(self, session: Session, operation: AclOperation, resource: Resource) -> Decision:
        """The same, with the rule."""
        return self.acls.authorize(session.principal, host_address(session.host), operation, *resource)

    def by_resource_type(self, session: Session, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether some resource of the type is allowed."""
        return self.acls.authorize_by_resource_type(session.principal, host_address(session.host), operation, kind)


class Denials:
    """Logs what was asked for and denied, and counts it (StandardAuthorizerData.logAuditMessage)."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.counts: Counter[tuple[ResourceType, AclOperation]] = Counter()
        self._authorizer = authorizer
        self._last: tuple[Call, AclOperation, Resource] | None = None

    def note(self, call: Call, operation: AclOperation, resource: Resource) -> None:
        """Once for a request, however many partitions of a topic it names."""
        last = self._last
        if last is not None and last[0] is call and last[1:] == (operation, resource):
            return
        self._last = call, operation, resource
        self.counts[resource.type, operation] += 1
        session, decide = call.connection.session, getattr(self._authorizer, "decide", None)
        log.info(
            "%r is denied %s on %s %r from %s in %s: %s",
            session.principal,
            operation.name,
            resource.type.name,
            resource.name,
            session.host,
            call.route.api_name,
            "the authorizer" if decide is None else decide(session, operation, resource).rule,
        )
