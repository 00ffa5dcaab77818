"""The figures of the broker bench: what is measured, of which broker, with which aim; two ways to print them."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from bench.figures import VERDICTS, Figure, print_circumstances, short, versions
from bench.results import Measured, print_json
from equipoise.console.tables import print_table
from proving.brokers import BrokerProcess, EquipoiseBroker, MemoryBroker, MockBroker

SIZES = {100: "100 B", 1024: "1 KB"}
NOTES = (
    "Each figure, ratio and verdict is of the best round, because what else runs on a machine can only make it worse; "
    "the median is that of --data. The ratio is --data to the mock cluster. 1 MB is 10^6 bytes of record values.",
    "Throughput is what confluent-kafka reaches from Python: as long as the client's CPU per MB is above the server's, "
    "the client is the limit.",
    "The mock cluster keeps about 5 MB a partition, in memory: its fetch reads those over and over, ours reads the "
    "whole topic. It is ready when its address is known, which takes a client's round trip.",
    "--data makes records durable (fdatasync) before they are acknowledged; --memory and the mock cluster do not. "
    "Writing alone is that part of its CPU which the disk takes from any program on this machine.",
)
PARTITIONS = 4  # what the mock cluster gives a topic, so ours gets the same


class Target(NamedTuple):
    """Something to measure."""

    key: str
    title: str
    kind: type[BrokerProcess]
    keeps_all: bool  # the mock cluster keeps 5 MB a partition, and cannot delete topics

    def new(self) -> BrokerProcess:
        return self.kind({"num.partitions": PARTITIONS})


DISK = Target("equipoise_data", "equipoise serve --data", EquipoiseBroker, True)
MEMORY = Target("equipoise_memory", "equipoise serve --memory", MemoryBroker, True)
MOCK = Target("mock_cluster", "librdkafka mock", MockBroker, False)
TARGETS = (DISK, MEMORY, MOCK)


def _load_figures(what: str, size: int, aim: float | None = None) -> list[Figure]:
    key, title = f"{what}_{size}_bytes", f"{what} {SIZES[size]}"
    return [
        Figure(f"{key}_throughput", title, "MB/s"),
        Figure(f"{key}_server_cpu", f"{title}, server CPU", "ms/MB", aim),
        Figure(f"{key}_client_cpu", f"{title}, client CPU", "ms/MB"),
    ]


FIGURES = (
    Figure("ready_process", "ready, as a process", "s", 0.4),
    Figure("ready_in_process", "ready, in process", "s", 0.1),
    *_load_figures("produce", 100),
    *_load_figures("produce", 1024, aim=1.0),
    Figure("writing_alone_cpu", "writing alone, CPU", "ms/MB"),
    *_load_figures("fetch", 100, aim=0.5),
    *_load_figures("fetch", 1024, aim=0.5),
    Figure("resident_idle", "resident, idle", "MB", 80.0),
    Figure("resident_emptied", "resident, load and topics gone", "MB"),
)


class Measurements:
    """Every value measured, by figure and target. Not every figure has a value for each target."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = {}

    def add(self, figure: str, target: Target, value: float) -> None:
        self._values.setdefault((figure, target.key), []).append(value)

    def values(self, figure: Figure, target: Target) -> list[float]:
        return self._values.get((figure.key, target.key), [])

    def best(self, figure: Figure, target: Target) -> float | None:
        values = self.values(figure, target)
        return figure.best(values) if values else None

    def median(self, figure: Figure, target: Target) -> float | None:
        values = self.values(figure, target)
        return median(values) if values else None

    def ratio(self, figure: Figure) -> float | None:
        ours, theirs = self.best(figure, DISK), self.best(figure, MOCK)
        return ours / theirs if ours and theirs else None

    def meets_aim(self, figure: Figure) -> bool | None:
        return figure.meets_aim(self.best(figure, DISK))


def print_document(measured: Measurements, seconds: float) -> None:
    print_json("broker", seconds, _flat(measured), NOTES, versions())


def _flat(measured: Measurements) -> Iterator[Measured]:
    """A figure of each target, with the aim at ours on disk, and the ratio."""
    for figure in FIGURES:
        for target in TARGETS:
            aim = figure.aim if target is DISK else None
            title = f"{figure.title}, {target.title}"
            values = measured.values(figure, target)
            yield Figure(f"{figure.key}_{target.key}", title, figure.unit, aim), values
        if ratio := measured.ratio(figure):
            yield Figure(f"{figure.key}_ratio", f"{figure.title}, --data to the mock cluster", "ratio"), [ratio]


def print_figures(measured: Measurements, seconds: float) -> None:
    columns = ["figure", "unit", *(target.title for target in TARGETS), "ratio", "aim", "", "median"]
    print_table(columns, [_row(measured, figure) for figure in FIGURES])
    print_circumstances(seconds, NOTES)


def _row(measured: Measurements, figure: Figure) -> list[str]:
    return [
        figure.title,
        figure.unit,
        *(short(measured.best(figure, target)) for target in TARGETS),
        short(measured.ratio(figure)),
        figure.aim_text,
        VERDICTS[measured.meets_aim(figure)],
        short(measured.median(figure, DISK)),
    ]
