"""The figures of the broker bench: what is measured, in which unit, with which aim; and the two ways to print them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from statistics import median
from typing import Any, NamedTuple

from equipoise.console.bench_servers import DISK, MOCK, TARGETS, Target
from equipoise.console.tables import print_table

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
BEST = {"MB/s": max}  # of all other units less is better


class Figure(NamedTuple):
    """A row of the table."""

    key: str
    title: str
    unit: str
    aim: float | None = None

    def best(self, values: Sequence[float]) -> float:
        return BEST.get(self.unit, min)(values)


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
        ours = self.best(figure, DISK)
        return None if figure.aim is None or ours is None else ours <= figure.aim


def print_json(measured: Measurements, seconds: float) -> None:
    document = {
        "bench": "broker",
        "seconds": round(seconds, 1),
        "versions": _versions(),
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "architecture": platform.machine()},
        "figures": {figure.key: _figure(measured, figure) for figure in FIGURES},
        "notes": NOTES,
    }
    print(json.dumps(document, indent=2))


def _figure(measured: Measurements, figure: Figure) -> dict[str, Any]:
    ours = {
        target.key: {
            "best": _rounded(measured.best(figure, target)),
            "median": _rounded(measured.median(figure, target)),
            "rounds": [_rounded(value) for value in measured.values(figure, target)],
        }
        for target in TARGETS
        if measured.values(figure, target)
    }
    verdict = {"aim_at_most": figure.aim, "meets_aim": measured.meets_aim(figure)} if figure.aim else {}
    return {"unit": figure.unit, **ours, "ratio": _rounded(measured.ratio(figure)), **verdict}


def _rounded(value: float | None) -> float | None:
    """Four digits are more than any of these measurements can promise."""
    return None if value is None else float(f"{value:.4g}")


def _versions() -> dict[str, str]:
    import confluent_kafka

    return {
        "equipoise": version("equipoise"),
        "python": platform.python_version(),
        "confluent-kafka": version("confluent-kafka"),
        "librdkafka": str(confluent_kafka.libversion()[0]),
    }


def print_figures(measured: Measurements, seconds: float) -> None:
    columns = ["figure", "unit", *(target.title for target in TARGETS), "ratio", "aim", "", "median"]
    print_table(columns, [_row(measured, figure) for figure in FIGURES])
    print(", ".join(f"{name} {number}" for name, number in _versions().items()), end="")
    print(f"; {os.cpu_count()} cores; {seconds:.0f} s")
    print("\n".join(NOTES))


def _row(measured: Measurements, figure: Figure) -> list[str]:
    return [
        figure.title,
        figure.unit,
        *(_short(measured.best(figure, target)) for target in TARGETS),
        _short(measured.ratio(figure)),
        f"<= {figure.aim:g}" if figure.aim else "",
        {None: "", True: "met", False: "MISSED"}[measured.meets_aim(figure)],
        _short(measured.median(figure, DISK)),
    ]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
