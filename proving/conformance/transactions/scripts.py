"""The scripts: an id in each state, by clients of both transaction versions, and then each request in each version."""

from __future__ import annotations

import random
from collections.abc import Iterator

from proving.conformance.transactions.steps import (
    TV1_END,
    TV1_PRODUCE,
    TV2_END,
    TV2_PRODUCE,
    Add,
    AddOffsets,
    CommitOffsets,
    End,
    Init,
    Script,
    Send,
    Step,
)

_LONGEST = 14  # steps of a random script


def _states() -> Iterator[tuple[str, tuple[Step, ...]]]:
    yield "new", ()
    yield "empty", (Init(),)
    for name, produce, end in (("tv1", TV1_PRODUCE, TV1_END), ("tv2", TV2_PRODUCE, TV2_END)):
        begun: tuple[Step, ...] = (Init(), *([Add()] if name == "tv1" else []), Send(version=produce))
        yield f"ongoing {name}", begun
        yield f"committed {name}", (*begun, End(version=end))
        yield f"aborted {name}", (*begun, End(version=end, commit=False))


def _requests() -> Iterator[tuple[str, tuple[Step, ...]]]:
    for version in range(6):
        yield f"init v{version}", (Init(1, version),)
        yield f"end commit v{version}", (End(version=version),)
        yield f"end abort v{version}", (End(version=version, commit=False),)
        yield f"end twice v{version}", (End(version=version), End(version=version))
        yield f"end commit, then the other v{version}", (End(version=version), End(version=version, commit=False))
        yield f"end of the epoch before v{version}", (End(version=version, epoch=-1),)
        yield f"commit offsets v{version}", (CommitOffsets(version=version),)
        yield f"commit added offsets v{version}", (AddOffsets(), CommitOffsets(version=version), End(version=TV1_END))
    for version in range(4):
        yield f"add v{version}", (Add(version=version, partitions=("0", "1")),)
        yield f"add, epoch before v{version}", (Add(version=version, epoch=-1),)
    for version in range(5):
        yield f"add offsets v{version}", (AddOffsets(version=version),)
        yield f"add offsets, next epoch v{version}", (AddOffsets(version=version, epoch=1),)
    for version in (9, 10, 11, 12, 13):
        yield f"produce v{version}", (Send(version=version),)
        yield f"produce elsewhere v{version}", (Send(version=version, partitions=(1,)),)
        yield f"produce added v{version}", (Add(partitions=("0", "1")), Send(version=version, partitions=(0, 1)))
        yield f"produce, epoch before v{version}", (Send(version=version, epoch=-1),)
        yield f"produce, next epoch v{version}", (Send(version=version, epoch=1),)
        yield f"produce with a gap v{version}", (Send(version=version, gap=3),)
        yield f"produce outside v{version}", (Send(version=version, is_transactional=False),)
        yield f"produce without id v{version}", (Send(version=version, without_id=True),)
    yield from _odd_requests()


def _odd_requests() -> Iterator[tuple[str, tuple[Step, ...]]]:
    yield "init that brings", (Init(brings=True), Init(brings=True, epoch=-1), Init(brings=True))
    yield "init that brings the epoch before", (Init(brings=True, epoch=-1),)
    yield "init that brings the next epoch", (Init(brings=True, epoch=1),)
    yield "init that brings another id", (Init(brings=True, wrong_id=True),)
    yield "init with an id alone", (Init(brings=True, id_only=True),)
    for timeout_ms in (0, -1, 900_001):
        yield f"init with timeout {timeout_ms}", (Init(timeout_ms=timeout_ms),)
    yield "init twice", (Init(1), Init(1), Init(2))
    yield "zombie", (Init(1), Add(), AddOffsets(), Send(version=TV1_PRODUCE), Send(), End(version=TV1_END), End())
    yield "successor", (Init(1), Init(1), Send(1), End(1), Send(1, partitions=(0, 1)), End(1, commit=False))
    yield (
        "wrong producer id",
        (
            Add(wrong_id=True),
            AddOffsets(wrong_id=True),
            End(wrong_id=True),
            End(version=TV1_END, wrong_id=True),
        ),
    )
    yield "next epoch", (Add(epoch=1), End(epoch=1), End(version=TV1_END, epoch=1), CommitOffsets(epoch=1))
    yield "unknown partitions", (Add(partitions=("0", "9")), Add(partitions=("0", "missing", "__consumer_offsets")))
    yield "add twice", (Add(partitions=("0", "1")), Add(), Add(partitions=("1",)))
    yield "generation of nobody", (AddOffsets(), CommitOffsets(generation=3, member_id="m"), End(version=TV1_END))
    yield (
        "two transactions tv1",
        (
            *(Add(), Send(version=TV1_PRODUCE), End(version=TV1_END)),
            *(Add(), Send(version=TV1_PRODUCE), End(version=TV1_END, commit=False)),
        ),
    )
    yield (
        "the same records again",
        (
            *(Add(), Send(version=TV1_PRODUCE), End(version=TV1_END)),
            *(Init(1), Send(version=TV1_PRODUCE, epoch=-1), Send(epoch=-1), Send(version=TV1_PRODUCE)),
        ),
    )
    yield "two transactions tv2", (Send(), End(), Send(partitions=(0, 1)), End(commit=False))
    yield (
        "from one version to the other",
        (
            *(Add(), Send(version=TV1_PRODUCE), End()),
            *(Send(), CommitOffsets(), End(version=TV1_END)),
        ),
    )


def all_scripts() -> list[Script]:
    """Each request in each state."""
    return [
        Script(f"{state}: {request}", before + steps) for state, before in _states() for request, steps in _requests()
    ]


def draw(seed: str) -> Script:
    """A random script: mostly sensible, sometimes not."""
    chance = random.Random(seed)
    steps: list[Step] = [Init()]
    while len(steps) < _LONGEST:
        steps.append(_draw_step(chance))
    return Script(f"random {seed}", tuple(steps))


def _draw_step(chance: random.Random) -> Step:
    producer = chance.choice((0, 0, 0, 1))
    epoch = chance.choice((0,) * 9 + (-1, 1))
    wrong_id = chance.random() < 0.03
    produce, end = chance.choice(((TV1_PRODUCE, TV1_END), (TV2_PRODUCE, TV2_END)))
    partitions = chance.choice(((0,), (1,), (0, 1)))
    match chance.choices(range(6), (2, 4, 2, 6, 3, 6))[0]:
        case 0:
            return Init(producer, chance.randrange(6), chance.random() < 0.3, epoch, wrong_id)
        case 1:
            return Add(producer, chance.randrange(4), tuple(map(str, partitions)), epoch, wrong_id)
        case 2:
            return AddOffsets(producer, chance.randrange(5), epoch, wrong_id)
        case 3:
            return Send(producer, produce, partitions, epoch, gap=chance.choice((0,) * 20 + (1,)))
        case 4:
            return CommitOffsets(producer, chance.randrange(6), epoch)
        case _:
            return End(producer, end, chance.random() < 0.6, epoch, wrong_id)
