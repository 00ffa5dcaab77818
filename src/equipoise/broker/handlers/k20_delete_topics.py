"""DeleteTopics (20), by name, and from v6 on by id. Waiting fetches on the topic are answered at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation, Resource, ResourceType
from equipoise.wire.apis.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Topic


def handle(server: Server, request: DeleteTopicsRequest, call: Call) -> None:
    """Checks the topics one by one, and deletes them together (ControllerApis.deleteTopics)."""
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    server.turns.answer_each(
        call, asked, lambda one: _find(server, call, one), lambda answers: _delete_found(server, answers)
    )


def _delete_found(server: Server, answers: list[DeletableTopicResult]) -> DeleteTopicsResponse:
    times = Counter(answer.topic_id for answer in answers)
    doomed = [answer for answer in answers if answer.error_code == ErrorCode.NONE]
    for answer in doomed:
        if times[answer.topic_id] > 1:
            _refuse(answer, KafkaError(ErrorCode.INVALID_REQUEST, f"{answer.name} stands here more than once"))
        elif server.topics.name_of(answer.topic_id) is None:  # another request was quicker
            _refuse(answer, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {answer.name!r}"))
    _delete(server, [answer for answer in doomed if answer.error_code == ErrorCode.NONE])
    return DeleteTopicsResponse(responses=answers)


def _find(server: Server, call: Call, asked: DeleteTopicState) -> DeletableTopicResult:
    answer = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id, error_code=ErrorCode.NONE)
    try:
        _check(server, asked)
        topic = _find_deletable(server, call, asked, answer)
        answer.name, answer.topic_id = topic.name, topic.topic_id
        server.topics.check_deletable(topic)
    except KafkaError as error:
        _refuse(answer, error)
    return answer


def _find_deletable(server: Server, call: Call, asked: DeleteTopicState, answer: DeletableTopicResult) -> Topic:
    """A caller that may not describe a topic does not learn whether a name exists, or which name an id has
    (ControllerApis.deleteTopics)."""
    if asked.name is None:
        topic = server.topics.require_id(asked.topic_id)
        if not _may(server, call, AclOperation.DELETE, topic.name):
            if _may(server, call, AclOperation.DESCRIBE, topic.name):
                answer.name = topic.name
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return topic
    if not _may(server, call, AclOperation.DESCRIBE, asked.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = server.topics.find(asked.name)
    if not _may(server, call, AclOperation.DELETE, asked.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return topic


def _may(server: Server, call: Call, operation: AclOperation, name: str) -> bool:
    """DELETE on the cluster is enough for both operations."""
    if server.is_authorized(call, AclOperation.DELETE, CLUSTER, quiet=True):
        return True
    return server.is_authorized(call, operation, Resource(ResourceType.TOPIC, name))


def _check(server: Server, asked: DeleteTopicState) -> None:
    if not server.config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if asked.name is not None and any(asked.topic_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")


def _refuse(answer: DeletableTopicResult, error: KafkaError) -> None:
    answer.error_code, answer.error_message = error.code, str(error)


def _delete(server: Server, answers: list[DeletableTopicResult]) -> None:
    topics = [server.topics.require_id(answer.topic_id) for answer in answers]
    if not topics:
        return
    try:
        server.topics.delete(topics)
    except KafkaError as error:
        for answer in answers:
            _refuse(answer, error)
    else:
        for topic in topics:
            server.group_coordinator.topic_deleted(topic.name, topic.topic_id)
