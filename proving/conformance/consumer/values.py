"""What scripts of `consumer` groups cannot know beforehand, as values: epochs, partitions, names of own topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Partitions = Mapping[str, list[int]]  # by topic


class Epoch(NamedTuple):
    """The epoch (or generation) that `who` was last answered with, and so many more; 0 if it never was."""

    who: str
    plus: int = 0


class Held(NamedTuple):
    """The partitions that `who` was last told to use; only the first so many of each topic if `only` is given."""

    who: str
    only: int | None = None


class Parts(NamedTuple):
    """Partitions by the names of their topics, in a request that wants topic ids."""

    partitions: Partitions


class Topic(NamedTuple):
    """A topic of the script's own, by its actual name; it need not be there yet."""

    name: str


class Pattern(NamedTuple):
    """A regex in which {own} stands for what the names of the script's own topics end with."""

    text: str


class Claim(NamedTuple):
    """The Subscription of a classic member: topics, what it says it owns, and the version that it is written in."""

    topics: tuple[str, ...]
    owned: Partitions | Held | None = None
    version: int = 3
    generation: int | Epoch = -1
