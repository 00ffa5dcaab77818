"""ConsumerGroupHeartbeat (68): members of `consumer` groups join, stay, reconcile and leave (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import authorize_group, caller_of, note_carrier
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

NAMES_PARTITIONS = True


def handle(
    server: Server, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse | bytes | None:
    """Answers at once where nothing changes, or asks the shard; a refusal here has no message
    (KafkaApis.handleConsumerGroupHeartbeat)."""
    if not server.group_coordinator.config.serves_consumer_groups:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        authorize_group(server, call, request.group_id)
        _authorize_topics(server, call, request.subscribed_topic_names or ())
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code)
    shard = server.group_coordinator.shard_for(call, request.group_id)
    core, caller = shard.core, caller_of(call)
    hold_ms = _hold_ms(server, request, call) if call.connection.held_heartbeat.is_patient else 0
    if hold_ms == 0:
        interval_ms = core.quiet_interval(request, caller.client_id, caller.client_host, call.now)
        if interval_ms is not None:
            note_carrier(server, call, core.presence_of(request.group_id, request.member_id))
            return _quiet(request, interval_ms, call.version)
    shard.run(core.consumer_group_heartbeat(request, caller, call.now, hold_ms))
    note_carrier(server, call, core.presence_of(request.group_id, request.member_id))
    if hold_ms and core.is_held(request.group_id, request.member_id):
        presence = core.presence_of(request.group_id, request.member_id)
        assert presence is not None
        call.connection.held_heartbeat.begin(shard, request, presence, call)
    return None


def _quiet(request: ConsumerGroupHeartbeatRequest, interval_ms: int, version: int) -> bytes:
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=interval_ms,
    ).encode(version)


def _hold_ms(server: Server, request: ConsumerGroupHeartbeatRequest, call: Call) -> int:
    """How long the heartbeat may be held, see `broker/groups/held_heartbeats.py`."""
    core = server.group_coordinator.shard_for(call, request.group_id).core
    presence = core.presence_of(request.group_id, request.member_id)
    if presence is None or request.member_epoch <= 0:
        return 0
    interval_ms = core.settings_of(request.group_id).heartbeat_interval_ms
    is_static = core.consumer_groups[request.group_id].members[request.member_id].instance_id is not None
    held = call.connection.held_heartbeat
    return held.limit_of_consumer(server.config, presence, interval_ms, call.now, is_static=is_static)


def _authorize_topics(server: Server, call: Call, names: list[str] | tuple[()]) -> None:
    """Whoever may not describe one of the topics may not subscribe to any."""
    if not server.allows_all:
        for name in dict.fromkeys(names):
            server.authorize(call, AclOperation.DESCRIBE, Resource(ResourceType.TOPIC, name))
