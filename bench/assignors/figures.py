"""The figures of the assignor bench, with their aims, and the two ways to print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.figures import VERDICTS, Figure, print_circumstances, short, versions
from bench.results import Measured, print_json
from equipoise.console.tables import print_table

EVENTS = {
    "uniform_scratch": "from scratch",
    "uniform_leave": "one leaves",
    "uniform_join": "one joins",
    "uniform_join_10_percent": "10 % join",
    "mixed_scratch": "mixed, from scratch",
    "mixed_leave": "mixed, one leaves",
    "mixed_join": "mixed, one joins",
    "mixed_join_10_percent": "mixed, 10 % join",
}
UNIFORM = tuple(event for event in EVENTS if event.startswith("uniform"))
FORMS = {"numbers": "numbers", "names": "names", "payloads": "payloads", "kafka_python": "kafka-python"}
AIMS_AT_A_MILLION = {"uniform_scratch": 50.0, "uniform_leave": 30.0, "uniform_join": 60.0} | {
    event: 2000.0 for event in EVENTS if event not in UNIFORM
}
_PACKAGES = "numpy", "kafka-python"
TIMES_KAFKA_PYTHON = 1000.0  # at 10,000 partitions
NOTES = (
    "Milliseconds of CPU, one thread, best round: on an idle machine that is the time it takes. Mixed: ten classes of "
    "members, each subscribed to half of the topics.",
    "Numbers: the assignment itself, from the owner of each partition to the next; the aims in ms are for it. Names: "
    "`assign` of cooperative-sticky, from Subscription to Assignment objects; the same is timed of kafka-python's "
    "sticky, and the factor is between these two. Payloads: from the bytes of JoinGroup to those of SyncGroup, all "
    "that a leader does.",
    "kafka-python is measured once, and not where it would take more than minutes. Moves are partitions that get "
    "another owner, or their first.",
)


class Size(NamedTuple):
    members: int
    topics: int
    partitions: int  # of each topic
    rounds: int
    rounds_at_the_edge: int
    beside_kafka_python: Sequence[str]  # events

    @property
    def title(self) -> str:
        return f"{self.members:,} x {self.topics * self.partitions:,}"


_SMALL = Size(100, 10, 100, 50, 10, tuple(EVENTS))
_MIDDLE = Size(200, 10, 1000, 30, 10, UNIFORM)
_LARGE = Size(2000, 500, 2000, 7, 2, ())
FULL = (_SMALL, _MIDDLE, _LARGE)
QUICK = (
    _SMALL._replace(rounds=10, rounds_at_the_edge=3, beside_kafka_python=UNIFORM),
    _MIDDLE._replace(rounds=5, rounds_at_the_edge=2, beside_kafka_python=()),
)


class Row:
    """One event at one size: what was measured, by form."""

    def __init__(self, size: Size, event: str) -> None:
        self.key = f"{size.members}_x_{size.topics * size.partitions}_{event}"
        self.title = f"{size.title}, {EVENTS[event]}"
        self.values: dict[str, list[float]] = {form: [] for form in FORMS}
        self.moves = 0
        self._time = Figure("", "", "ms", AIMS_AT_A_MILLION.get(event) if size.topics == _LARGE.topics else None)
        self._factor = Figure("", "", "times", TIMES_KAFKA_PYTHON if size.partitions == _MIDDLE.partitions else None)

    def best(self, form: str) -> float | None:
        return min(self.values[form], default=None)

    @property
    def factor(self) -> float | None:
        """How many times kafka-python takes what we take, with names in both."""
        ours, theirs = self.best("names"), self.best("kafka_python")
        return theirs / ours if ours and theirs else None

    @property
    def meets_aim(self) -> bool | None:
        """Each size has one kind of aim at most."""
        met = self._time.meets_aim(self.best("numbers"))
        return self._factor.meets_aim(self.factor) if met is None else met

    @property
    def aim_text(self) -> str:
        if self._factor.aim and self.factor is not None:
            return f"{self._factor.aim_text} times"
        return f"{self._time.aim_text} ms" if self._time.aim else ""

    def measured(self) -> Iterator[Measured]:
        """A figure of each form, the factor, and what moves."""
        for form, name in FORMS.items():
            aim = self._time.aim if form == "numbers" else None
            yield Figure(f"{self.key}_{form}", f"{self.title}, {name}", "ms", aim), self.values[form]
        if self.factor is not None:
            yield (
                Figure(f"{self.key}_factor", f"{self.title}, kafka-python : names", "times", self._factor.aim),
                [self.factor],
            )
        yield Figure(f"{self.key}_moves", f"{self.title}, moves", "partitions"), [self.moves]

    def cells(self) -> list[str]:
        times = [short(self.best(form)) for form in FORMS]
        factor = "" if self.factor is None else f"{self.factor:,.0f}"
        return [self.title, *times, factor, f"{self.moves:,}", self.aim_text, VERDICTS[self.meets_aim]]


class Results:
    def __init__(self, sizes: Sequence[Size]) -> None:
        self.sizes = sizes
        self.rows = {(size.title, event): Row(size, event) for size in sizes for event in EVENTS}

    def row(self, size: Size, event: str) -> Row:
        return self.rows[size.title, event]

    def print(self, as_json: bool, seconds: float) -> None:
        if as_json:
            measured = [pair for row in self.rows.values() for pair in row.measured()]
            print_json("assignors", seconds, measured, NOTES, versions(*_PACKAGES))
            return
        columns = ("members x partitions, ms", *FORMS.values(), "times", "moves", "aim", "")
        print_table(columns, [row.cells() for row in self.rows.values()])
        print_circumstances(seconds, NOTES, *_PACKAGES)
