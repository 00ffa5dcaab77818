"""The sticky core for large groups with many different subscriptions, where flows (mixed.py) would take seconds.

It looks at one bundle of topics at a time, and levels the loads of its subscribers with the partitions of this bundle
alone: like water, they fill up those with the least. Rounds over all bundles go on until nothing moves, or until the
work is done that such a group may cost. The balance is that of Kafka's coordinator, in which no single move helps. It
may be off the best by chains of moves (a gives to b, b gives to c).
"""

from __future__ import annotations

import numpy as np

from equipoise.assignors.sticky_core.mixed import Mixed
from equipoise.assignors.sticky_core.numbering import NOBODY, Flags, Ints
from equipoise.assignors.sticky_core.uniform import holdings, places

_MOST_ROUNDS = 16
_MOST_WORK = 4_000_000  # subscribers of bundles, over all rounds: some tenths of a second


def balance(owner: Ints, group: Mixed) -> Ints:
    """Returns the next owner of each partition."""
    levelling = _Levelling(owner, group)
    bundles = levelling.order()
    each = sum(len(levelling.subscribers(bundle)) for bundle in bundles)
    for _ in range(max(2, min(_MOST_ROUNDS, _MOST_WORK // max(each, 1)))):
        if sum(map(levelling.level, bundles)) == 0:
            break
    return levelling.owner


class _Levelling:
    def __init__(self, owner: Ints, group: Mixed) -> None:
        self._group = group
        bundles = len(group.subscribed)
        by_bundle = np.argsort(group.bundle_of, kind="stable")
        ends = np.cumsum(np.bincount(group.bundle_of, minlength=bundles))
        self._partitions = np.split(by_bundle, ends[:-1])
        subscribed = np.append(group.subscribed, np.zeros((bundles, 1), np.bool_), axis=1)
        class_of = np.append(group.class_of, NOBODY)
        self.owner = np.where(subscribed[group.bundle_of, class_of[owner]], owner, NOBODY)
        self._loads = holdings(self.owner, len(group.class_of))

    def subscribers(self, bundle: int) -> Ints:
        """Members, in order."""
        flags: Flags = self._group.subscribed[bundle][self._group.class_of]
        return np.flatnonzero(flags)

    def order(self) -> list[int]:
        """As in Kafka: most partitions for each subscriber first, then fewest subscribers."""
        counts = [
            (len(self._partitions[bundle]), len(self.subscribers(bundle))) for bundle in range(len(self._partitions))
        ]
        wanted = [bundle for bundle, (partitions, members) in enumerate(counts) if partitions and members]
        return sorted(wanted, key=lambda one: (-counts[one][0] / counts[one][1], counts[one][1], one))

    def level(self, bundle: int) -> bool:
        """Whether anything moved."""
        members, partitions = self.subscribers(bundle), self._partitions[bundle]
        before = self.owner[partitions]
        held = holdings(before, len(self._loads))[members]
        loads = self._loads[members]
        if before.min() != NOBODY and loads[held > 0].max() - loads.min() <= 1:
            return False
        shares = fill(loads - held, len(partitions), held)
        self._loads[members] = loads - held + shares
        self.owner[partitions] = self._shared_out(before, members, shares)
        return not np.array_equal(before, self.owner[partitions])

    def _shared_out(self, before: Ints, members: Ints, shares: Ints) -> Ints:
        """Members keep their first partitions, up to their share; the others go in order to those below theirs."""
        share_of = np.zeros(len(self._loads), np.int64)
        share_of[members] = shares
        after = before.copy()
        owned = np.flatnonzero(before != NOBODY)
        owned = owned[np.argsort(before[owned], kind="stable")]
        owners = before[owned]
        after[owned[places(owners) >= share_of[owners]]] = NOBODY
        kept = holdings(after, len(self._loads))[members]
        after[after == NOBODY] = np.repeat(members, shares - kept)
        return after


def fill(loads: Ints, amount: int, held: Ints) -> Ints:
    """Distributes an amount to the least loads, so that they rise to one level. Who gets one more is who holds one
    more already."""
    ordered = np.sort(loads)
    sums = np.cumsum(ordered)
    lowest = np.arange(1, len(loads) + 1)
    count = int(np.searchsorted(lowest * ordered - sums, amount, side="right"))
    level, rest = divmod(amount + int(sums[count - 1]), count)
    shares = np.maximum(level - loads, 0)
    at_level = np.flatnonzero(loads <= level)
    first = at_level[np.argsort(held[at_level] <= shares[at_level], kind="stable")[:rest]]
    shares[first] += 1
    return shares
