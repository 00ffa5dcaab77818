"""A sticky assignment: who owned what, by what members say, and who is to own it. All in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise.assignors import mixed, uniform
from equipoise.assignors.assignor import Cluster, Members
from equipoise.assignors.numbering import NOBODY, Flags, Ints, Numbering
from equipoise.assignors.order import Subscribers, java_order
from equipoise.wire.consumer_protocol import Partitions, StickyUserData


class Plan(NamedTuple):
    subscribers: Subscribers
    numbering: Numbering
    claimed: Ints  # the owner of each partition before
    contested: Flags  # several members say they own it, all in the newest generation: none of them keeps it
    owner: Ints

    def without_handovers(self) -> Ints:
        """Nobody's what one member is to have while another may still own it."""
        handed_over = self.contested | ((self.claimed != NOBODY) & (self.owner != self.claimed))
        return np.where(handed_over, NOBODY, self.owner)

    def by_member(self, owner: Ints) -> dict[str, Partitions]:
        order = self.subscribers.order
        return dict(zip(order, self.numbering.by_member(owner, len(order)), strict=True))


def make_plan(cluster: Cluster, members: Members, memories: dict[str, StickyUserData]) -> Plan:
    """Best balance first, then the fewest moves."""
    subscribers = Subscribers(cluster, members, sorted(members, key=java_order))
    numbering = Numbering.of(cluster, subscribers.topics)
    told = [memories[member_id] for member_id in subscribers.order]
    partitions, claimants = numbering.claims([memory.owned_partitions for memory in told])
    claimed, contested = _settle(numbering, partitions, claimants, [memory.generation_id for memory in told])
    owner = balance(claimed, len(members), numbering, mixture(subscribers))
    return Plan(subscribers, numbering, claimed, contested, owner)


def _settle(numbering: Numbering, partitions: Ints, claimants: Ints, generations: Sequence[int]) -> tuple[Ints, Flags]:
    """The claim of the newest generation counts."""
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
    """The core, from integers to integers; without a group, subscriptions are equal."""
    if group is not None:
        return mixed.balance(owner, group, numbering)
    return uniform.balance(owner, members, numbering) if numbering.partitions else owner


def mixture(subscribers: Subscribers) -> mixed.Mixed | None:
    """The subscriptions in numbers, if they differ."""
    if len(subscribers.classes) <= 1:
        return None
    bundles = subscribers.topics_by_classes()
    number_of = {topic: number for number, topics in enumerate(bundles.values()) for topic in topics}
    subscribed = np.zeros((len(bundles), len(subscribers.classes)), np.bool_)
    for number, classes in enumerate(bundles):
        subscribed[number, list(classes)] = True
    bundle_of = np.array([number_of[topic] for topic in subscribers.topics], np.int64)
    return mixed.Mixed(bundle_of, np.array(subscribers.class_of, np.int64), subscribed)
