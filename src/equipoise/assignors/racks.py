"""Racks (KIP-881): whether they matter, and which members are near which partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

Rack = str | None


def racks_matter(of_members: Iterable[Rack], of_partitions: Collection[AbstractSet[str]]) -> bool:
    """False if no member is in a rack with replicas, or if each of these racks has replicas of all partitions."""
    everywhere: AbstractSet[str] = frozenset().union(*of_partitions)
    in_a_rack = {rack for rack in of_members if rack}
    return not everywhere.isdisjoint(in_a_rack) and any(racks != everywhere for racks in of_partitions)


def is_near(rack: Rack, replicas: AbstractSet[str]) -> bool:
    """A member without a rack is near every partition."""
    return not rack or rack in replicas
