"""AlterPartitionReassignments (45). All brokers have the one log: a move is done when it is answered."""

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
    """Gives partitions other replicas, and so other leaders (ControllerApis.handleAlterPartitionReassignments)."""
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
                answer = _answer(server, topic.name, asked, allows_resize=request.allow_replication_factor_change)
                answers[topic.name].partitions.append(answer)
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


def _answer(
    server: Server, name: str, asked: ReassignablePartition, *, allows_resize: bool
) -> ReassignablePartitionResponse:
    answer = ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=ErrorCode.NONE)
    try:
        partition = server.topics.partition(name, asked.partition_index)
        replicas = _checked(server, asked.replicas)
        if not allows_resize and len(replicas) != len(partition.placement.replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"it has {len(partition.placement.replicas)} replicas, and their number may not change",
            )
        server.cluster.reassign({partition: replicas})
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    return answer


def _checked(server: Server, replicas: list[int] | None) -> tuple[int, ...]:
    """One of them must be running: nothing waits for a broker that is back some day."""
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "there is no reassignment that could be ended")
    found = server.cluster.check_replicas(replicas)
    if not set(found) & set(server.cluster.live):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "none of these brokers is running")
    return found
