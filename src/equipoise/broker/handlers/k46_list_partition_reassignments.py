"""ListPartitionReassignments (46). A reassignment is done when it is answered, so none is ever under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.security.acls import CLUSTER, AclOperation
from equipoise.wire.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


def handle(
    server: Server, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    """There are none (ControllerApis.handleListPartitionReassignments)."""
    try:
        server.authorize(call, AclOperation.DESCRIBE, CLUSTER)
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=str(error), topics=[])
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, topics=[])
