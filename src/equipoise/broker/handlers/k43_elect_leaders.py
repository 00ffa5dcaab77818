"""ElectLeaders (43). There is one broker: it leads every partition already, and no election is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_ELECTION_TYPES = (0, 1)  # preferred, unclean


def handle(server: Server, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse | None:
    """Where all partitions are asked for (null), only those are answered that had an election: none
    (ControllerApis.handleElectLeaders)."""
    try:
        server.authorize(call, AclOperation.ALTER, CLUSTER)
        if request.election_type not in _ELECTION_TYPES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the election type is 0, preferred, or 1, unclean")
    except KafkaError as error:
        return _refused(request, error)
    asked = {(row.topic, index): None for row in request.topic_partitions or () for index in row.partitions}
    results = {name: ReplicaElectionResult(topic=name, partition_result=[]) for name, _ in asked}

    def steps() -> Iterator[None]:
        for name, index in asked:
            results[name].partition_result.append(_elect(server, name, index))
            yield

    server.turns.run(call, steps(), lambda: ElectLeadersResponse(replica_election_results=list(results.values())))
    return None


def _refused(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Also in every partition: v0 has no other place for it."""
    rows = [
        ReplicaElectionResult(
            topic=asked.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
                for index in asked.partitions
            ],
        )
        for asked in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error.code, replica_election_results=rows)


def _elect(server: Server, name: str, index: int) -> PartitionResult:
    try:
        server.topics.partition(name, index)
    except KafkaError as error:
        return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
    code = ErrorCode.ELECTION_NOT_NEEDED
    return PartitionResult(partition_id=index, error_code=code, error_message="the one broker leads it already")
