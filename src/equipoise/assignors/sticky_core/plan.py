"""A sticky assignment: from the owners that members claim to the next owners. Names become numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise.assignors.assignor import Cluster, Members, Topic
from equipoise.assignors.order import Subscribers, java_order
from equipoise.assignors.racks import is_near, racks_matter
from equipoise.assignors.sticky_core import large, mixed, uniform
from equipoise.assignors.sticky_core.numbering import NOBODY, Flags, Ints, Numbering
from equipoise.wire.consumer_protocol import Partitions, StickyUserData


class StickyPlan(NamedTuple):
    """An assignment in numbers, with the names to read it."""

    subscribers: Subscribers
    numbering: Numbering
    claimed: Ints  # the previous owner of each partition
    contested: Flags  # several members say they own it, all in the newest generation: none of them keeps it
    owner: Ints

    def without_handovers(self) -> Ints:
        """Leaves out every partition that another member may still own."""
        handed_over = self.contested | ((self.claimed != NOBODY) & (self.owner != self.claimed))
        return np.where(handed_over, NOBODY, self.owner)

    def by_member(self, owner: Ints) -> dict[str, Partitions]:
        """Owners by number become partitions by member id. A member without partitions is in it too."""
        order = self.subscribers.order
        return dict(zip(order, self.numbering.by_member(owner, len(order)), strict=True))


def make_plan(
    cluster: Cluster, members: Members, memories: dict[str, StickyUserData], most_pairs: int | None = None
) -> StickyPlan:
    """Plans the best balance first, then most partitions in their owner's rack, then the fewest moves. With more pairs
    of topics and subscriptions than `most_pairs`, it is quick instead (large.py)."""
    subscribers = Subscribers(cluster, members, sorted(members, key=java_order))
    numbering = Numbering.of(cluster, subscribers.topics)
    told = [memories[member_id] for member_id in subscribers.order]
    partitions, claimants = numbering.claims([memory.owned_partitions for memory in told])
    claimed, contested = _settle(numbering, partitions, claimants, [memory.generation_id for memory in told])
    group = mixture(subscribers, numbering, find_places(cluster, members, subscribers))
    if group is not None and most_pairs is not None and np.count_nonzero(group.subscribed) > most_pairs:
        owner = large.balance(claimed, group)
    else:
        owner = balance(claimed, len(members), numbering, group)
    return StickyPlan(subscribers, numbering, claimed, contested, owner)


def _settle(numbering: Numbering, partitions: Ints, claimants: Ints, generations: Sequence[int]) -> tuple[Ints, Flags]:
    """Settles claims: the newest generation counts."""
    generation = np.array(generations, np.int64)[claimants]
    newest = np.full(numbering.partitions, np.iinfo(np.int64).min)
    np.maximum.at(newest, partitions, generation)
    valid = generation == newest[partitions]
    partitions, claimants = partitions[valid], claimants[valid]
    owner = np.full(numbering.partitions, NOBODY)
    owner[partitions] = claimants
    contested = np.zeros(numbering.partitions, np.bool_)
    contested[partitions[owner[partitions] != claimants]] = True
    owner[contested] = NOBODY
    return owner, contested


def balance(owner: Ints, members: int, numbering: Numbering, group: mixed.Mixed | None) -> Ints:
    """The core, from integers to integers. Without a mixture all members are alike."""
    if group is not None:
        return mixed.balance(owner, group, numbering)
    return uniform.balance(owner, members, numbering) if numbering.partitions else owner


def mixture(subscribers: Subscribers, numbering: Numbering, places: Places | None = None) -> mixed.Mixed | None:
    """Subscriptions and racks in numbers; None if subscriptions are equal and racks do not matter."""
    if len(subscribers.classes) <= 1 and places is None:
        return None
    bundles = subscribers.topics_by_classes()
    number_of = {topic: number for number, topics in enumerate(bundles.values()) for topic in topics}
    subscribed = np.zeros((len(bundles), len(subscribers.classes)), np.bool_)
    for number, classes in enumerate(bundles):
        subscribed[number, list(classes)] = True
    bundle_of = numbering.each(np.array([number_of[topic] for topic in subscribers.topics], np.int64))
    group = mixed.Mixed(bundle_of, np.array(subscribers.class_of, np.int64), subscribed, np.ones_like(subscribed))
    return group if places is None else _with_racks(group, places)


class Places(NamedTuple):
    """Racks in numbers: of each member, of each partition's replicas, and the distance between them."""

    of_members: Ints
    of_partitions: Ints
    near: Flags


def find_places(cluster: Cluster, members: Members, subscribers: Subscribers) -> Places | None:
    """None if racks do not matter."""
    racks = [members[member_id].subscription.rack_id or None for member_id in subscribers.order]
    replicas = [one for topic in subscribers.topics for one in _replicas(cluster[topic])]
    if not any(racks) or not racks_matter(racks, replicas):
        return None
    rack_number = {rack: number for number, rack in enumerate(dict.fromkeys(racks))}
    replicas_number = {one: number for number, one in enumerate(dict.fromkeys(replicas))}
    near = [[is_near(rack, one) for rack in rack_number] for one in replicas_number]
    return Places(
        np.array([rack_number[rack] for rack in racks], np.int64),
        np.array([replicas_number[one] for one in replicas], np.int64),
        np.array(near, np.bool_),
    )


def _replicas(topic: Topic) -> list[frozenset[str]]:
    return [frozenset(racks) for racks in topic.racks] or [frozenset()] * topic.partitions


def _with_racks(group: mixed.Mixed, places: Places) -> mixed.Mixed:
    """Divides classes by rack, and bundles by the racks of replicas."""
    replicas, racks = places.near.shape
    bundles, bundle_of = np.unique(group.bundle_of * replicas + places.of_partitions, return_inverse=True)
    classes, class_of = np.unique(group.class_of * racks + places.of_members, return_inverse=True)
    subscribed = group.subscribed[np.ix_(bundles // replicas, classes // racks)]
    return mixed.Mixed(bundle_of, class_of, subscribed, places.near[np.ix_(bundles % replicas, classes % racks)])
