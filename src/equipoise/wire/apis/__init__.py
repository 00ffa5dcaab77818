"""Every API whose messages are known here, by key. The broker decides which of them it serves."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.wire.apis.k00_produce import ProduceRequest, ProduceResponse
from equipoise.wire.apis.k01_fetch import FetchRequest, FetchResponse
from equipoise.wire.apis.k02_list_offsets import ListOffsetsRequest, ListOffsetsResponse
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from equipoise.wire.apis.k16_list_groups import ListGroupsRequest, ListGroupsResponse
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.apis.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from equipoise.wire.apis.k21_delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from equipoise.wire.apis.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from equipoise.wire.apis.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from equipoise.wire.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from equipoise.wire.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from equipoise.wire.apis.k27_write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from equipoise.wire.apis.k28_txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from equipoise.wire.apis.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from equipoise.wire.apis.k30_create_acls import CreateAclsRequest, CreateAclsResponse
from equipoise.wire.apis.k31_delete_acls import DeleteAclsRequest, DeleteAclsResponse
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from equipoise.wire.apis.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
from equipoise.wire.apis.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from equipoise.wire.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from equipoise.wire.apis.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from equipoise.wire.apis.k44_incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from equipoise.wire.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from equipoise.wire.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from equipoise.wire.apis.k48_describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from equipoise.wire.apis.k49_alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from equipoise.wire.apis.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from equipoise.wire.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from equipoise.wire.apis.k60_describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from equipoise.wire.apis.k61_describe_producers import DescribeProducersRequest, DescribeProducersResponse
from equipoise.wire.apis.k65_describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from equipoise.wire.apis.k66_list_transactions import ListTransactionsRequest, ListTransactionsResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from equipoise.wire.apis.k74_list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from equipoise.wire.apis.k75_describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from equipoise.wire.schema import Message


class Api(NamedTuple):
    """One API: Kafka's number and name for it, and the tables of both messages."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]


def _api(request: type[Message], response: type[Message]) -> Api:
    return Api(request.api_key, request.__name__.removesuffix("Request"), request, response)


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        _api(ProduceRequest, ProduceResponse),
        _api(FetchRequest, FetchResponse),
        _api(ListOffsetsRequest, ListOffsetsResponse),
        _api(MetadataRequest, MetadataResponse),
        _api(OffsetCommitRequest, OffsetCommitResponse),
        _api(OffsetFetchRequest, OffsetFetchResponse),
        _api(FindCoordinatorRequest, FindCoordinatorResponse),
        _api(JoinGroupRequest, JoinGroupResponse),
        _api(HeartbeatRequest, HeartbeatResponse),
        _api(LeaveGroupRequest, LeaveGroupResponse),
        _api(SyncGroupRequest, SyncGroupResponse),
        _api(DescribeGroupsRequest, DescribeGroupsResponse),
        _api(ListGroupsRequest, ListGroupsResponse),
        _api(SaslHandshakeRequest, SaslHandshakeResponse),
        _api(ApiVersionsRequest, ApiVersionsResponse),
        _api(CreateTopicsRequest, CreateTopicsResponse),
        _api(DeleteTopicsRequest, DeleteTopicsResponse),
        _api(DeleteRecordsRequest, DeleteRecordsResponse),
        _api(InitProducerIdRequest, InitProducerIdResponse),
        _api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        _api(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
        _api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        _api(EndTxnRequest, EndTxnResponse),
        _api(WriteTxnMarkersRequest, WriteTxnMarkersResponse),
        _api(TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        _api(DescribeAclsRequest, DescribeAclsResponse),
        _api(CreateAclsRequest, CreateAclsResponse),
        _api(DeleteAclsRequest, DeleteAclsResponse),
        _api(DescribeConfigsRequest, DescribeConfigsResponse),
        _api(AlterConfigsRequest, AlterConfigsResponse),
        _api(DescribeLogDirsRequest, DescribeLogDirsResponse),
        _api(SaslAuthenticateRequest, SaslAuthenticateResponse),
        _api(CreatePartitionsRequest, CreatePartitionsResponse),
        _api(DeleteGroupsRequest, DeleteGroupsResponse),
        _api(ElectLeadersRequest, ElectLeadersResponse),
        _api(IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
        _api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
        _api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
        _api(OffsetDeleteRequest, OffsetDeleteResponse),
        _api(DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        _api(AlterClientQuotasRequest, AlterClientQuotasResponse),
        _api(DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
        _api(AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
        _api(DescribeClusterRequest, DescribeClusterResponse),
        _api(DescribeProducersRequest, DescribeProducersResponse),
        _api(DescribeTransactionsRequest, DescribeTransactionsResponse),
        _api(ListTransactionsRequest, ListTransactionsResponse),
        _api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        _api(ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        _api(ListConfigResourcesRequest, ListConfigResourcesResponse),
        _api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
    )
}

# Kafka's other APIs, by name only, for the error message about them.
UNKNOWN_APIS: dict[int, str] = {
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    64: "UnregisterBroker",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
