"""ConsumerGroupHeartbeat (68): members of `consumer` groups join, stay, reconcile and leave (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group, caller_of
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "0-1"
NAMES_PARTITIONS = True


def handle(server: Server, request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse | None:
    """Asks the shard; the first refusal has no message (KafkaApis.handleConsumerGroupHeartbeat)."""
    if not server.group_coordinator.config.serves_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        authorize_group(server, call, request.group_id)
        _authorize_topics(server, call, request.subscribed_topic_names or ())
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code)
    shard = server.group_coordinator.shard_of(request.group_id)
    shard.run(shard.core.consumer_group_heartbeat(request, caller_of(call), call.now))
    return None


def _authorize_topics(server: Server, call: Call, names: list[str] | tuple[()]) -> None:
    """Whoever may not describe one of the topics may not subscribe to any."""
    if not server.allows_all:
        for name in dict.fromkeys(names):
            server.authorize(call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, name))
