"""The sticky core for equal subscriptions. Each member keeps its partitions up to its quota. The rest is dealt in
turns to members below theirs. Moves are at the lower bound: only partitions without an owner, or above a quota."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from equipoise.assignors.sticky_core.numbering import NOBODY, Ints, Numbering


def balance(owner: Ints, members: int, numbering: Numbering) -> Ints:
    """Returns the next owner of each partition. Loads differ by one at most. The larger quotas go to members that
    own enough."""
    least, larger = divmod(len(owner), members)
    held = holdings(owner, members)
    quota = np.full(members, least)
    quota[np.flatnonzero(held > least)[:larger]] += 1
    owner = release(owner, quota, numbering)
    free = np.flatnonzero(owner == NOBODY)
    owner[free] = _turns(np.minimum(held, quota), quota, least)[: len(free)]
    return owner


def holdings(owner: Ints, members: int) -> Ints:
    """The number of partitions of each member."""
    return np.bincount(owner + 1, minlength=members + 1)[1:]


def release(owner: Ints, quota: Ints, numbering: Numbering, priority: Ints | None = None) -> Ints:
    """Members above their quota release their last partitions, by priority (of each), number and topic."""
    owner = owner.copy()
    excess = np.append(holdings(owner, len(quota)) > quota, False)
    held = np.flatnonzero(excess[owner])  # NOBODY is the flag behind the last member
    if len(held) == 0:
        return owner
    topics = numbering.topics_of(held)
    keys = [held - numbering.starts[topics], owner[held]]  # the last counts most
    if priority is not None:
        keys.insert(1, priority[held])
    order = np.lexsort([narrow(key) for key in keys])
    held, owners = held[order], owner[held][order]
    owner[held[places(owners) >= quota[owners]]] = NOBODY
    return owner


def places(sorted_values: Ints) -> Ints:
    """The place of each element among its equals, from 0."""
    first = np.flatnonzero(np.diff(sorted_values, prepend=-1))
    return np.arange(len(sorted_values)) - np.repeat(first, np.diff(first, append=len(sorted_values)))


def narrow(values: Ints) -> npt.NDArray[np.unsignedinteger]:
    """Numbers of up to 16 bits are sorted in linear time."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _turns(kept: Ints, quota: Ints, least: int) -> Ints:
    """Deals turns until every member has its quota: first to members below the least, one each per round; then to
    those at the least that may have one more, in the order in which they got there."""
    missing = least - kept
    turns = []
    done = 0
    for level in np.unique(missing[missing > 0]).tolist():
        turns.append(np.tile(np.flatnonzero(missing > done), level - done))
        done = level
    at_least = np.argsort(missing, kind="stable")
    return np.concatenate((*turns, at_least[quota[at_least] == least]))
