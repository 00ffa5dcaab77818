"""DescribeCluster (60): one broker, which is also the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.wire.apis.k60_describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(server: Server, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """Describes the one broker (KafkaApis.handleDescribeCluster)."""
    host, port = server.address_for(call.connection)
    response = DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=request.endpoint_type,
        cluster_id=server.cluster_id,
        controller_id=server.node_id,
        brokers=[DescribeClusterBroker(broker_id=server.node_id, host=host, port=port, rack=server.rack)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = server.cluster_operations(call)
    return response
