"""DeleteTopics (20), by name, and from v6 on by id. Fetches that wait on the topic are answered at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.access import Kind, Operation, Resource
from equipoise.broker.topics import Topic
from equipoise.wire.apis.k20_delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.connection import Call
    from equipoise.broker.server import Server

VERSIONS = "1-6"


def handle(server: Server, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    asked = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(responses=[_delete(server, call, one) for one in asked])


def _delete(server: Server, call: Call, asked: DeleteTopicState) -> DeletableTopicResult:
    answer = DeletableTopicResult(name=asked.name, topic_id=asked.topic_id, error_code=ErrorCode.NONE)
    try:
        topic = _find(server, asked)
        server.authorize(call, Operation.DELETE, Resource(Kind.TOPIC, topic.name))
        answer.name, answer.topic_id = topic.name, topic.topic_id
        server.topics.delete(topic)
        server.groups.topic_deleted(topic.name, topic.topic_id)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    return answer


def _find(server: Server, asked: DeleteTopicState) -> Topic:
    if not server.config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    if asked.name is not None and any(asked.topic_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
    return server.topics.require_id(asked.topic_id) if asked.name is None else server.topics.require(asked.name)
