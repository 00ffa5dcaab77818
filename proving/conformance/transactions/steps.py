"""The steps of scripts on transactions, as values. Producers are numbered; all of a script have one transactional id.

A producer knows the producer id and epoch that it was told last. `epoch` and `wrong_id` of a step bend what it says.
"""

from __future__ import annotations

from typing import NamedTuple

LATEST_INIT, LATEST_ADD, LATEST_OFFSETS, LATEST_COMMIT = 5, 3, 4, 5
TV1_PRODUCE, TV2_PRODUCE = 11, 12
TV1_END, TV2_END = 4, 5


class Init(NamedTuple):
    """`brings`: the producer brings its producer id and epoch."""

    producer: int = 0
    version: int = LATEST_INIT
    brings: bool = False
    epoch: int = 0
    wrong_id: bool = False
    timeout_ms: int = 60_000
    id_only: bool = False


class Add(NamedTuple):
    producer: int = 0
    version: int = LATEST_ADD
    partitions: tuple[str, ...] = ("0",)  # of the script's topic; others by the name of their topic
    epoch: int = 0
    wrong_id: bool = False


class AddOffsets(NamedTuple):
    producer: int = 0
    version: int = LATEST_OFFSETS
    epoch: int = 0
    wrong_id: bool = False


class Send(NamedTuple):
    """A record to each partition. `gap`: the sequence leaves some numbers out."""

    producer: int = 0
    version: int = TV2_PRODUCE
    partitions: tuple[int, ...] = (0,)
    epoch: int = 0
    gap: int = 0
    is_transactional: bool = True
    without_id: bool = False


class CommitOffsets(NamedTuple):
    producer: int = 0
    version: int = LATEST_COMMIT
    epoch: int = 0
    generation: int = -1
    member_id: str = ""


class End(NamedTuple):
    producer: int = 0
    version: int = TV2_END
    commit: bool = True
    epoch: int = 0
    wrong_id: bool = False


Step = Init | Add | AddOffsets | Send | CommitOffsets | End


class Script(NamedTuple):
    name: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return self.name
