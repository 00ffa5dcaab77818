"""Authorisation errors in words: the operation and resource that a broker denies, the principal, and the remedy."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from equipoise.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.text import printable

# The resource that each error is about (ResourceType, Errors).
RESOURCE_OF = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ResourceType.TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ResourceType.GROUP,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ResourceType.CLUSTER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ResourceType.TRANSACTIONAL_ID,
}


class AuthorizationError(KafkaError):
    """The broker denies an operation to this client's principal. An ACL can allow it."""


class AclAction(NamedTuple):
    """An operation on a resource, as an ACL allows it (Action in Kafka's Authorizer)."""

    operation: AclOperation
    resource_type: ResourceType
    name: str

    def __str__(self) -> str:
        """As Kafka's documentation has it: READ on group billing."""
        if self.resource_type is ResourceType.CLUSTER:
            return f"{self.operation.name} on the cluster"
        kind = self.resource_type.name.lower().replace("_", " ")
        return f"{self.operation.name} on {kind} {self.name}"

    def command(self, principal: str) -> str:
        """The command that allows it; kafka-acls has the same options."""
        operation = "".join(word.capitalize() for word in self.operation.name.split("_"))
        resource = "--" + self.resource_type.name.lower().replace("_", "-")
        if self.resource_type is not ResourceType.CLUSTER:
            resource += " " + shlex.quote(self.name)
        allowed = shlex.quote(principal or "User:NAME")
        return f"equipoise acls add --allow-principal {allowed} --operation {operation} {resource}"


def on_topic(operation: AclOperation, name: str) -> AclAction:
    """The operation on this topic."""
    return AclAction(operation, ResourceType.TOPIC, name)


def on_group(operation: AclOperation, name: str) -> AclAction:
    """The operation on this group."""
    return AclAction(operation, ResourceType.GROUP, name)


def on_cluster(operation: AclOperation) -> AclAction:
    """The operation on the whole cluster."""
    return AclAction(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def authorization_error(code: ErrorCode, what: str, *actions: AclAction, principal: str = "") -> AuthorizationError:
    """`what` has failed. The first of the actions that fits the error's resource is the one that is denied."""
    denied = next((one for one in actions if one.resource_type is RESOURCE_OF.get(code)), None)
    if denied is None:
        return AuthorizationError(code, printable(f"{what} ({code.name})"))
    return AuthorizationError(
        code,
        printable(
            f"{what} ({code.name}): {principal or 'the principal of this client'} needs {denied}; "
            f"allow it with `{denied.command(principal)}` or kafka-acls"
        ),
    )
