"""What is wrong with a ConsumerGroupHeartbeat, before its group is asked; in Kafka's order and words.

Rules A3.5 to A3.9.
Kafka: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from __future__ import annotations

from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.member import LEFT_EPOCH, STATIC_LEFT_EPOCH
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode, KafkaError

_CLIENT_MAKES_ID_FROM = 1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, config: GroupConfig) -> None:
    """Raises KafkaError with the first fault."""
    epoch = request.member_epoch
    if version >= _CLIENT_MAKES_ID_FROM or epoch > 0 or epoch == LEFT_EPOCH:
        _check_not_blank(request.member_id, "MemberId")
    _check_not_blank(request.group_id, "GroupId")
    _check_not_blank(request.instance_id, "InstanceId")
    _check_not_blank(request.rack_id, "RackId")
    if epoch == 0:
        _check_first(request)
    elif epoch == STATIC_LEFT_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEFT_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    names = config.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in names:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(names)}.",
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    """A member that joins says all there is to say, and owns nothing. Rule A3.7."""
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _check_not_blank(text: str | None, field: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{field} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
