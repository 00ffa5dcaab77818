"""Every API whose messages are known here, by key. The broker decides which of them it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NamedTuple

from equipoise.wire.schema import Message

_TABLES = (
    "k00_produce",
    "k01_fetch",
    "k02_list_offsets",
    "k03_metadata",
    "k08_offset_commit",
    "k09_offset_fetch",
    "k10_find_coordinator",
    "k11_join_group",
    "k12_heartbeat",
    "k13_leave_group",
    "k14_sync_group",
    "k15_describe_groups",
    "k16_list_groups",
    "k17_sasl_handshake",
    "k18_api_versions",
    "k19_create_topics",
    "k20_delete_topics",
    "k21_delete_records",
    "k22_init_producer_id",
    "k23_offset_for_leader_epoch",
    "k24_add_partitions_to_txn",
    "k25_add_offsets_to_txn",
    "k26_end_txn",
    "k27_write_txn_markers",
    "k28_txn_offset_commit",
    "k29_describe_acls",
    "k30_create_acls",
    "k31_delete_acls",
    "k32_describe_configs",
    "k33_alter_configs",
    "k35_describe_log_dirs",
    "k36_sasl_authenticate",
    "k37_create_partitions",
    "k42_delete_groups",
    "k43_elect_leaders",
    "k44_incremental_alter_configs",
    "k45_alter_partition_reassignments",
    "k46_list_partition_reassignments",
    "k47_offset_delete",
    "k48_describe_client_quotas",
    "k49_alter_client_quotas",
    "k50_describe_user_scram_credentials",
    "k51_alter_user_scram_credentials",
    "k60_describe_cluster",
    "k61_describe_producers",
    "k65_describe_transactions",
    "k66_list_transactions",
    "k68_consumer_group_heartbeat",
    "k69_consumer_group_describe",
    "k74_list_config_resources",
    "k75_describe_topic_partitions",
)


class Api(NamedTuple):
    """One API: Kafka's number and name for it, and the tables of both messages."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]


class _Apis(Mapping[int, Api]):
    """The tables of an API are imported at its first use: nobody needs all of them, and a start none but a few."""

    def __init__(self) -> None:
        self._tables = {int(name[1:3]): name for name in _TABLES}
        self._imported: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        found = self._imported.get(key)
        if found is None:
            found = self._imported[key] = _api(key, self._tables[key])
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._tables

    def __iter__(self) -> Iterator[int]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _api(key: int, table: str) -> Api:
    """`k12_heartbeat` has HeartbeatRequest and HeartbeatResponse."""
    name = table[4:].title().replace("_", "")
    module = import_module(f"{__name__}.{table}")
    return Api(key, name, getattr(module, f"{name}Request"), getattr(module, f"{name}Response"))


APIS: Mapping[int, Api] = _Apis()

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
