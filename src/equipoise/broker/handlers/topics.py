"""The common part of the handlers that create topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def authorize_create(server: Server, call: Call, name: str) -> None:
    """CREATE on the cluster is enough, else it is needed on the topic (KafkaApis, ControllerApis.createTopics)."""
    if not server.is_authorized(call, AclOperation.CREATE, CLUSTER, quiet=True):
        server.authorize(call, AclOperation.CREATE, Resource(ResourceType.TOPIC, name))
