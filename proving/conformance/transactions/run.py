"""The comparison as a whole: both brokers are started, scripts are played on both side by side, differences counted."""

from __future__ import annotations

import itertools
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from proving.brokers import EquipoiseBroker, KafkaBroker
from proving.conformance.line import Line
from proving.conformance.transactions.listed import listed
from proving.conformance.transactions.scripts import all_scripts, draw
from proving.conformance.transactions.side import PARTITIONS, Side
from proving.conformance.transactions.steps import Script, Step

STEPS = 2000
_AT_A_TIME = 4
_PATIENCE_S = 5.0
# The records of the scripts are years old: retention would delete them, each broker's at a time of its own.
_FOR_EVER: dict[str, object] = {"log.retention.ms": -1}
_KAFKA: dict[str, object] = _FOR_EVER | {
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.replication.factor": 1,
    "group.initial.rebalance.delay.ms": 0,
}
_OURS: dict[str, object] = _FOR_EVER | {
    "strict": True,
    "transaction.state.log.num.partitions": 5,
    "offsets.topic.num.partitions": 5,
}


class Difference(NamedTuple):
    """After which steps, of what, and both values."""

    script: Script
    steps: Sequence[Step]
    what: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        steps = "\n    ".join(map(str, self.steps))
        return f"{self.script}: {self.what}: kafka {self.kafka!r}, ours {self.ours!r}\n    {steps}"


@dataclass
class TransactionSummary:
    """All scripts, and what they came to."""

    seed: str
    scripts: int = 0
    random_scripts: int = 0
    steps: int = 0
    random_steps: int = 0
    comparisons: int = 0
    different: list[Difference] = field(default_factory=list)
    listed: Counter[str] = field(default_factory=Counter)

    @property
    def is_good(self) -> bool:
        return not self.different

    def text(self) -> str:
        """What was compared, and every difference."""
        head = (
            f"{self.scripts} scripts with {self.steps} steps, and {self.random_scripts} random ones with "
            f"{self.random_steps}; {self.comparisons} comparisons, {len(self.different)} different; seed {self.seed}"
        )
        rows = [f"listed, {count} times: {name}" for name, count in sorted(self.listed.items())]
        return "\n".join([head, *rows, *map(str, self.different)])


class _Played(NamedTuple):
    steps: int
    comparisons: int
    different: Difference | None


class Topics:
    """Topics with the same names on both brokers, made many at a time."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._numbers = itertools.count()

    def make(self, count: int) -> list[tuple[str, list[bytes]]]:
        """Names, and the ids that the brokers have given them."""
        names = [f"t{next(self._numbers)}" for _ in range(count)]
        ids = [self._make_on(port, names) for port in self._ports]
        return [(name, [each[name] for each in ids]) for name in names]

    def _make_on(self, port: int, names: Sequence[str]) -> dict[str, bytes]:
        topics = [CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1) for name in names]
        with Line(port, "topics") as line:
            answer: Any = line.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
            assert all(row.error_code == 0 for row in answer.topics), answer
            _wait_for_leaders(line, names)
        return {row.name: row.topic_id for row in answer.topics}


def _wait_for_leaders(line: Line, names: Sequence[str]) -> None:
    """A topic that was made is not yet led, on Kafka."""
    rows = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=rows) for name in names])
    deadline = time.monotonic() + 60
    while True:
        answer: Any = line.call(request, 7)
        if not any(row.error_code for topic in answer.topics for row in topic.partitions):
            return
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)


def _wait_for_coordinators(port: int) -> None:
    """The first question makes the topics of the coordinators."""
    deadline = time.monotonic() + 60
    with Line(port, "finding") as line:
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            while True:
                answer: Any = line.call(request, 4)
                if answer.coordinators[0].error_code == 0:
                    break
                assert time.monotonic() < deadline, answer
                time.sleep(0.1)


def play(script: Script, ports: Sequence[int], topic: str, topic_ids: Sequence[bytes]) -> _Played:
    """Both sides, step by step. The first difference ends it: then they are no longer in the same state."""
    sides = [Side(port, topic, topic_id) for port, topic_id in zip(ports, topic_ids, strict=True)]
    comparisons = 0
    try:
        for number, step in enumerate(script.steps, 1):
            done = script.steps[:number]
            kafka, ours = (side.play(step) for side in sides)
            comparisons += 1
            if kafka != ours:
                return _Played(number, comparisons, Difference(script, done, "answer", kafka, ours))
            found = _compare_views(sides[0].view, sides[1].view)
            comparisons += 1
            if found is not None:
                return _Played(number, comparisons, Difference(script, done, *found))
    finally:
        for side in sides:
            side.close()
    return _Played(len(script.steps), comparisons, None)


def _compare_views(
    kafka: Callable[[], dict[str, Any]], ours: Callable[[], dict[str, Any]]
) -> tuple[str, Any, Any] | None:
    """What differs for long: a high watermark may be on its way."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        theirs, own = kafka(), ours()
        names = [name for name in theirs if theirs[name] != own[name]]
        if not names:
            return None
        if time.monotonic() > deadline:
            return names[0], theirs[names[0]], own[names[0]]
        time.sleep(0.05)


@contextmanager
def _brokers() -> Iterator[list[int]]:
    with KafkaBroker(_KAFKA) as kafka, EquipoiseBroker(_OURS) as ours:
        ports = [kafka.port, ours.port]
        for port in ports:
            _wait_for_coordinators(port)
        yield ports


def run(seed: str | None = None, steps: int = STEPS, only: str = "") -> TransactionSummary:
    """`only`: the scripts with this in their name; `seed`: of the random scripts, a new one if none is given."""
    summary = TransactionSummary(seed or secrets.token_hex(4))
    scripts = [script for script in all_scripts() if only in script.name]
    with _brokers() as ports, ThreadPoolExecutor(_AT_A_TIME) as pool:
        topics = Topics(ports)

        def play_all(some: Sequence[Script]) -> list[_Played]:
            made = topics.make(len(some))
            return list(pool.map(lambda one, place: play(one, ports, *place), some, made))

        for played in play_all(scripts) if scripts else []:
            summary.scripts += 1
            summary.steps += played.steps
            _count(summary, played)
        numbers = itertools.count(1)
        while summary.random_steps < steps:
            drawn = [draw(f"{summary.seed}-{next(numbers)}") for _ in range(_AT_A_TIME * 8)]
            for played in play_all(drawn):
                summary.random_scripts += 1
                summary.random_steps += played.steps
                _count(summary, played)
    return summary


def _count(summary: TransactionSummary, played: _Played) -> None:
    summary.comparisons += played.comparisons
    found = played.different
    if found is None:
        return
    name = listed(found.steps[-1], found.what, found.kafka, found.ours)
    if name is None:
        summary.different.append(found)
    else:
        summary.listed[name] += 1
