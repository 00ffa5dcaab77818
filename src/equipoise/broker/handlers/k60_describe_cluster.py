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


_BROKERS, _CONTROLLERS = 1, 2


def handle(server: Server, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """Describes the brokers; there are no controllers to ask (KafkaApis.handleDescribeCluster)."""
    if request.endpoint_type != _BROKERS:
        return _other_endpoints(request.endpoint_type)
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


def _other_endpoints(endpoint_type: int) -> DescribeClusterResponse:
    """AuthHelper.computeDescribeClusterResponse."""
    if endpoint_type == _CONTROLLERS:
        code, message = ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this endpoint is a broker's, not a controller's"
    else:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {endpoint_type}"
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", brokers=[])
