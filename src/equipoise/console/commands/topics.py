"""`equipoise topics`: the functions of `Admin`, in words and tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from equipoise.client.admin import PartitionDescription, PartitionOffsets, TopicDescription
from equipoise.console.options import ClusterOptions
from equipoise.console.tables import counted, print_table
from equipoise.wire.text import printable


def list_topics(cluster: ClusterOptions) -> None:
    """Prints all topics as a table."""
    with cluster.admin() as admin:
        topics = admin.topics()
    if not topics:
        print(f"no topics on {printable(cluster.bootstrap_servers)}")
        return
    print_table(
        ("topic", "partitions", "replicas", "internal"),
        [(one.name, len(one.partitions), _replicas(one), "yes" if one.is_internal else "") for one in topics],
    )


def create_topic(
    cluster: ClusterOptions, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Creates a topic, and prints a line."""
    with cluster.admin() as admin:
        admin.create_topic(name, partitions, configs, replication_factor=replication_factor)
        count = len(admin.topic(name).partitions)
    print(f"created topic {printable(name)} with {counted(count, 'partition')}")


def describe_topic(cluster: ClusterOptions, name: str) -> None:
    """Prints a topic's configs and partitions."""
    with cluster.admin() as admin:
        topic, offsets, configs = admin.topic(name), admin.offsets(name), admin.configs(name)
    records = sum(one.latest - one.earliest for one in offsets.values())
    print(f"topic {printable(name)}, id {_kafka_uuid(topic.topic_id)}")
    print(f"{counted(len(topic.partitions), 'partition')}, {counted(records, 'record')}")
    for key, value in sorted(configs.items()):
        print(printable(f"{key}={value}"))
    print_table(
        ("partition", "leader", "replicas", "in sync", "earliest", "latest"),
        [_row(partition, offsets[partition.partition]) for partition in topic.partitions],
    )


def delete_topics(cluster: ClusterOptions, names: Sequence[str]) -> None:
    """Deletes topics, and prints a line for each."""
    with cluster.admin() as admin:
        for name in names:
            admin.delete_topic(name)
            print(f"deleted topic {printable(name)}")


def _row(partition: PartitionDescription, offsets: PartitionOffsets) -> tuple[str | int, ...]:
    replicas, in_sync = (",".join(map(str, nodes)) for nodes in (partition.replica_nodes, partition.isr_nodes))
    return partition.partition, partition.leader_id, replicas, in_sync, offsets.earliest, offsets.latest


def _kafka_uuid(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _replicas(topic: TopicDescription) -> int:
    return max((len(one.replica_nodes) for one in topic.partitions), default=0)
