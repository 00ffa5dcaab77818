"""Topics as views, from what a watcher has brought. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.client.admin import PartitionDescription, TopicDescription
from equipoise.views.model import ReplicatedPartition, TopicView
from equipoise.watching.store import Store


def topic_views(
    topics: Mapping[str, TopicDescription], store: Store, sizes: Mapping[str, int]
) -> tuple[TopicView, ...]:
    """Every topic of the metadata, by name."""
    return tuple(_topic(topics[name], store, sizes.get(name)) for name in sorted(topics))


def _topic(topic: TopicDescription, store: Store, size: int | None) -> TopicView:
    rates = [store.per_second((topic.name, one.partition)) for one in topic.partitions]
    known = [one for one in rates if one is not None]
    return TopicView(
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(topic.name, one, store) for one in topic.partitions),
        size_bytes=size,
        per_second=sum(known) if known else None,
    )


def _partition(topic: str, one: PartitionDescription, store: Store) -> ReplicatedPartition:
    place = topic, one.partition
    return ReplicatedPartition(
        partition=one.partition,
        leader_id=one.leader_id if one.leader_id >= 0 else None,
        replica_nodes=tuple(one.replica_nodes),
        isr_nodes=tuple(one.isr_nodes),
        log_start=store.log_start(place),
        log_end=store.log_end(place),
        size_bytes=store.size(place),
    )
