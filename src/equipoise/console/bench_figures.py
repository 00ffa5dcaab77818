"""The figures of the broker bench: what is measured, in which unit, with which aim; and the two ways to print them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from statistics import median
from typing import Any, NamedTuple

from equipoise.console.bench_servers import DISK, MOCK, TARGETS, Target
from equipoise.console.tables import print_table

SIZES = {100: "100 B", 1024: "1 KB"}
NOTES = (
    "1 MB is 10^6 bytes of record values. Throughput is what confluent-kafka reaches from Python: the client is the "
    "limit as long as its CPU per MB is above the server's.",
    "The mock cluster keeps about 5 MB a partition, in memory: its fetch reads those over and over, ours the whole "
    "topic. Ready means for it that its address is known, which takes a client's round trip.",
    "--data makes records durable (fdatasync) before they are acknowledged; --memory and the mock cluster do not.",
)


class Figure(NamedTuple):
    """A row of the table. Several measurements become one number by `summary`."""

    key: str
    title: str
    unit: str
    summary: Callable[[Sequence[float]], float] = median
    aim: float | None = None


def _load_figures(what: str, size: int, aim: float | None) -> list[Figure]:
    key, title = f"{what}_{size}_bytes", f"{what} {SIZES[size]}"
    return [
        Figure(f"{key}_throughput", title, "MB/s"),
        Figure(f"{key}_server_cpu", f"{title}, server CPU", "ms/MB", aim=aim),
        Figure(f"{key}_client_cpu", f"{title}, client CPU", "ms/MB"),
    ]


FIGURES = (
    Figure("ready_process", "ready, as a process", "s", min, aim=0.4),
    Figure("ready_in_process", "ready, in process", "s", min, aim=0.1),
    *_load_figures("produce", 100, None),
    *_load_figures("produce", 1024, 1.0),
    *_load_figures("fetch", 100, 0.5),
    *_load_figures("fetch", 1024, 0.5),
    Figure("resident_idle", "resident, idle", "MB", aim=80.0),
    Figure("resident_loaded", "resident, after the load", "MB"),
)


class Measurements:
    """Every value measured, by figure and target."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], list[float]] = {}

    def add(self, figure: str, target: Target, value: float) -> None:
        self._values.setdefault((figure, target.key), []).append(value)

    def values(self, figure: Figure, target: Target) -> list[float]:
        return self._values[figure.key, target.key]

    def value(self, figure: Figure, target: Target) -> float:
        return figure.summary(self.values(figure, target))

    def ratio(self, figure: Figure) -> float:
        return self.value(figure, DISK) / self.value(figure, MOCK)

    def meets_aim(self, figure: Figure) -> bool | None:
        return None if figure.aim is None else self.value(figure, DISK) <= figure.aim


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
    return {
        "unit": figure.unit,
        "summary": "best" if figure.summary is min else "median",
        **{
            target.key: {"value": _rounded(measured.value(figure, target)), "measured": values}
            for target in TARGETS
            if (values := [_rounded(value) for value in measured.values(figure, target)])
        },
        "ratio_data_to_mock": _rounded(measured.ratio(figure)),
        "aim_at_most": figure.aim,
        "meets_aim": measured.meets_aim(figure),
    }


def _rounded(value: float) -> float:
    """Four digits are more than any of these measurements can promise."""
    return float(f"{value:.4g}")


def _versions() -> dict[str, str]:
    import confluent_kafka

    return {
        "equipoise": version("equipoise"),
        "python": platform.python_version(),
        "confluent-kafka": confluent_kafka.__version__,
        "librdkafka": confluent_kafka.libversion()[0],
    }


def print_figures(measured: Measurements, seconds: float) -> None:
    columns = ["figure", "unit", *(target.title for target in TARGETS), "ratio", "aim", ""]
    print_table(columns, [_row(measured, figure) for figure in FIGURES])
    names = ", ".join(f"{name} {number}" for name, number in _versions().items())
    print(f"{names}; {os.cpu_count()} cores; {seconds:.0f} s. The ratio is --data to the mock cluster.")
    print("\n".join(NOTES))


def _row(measured: Measurements, figure: Figure) -> list[str]:
    return [
        figure.title,
        figure.unit,
        *(_short(measured.value(figure, target)) for target in TARGETS),
        _short(measured.ratio(figure)),
        "" if figure.aim is None else f"<= {figure.aim:g}",
        {None: "", True: "met", False: "MISSED"}[measured.meets_aim(figure)],
    ]


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
