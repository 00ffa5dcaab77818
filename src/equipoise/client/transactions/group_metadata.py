"""What a producer must know of a consumer to commit its offsets."""

from __future__ import annotations

from typing import NamedTuple


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's place in its group, by which the coordinator refuses offsets of one that has lost its partitions
    (KIP-447). `group_metadata()` of a consumer gives it; with the group id alone nothing is checked."""

    group_id: str
    generation_id: int = -1  # or the member epoch
    member_id: str = ""
    group_instance_id: str | None = None
