"""DescribeCluster (60): the brokers that are up. The first is shown as the controller."""

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
    """Describes the brokers (KafkaApis.handleDescribeCluster)."""
    response = DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=request.endpoint_type,
        cluster_id=server.cluster_id,
        controller_id=server.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=host, port=port, rack=node.rack)
            for node, host, port in server.cluster.endpoints(call.connection)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = server.cluster_operations(call)
    return response
