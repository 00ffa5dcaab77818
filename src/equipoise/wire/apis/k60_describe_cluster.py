"""DescribeCluster (60): the cluster's id, controller and brokers (KIP-700).

v1  endpoint_type, 1 brokers or 2 controllers (KIP-919)
v2  fenced brokers on request (KIP-1073)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.schema import Message, Struct, field


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: bool = field("bool", default=False)
    endpoint_type: int = field("int8", "1+", default=1)
    include_fenced_brokers: bool = field("bool", "2+", default=False)


class DescribeClusterBroker(Struct):
    broker_id: int = field("int32")
    host: str = field("string")
    port: int = field("int32")
    rack: str | None = field("string", nullable=True, default=None)
    is_fenced: bool = field("bool", "2+", default=False)


class DescribeClusterResponse(Throttled, WithError, Message, api_key=60, versions="0-2", flexible="0+"):
    endpoint_type: int = field("int8", "1+", default=1)
    cluster_id: str = field("string")
    controller_id: int = field("int32", default=-1)
    brokers: list[DescribeClusterBroker] = field([DescribeClusterBroker])
    cluster_authorized_operations: int = field("int32", default=-(2**31))
