"""AlterPartitionReassignments (45). There is one broker: a move to it is accepted, any other is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(
    server: Server, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse | None:
    """Accepts what is there already (ControllerApis.handleAlterPartitionReassignments)."""
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        responses=[],
    )
    try:
        server.authorize(call, AclOperation.ALTER, CLUSTER)
    except KafkaError as error:
        return _refused(request, response, error)
    answers = {topic.name: ReassignableTopicResponse(name=topic.name, partitions=[]) for topic in request.topics}

    def steps() -> Iterator[None]:
        for topic in request.topics:
            for asked in topic.partitions:
                answers[topic.name].partitions.append(_answer(server, topic.name, asked))
                yield
        response.responses = list(answers.values())

    server.turns.run(call, steps(), lambda: response)
    return None


def _refused(
    request: AlterPartitionReassignmentsRequest, response: AlterPartitionReassignmentsResponse, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """Also in every partition, as on Kafka."""
    response.error_code, response.error_message = error.code, str(error)
    response.responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=one.partition_index, error_code=error.code, error_message=str(error)
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return response


def _answer(server: Server, name: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=ErrorCode.NONE)
    try:
        server.topics.partition(name, asked.partition_index)
        _check(server, asked.replicas)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    return answer


def _check(server: Server, replicas: list[int] | None) -> None:
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "there is no reassignment that could be ended")
    if replicas != [server.node_id]:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is one broker: the replicas can only be [{server.node_id}]"
        )
