"""The figures of `python -m bench versus-kafka`: what is compared, with which aim, and what came out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.figures import MORE_IS_BETTER, Figure
from bench.results import Measured
from proving.members.hosts import CONSUMER

SIZES = {100: "100 B", 1024: "1 KB"}  # of records
MEMBERS = 8
PARTITIONS = 16  # of the topic they share
REBALANCE_AIM = 10.0
COOPERATIVE_JOIN_AIM = 30.0
RATED = ("confluent-kafka", "java", "equipoise")  # of the others the text says what bounds them
TRANSITIONS = ("join", "leave", "crash")
KAFKA, OURS, NOT_FLUSHED = "kafka", "equipoise", "equipoise_flush_never"
SIDES = (KAFKA, OURS, NOT_FLUSHED)


class Case(NamedTuple):
    """Stock members of one client and one way to rebalance."""

    client: str
    kind: str
    assignor: str

    @property
    def title(self) -> str:
        return f"{self.client}, {self.kind}"

    def key(self, transition: str, measure: str) -> str:
        return f"{self.client}_{self.kind}_{transition}_{measure}"


CASES = (
    Case("confluent-kafka", "eager", "range"),
    Case("confluent-kafka", "cooperative", "cooperative-sticky"),
    Case("kafka-python", "eager", "range"),
    Case("kafka-python", "cooperative", "cooperative-sticky"),
    Case("java", "eager", "range"),
    Case("java", "cooperative", "cooperative-sticky"),
    Case("equipoise", "eager", "range"),
    Case("equipoise", "cooperative", "cooperative-sticky"),
    Case("aiokafka", "eager", "range"),
    Case("kafkajs", "eager", "roundrobin"),
    Case("franz-go", "eager", "range"),
    Case("franz-go", "cooperative", "cooperative-sticky"),
    Case("confluent-kafka", "consumer", CONSUMER),
    Case("java", "consumer", CONSUMER),
    Case("equipoise", "consumer", CONSUMER),
    Case("franz-go", "consumer", CONSUMER),
)


class Sizes(NamedTuple):
    """How much is measured."""

    starts: int
    load_seconds: float
    load_warm_ups: int
    load_rounds: int
    connections: int
    request_warm_up_seconds: float
    request_seconds: float
    request_rounds: int
    cases: tuple[Case, ...]
    joins_and_leaves: int
    crashes: int


FULL = Sizes(5, 1.2, 2, 4, 1000, 5.0, 1.0, 5, CASES, 3, 1)
QUICK = Sizes(1, 0.6, 1, 1, 300, 1.0, 0.5, 2, CASES[:1], 1, 1)


class Comparison(NamedTuple):
    """A figure of both brokers. `aim`: how many times better than Kafka ours is to be; below 1, how much worse."""

    key: str
    title: str
    unit: str
    aim: float | None = None

    def times_better(self, kafka: float, ours: float) -> float:
        """Above 1 in our favour, whether less or more is better."""
        return ours / kafka if self.unit in MORE_IS_BETTER else kafka / ours


MACHINE_FIGURES = (
    Comparison("start", "start to ready", "s", 12.0),
    Comparison("resident_idle", "resident, idle", "MB", 5.0),
    Comparison("resident_loaded", "resident, under load", "MB", 5.0),
    Comparison("anonymous_loaded", "of it no pages of files", "MB"),
)
LOAD_FIGURES = tuple(
    figure
    for what in ("produce", "fetch")
    for size, name in SIZES.items()
    for figure in (
        Comparison(f"{what}_{size}_bytes_throughput", f"{what} {name}", "MB/s"),
        Comparison(f"{what}_{size}_bytes_broker_cpu", f"{what} {name}, broker's CPU", "ms/MB", 0.5),
        Comparison(f"{what}_{size}_bytes_client_cpu", f"{what} {name}, client's CPU", "ms/MB"),
    )
)
REQUEST_FIGURES = tuple(
    figure
    for key, title in (("heartbeats", "heartbeats"), ("commits", "commits of 1 partition"))
    for figure in (
        Comparison(key, f"{title}, per CPU second", "1/s", 1.0),
        Comparison(f"{key}_wall", f"{title}, wall", "1/s"),
        Comparison(f"{key}_generator", f"{title}, generator's CPU to the broker's", "ratio"),
    )
)


def first_join_figure(case: Case) -> Comparison:
    title = f"{case.title}, first join of a new group"
    return Comparison(case.key("first_join", "whole"), title, "s", _aim(case, "first join"))


def _aim(case: Case, transition: str) -> float | None:
    if case.client not in RATED:
        return None
    is_cooperative_join = (case.kind, transition) == ("cooperative", "join")
    return COOPERATIVE_JOIN_AIM if is_cooperative_join else REBALANCE_AIM


def transition_figures(case: Case, transition: str) -> list[Comparison]:
    """Rated is the time from the cause. A leave has no cause but the first callback."""
    title = f"{case.title}, {transition}"
    is_leave = transition == "leave"
    return [
        Comparison(
            case.key(transition, "rebalance"),
            f"{title}: first callback to last assign",
            "s",
            _aim(case, transition) if is_leave else None,
        ),
        Comparison(
            case.key(transition, "whole"),
            f"{title}: cause to last assign",
            "s",
            None if is_leave else _aim(case, transition),
        ),
        Comparison(case.key(transition, "unowned"), f"{title}: a partition without owner", "s"),
    ]


def figures_of(case: Case) -> list[Comparison]:
    return [first_join_figure(case), *(row for name in TRANSITIONS for row in transition_figures(case, name))]


class Results:
    """Every value measured, by figure and side. What could not be measured is said in `skipped`. `sides`: those that
    are compared."""

    def __init__(self, sizes: Sizes, sides: tuple[str, ...] = (KAFKA, OURS)) -> None:
        self.sizes = sizes
        self.sides = sides
        self.skipped: list[str] = []
        self._values: dict[tuple[str, str], list[float]] = {}

    def add(self, figure: str, side: str, value: float) -> None:
        self._values.setdefault((figure, side), []).append(value)

    def save(self, path: Path) -> None:
        """All values, for a later run to go on with."""
        rows = [[figure, side, values] for (figure, side), values in self._values.items()]
        path.write_text(json.dumps({"values": rows, "skipped": self.skipped}, indent=1) + "\n")

    def load(self, path: Path) -> None:
        """What an earlier run has saved, if it has. What it could not measure is tried again."""
        if path.exists():
            self._values = {(figure, side): values for figure, side, values in json.loads(path.read_text())["values"]}

    def has_case(self, case: Case) -> bool:
        return all(map(self.has, figures_of(case)))

    def forget(self, case: Case) -> None:
        """A case that was not finished is measured anew."""
        for figure in figures_of(case):
            for side in SIDES:
                self._values.pop((figure.key, side), None)

    def median(self, figure: Comparison, side: str) -> float | None:
        values = self._values.get((figure.key, side))
        return median(values) if values else None

    def has(self, figure: Comparison) -> bool:
        return all((figure.key, side) in self._values for side in self.sides)

    def ratio(self, figure: Comparison) -> float | None:
        """None also where ours is nothing at all."""
        kafka, ours = self.median(figure, KAFKA), self.median(figure, OURS)
        return figure.times_better(kafka, ours) if kafka and ours else None

    def meets_aim(self, figure: Comparison) -> bool | None:
        ratio = self.ratio(figure)
        return None if figure.aim is None or ratio is None else ratio >= figure.aim

    @property
    def figures(self) -> list[Comparison]:
        """All that every side has."""
        of_members = [figure for case in CASES for figure in figures_of(case)]
        return list(filter(self.has, (*MACHINE_FIGURES, *LOAD_FIGURES, *REQUEST_FIGURES, *of_members)))

    def measured(self) -> Iterator[Measured]:
        """A figure of each side, and the ratio, which has the aim."""
        for figure in self.figures:
            for side in SIDES:
                key, title = f"{figure.key}_{side}", f"{figure.title}, {side}"
                yield Figure(key, title, figure.unit), self._values.get((figure.key, side), [])
            ratio = self.ratio(figure)
            title = f"{figure.title}, how many times better"
            yield Figure(f"{figure.key}_ratio", title, "times", figure.aim), [] if ratio is None else [ratio]
