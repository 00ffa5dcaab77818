"""The assignor `uniform` for members with one subscription, on the sets that targets are.

Only what moves is touched: a member whose target stays keeps the very same set. So a join costs one pass over members
and a sort of the few partitions that move. Members with different subscriptions are for `by_name.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from equipoise.coordinator.metadata import Partitions, TopicImage, TopicPartition

_FEW = 4  # a quarter of all partitions, or less


def balance(targets: Mapping[str, Partitions], topics: Sequence[TopicImage]) -> dict[str, Partitions]:
    """The next target of each member. Loads differ by one at most; only what has no owner, or is above a share, moves.

    Rule A12.8. Kafka: UniformHomogeneousAssignmentBuilder.build.
    """
    every = _partitions(tuple((topic.topic_id, topic.partitions) for topic in topics))
    free = set(every)
    least, larger = divmod(len(free), len(targets))
    kept: dict[str, Partitions] = {}
    for member_id in sorted(targets):
        before = targets[member_id]
        held = before & free  # without what is gone, not subscribed to, or another's
        kept[member_id] = before if len(held) == len(before) else held
        free -= held
    rank = {topic.topic_id: place for place, topic in enumerate(topics)}
    quotas = _quotas(kept, least, larger)
    moving = _sorted(free, rank, every)
    for member_id, quota in quotas.items():
        if len(kept[member_id]) > quota:
            held_in_order = _sorted(kept[member_id], rank, every)
            kept[member_id] = frozenset(held_in_order[:quota])
            moving += held_in_order[quota:]
    return _deal(kept, quotas, moving)


@lru_cache(maxsize=4)  # a group whose members come and go asks for the same again and again
def _partitions(topics: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    """All of them, in order."""
    return tuple([(topic_id, number) for topic_id, count in topics for number in range(count)])


def _quotas(kept: Mapping[str, Partitions], least: int, larger: int) -> dict[str, int]:
    """The larger shares go to members that have more than the least already; what is left of them, to the last."""
    quotas = dict.fromkeys(kept, least)
    having = [member_id for member_id, held in kept.items() if len(held) > least]
    others = [member_id for member_id, held in kept.items() if len(held) <= least]
    left = larger - len(having)
    for member_id in having[:larger] + (others[-left:] if left > 0 else []):
        quotas[member_id] += 1
    return quotas


def _deal(
    kept: dict[str, Partitions], quotas: Mapping[str, int], moving: Sequence[TopicPartition]
) -> dict[str, Partitions]:
    place = 0
    for member_id, quota in quotas.items():
        missing = quota - len(kept[member_id])
        if missing > 0:
            kept[member_id] |= frozenset(moving[place : place + missing])
            place += missing
    return kept


def _sorted(
    partitions: set[TopicPartition] | Partitions, rank: Mapping[bytes, int], every: Sequence[TopicPartition]
) -> list[TopicPartition]:
    """Most of them are found in order in a fraction of the time that it takes to sort them."""
    if len(partitions) * _FEW > len(every):
        return [one for one in every if one in partitions]
    return sorted(partitions, key=lambda one: (rank[one[0]], one[1]))
