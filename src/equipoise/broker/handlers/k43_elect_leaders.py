"""ElectLeaders (43): the preferred leader leads again. A partition has an unclean election only if none of its replicas
is up, and then nobody can be elected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.broker.cluster.placement import NOBODY
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

_PREFERRED, _UNCLEAN = 0, 1


def handle(server: Server, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse | None:
    """Where all partitions are asked for (null), those are not answered that needed no election
    (ControllerApis.handleElectLeaders, ReplicationControlManager.electLeaders)."""
    try:
        server.authorize(call, AclOperation.ALTER, CLUSTER)
        if request.election_type not in (_PREFERRED, _UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the election type is 0, preferred, or 1, unclean")
    except KafkaError as error:
        return _refused(request, error)
    asked = _asked(server, request)
    results = {name: ReplicaElectionResult(topic=name, partition_result=[]) for name, _ in asked}

    def steps() -> Iterator[None]:
        for name, index in asked:
            result = _elect(server, request.election_type, name, index)
            if request.topic_partitions is not None or result.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                results[name].partition_result.append(result)
            yield
        for name in [name for name, row in results.items() if not row.partition_result]:
            del results[name]

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


def _asked(server: Server, request: ElectLeadersRequest) -> dict[tuple[str, int], None]:
    if request.topic_partitions is None:
        return {(topic.name, one.index): None for topic in server.topics for one in topic.partitions}
    return {(row.topic, index): None for row in request.topic_partitions for index in row.partitions}


def _elect(server: Server, election_type: int, name: str, index: int) -> PartitionResult:
    try:
        partition = server.topics.partition(name, index)
        if election_type == _PREFERRED:
            server.cluster.elect_preferred(partition)
        elif partition.leader != NOBODY:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {partition.leader} leads it")
        else:
            raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of its replicas is running")
    except KafkaError as error:
        return PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
    return PartitionResult(partition_id=index, error_code=ErrorCode.NONE)
