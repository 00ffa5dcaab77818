"""What `python -m bench versus-kafka` shows: tables with a text each, on the terminal and in docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from bench.figures import VERDICTS, short, versions
from bench.results import print_json
from bench.versus import texts
from bench.versus.figures import (
    CASES,
    KAFKA,
    LOAD_FIGURES,
    MACHINE_FIGURES,
    NOT_FLUSHED,
    OURS,
    REQUEST_FIGURES,
    TRANSITIONS,
    Comparison,
    Results,
    first_join_figure,
    transition_figures,
)
from equipoise.console.tables import print_table
from proving.brokers import kafka_version
from proving.fetched import java
from proving.members.foreign import node_modules
from proving.scenarios.clients import client_version

_PAIR = ("Kafka", "Equipoise", "ratio")
_COMPARED = ("figure", "unit", "Kafka", "Equipoise", "flush=never", "ratio", "aim", "")
_MEASURES = ("rebalance", "whole", "unowned")
_REBALANCE = ("client", *(cell for name in _MEASURES for cell in (f"{name}: Kafka", "Equipoise", "ratio", "")))


class Table(NamedTuple):
    title: str
    text: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(results: Results) -> list[Table]:
    sizes = results.sizes
    load_text = texts.LOAD.format(warm_ups=sizes.load_warm_ups)
    request_text = texts.REQUESTS.format(connections=sizes.connections, seconds=sizes.request_warm_up_seconds)
    return [
        Table("Start and memory", texts.MACHINE, _COMPARED, _compared(results, MACHINE_FIGURES)),
        Table("Produce and fetch", load_text, _COMPARED, _compared(results, LOAD_FIGURES)),
        Table("Heartbeats and commits", request_text, _COMPARED, _compared(results, REQUEST_FIGURES)),
        *(_rebalances(results, transition) for transition in TRANSITIONS),
        _first_joins(results),
    ]


def _compared(results: Results, figures: Sequence[Comparison]) -> list[list[str]]:
    return [
        [
            figure.title,
            figure.unit,
            *(short(results.median(figure, side)) for side in (KAFKA, OURS, NOT_FLUSHED)),
            short(results.ratio(figure)),
            "" if figure.aim is None else f">= {figure.aim:g}",
            VERDICTS[results.meets_aim(figure)],
        ]
        for figure in figures
        if results.has(figure)
    ]


def _pair(results: Results, figure: Comparison) -> tuple[str, str, str]:
    kafka, ours = (short(results.median(figure, side)) for side in (KAFKA, OURS))
    return kafka, ours, short(results.ratio(figure))


def _rebalances(results: Results, transition: str) -> Table:
    rows = []
    for case in CASES:
        figures = transition_figures(case, transition)
        if all(map(results.has, figures)):
            rows.append([case.title, *(cell for figure in figures for cell in _rated_pair(results, figure))])
    return Table(f"{transition.capitalize()} of a member, seconds", texts.TRANSITIONS[transition], _REBALANCE, rows)


def _rated_pair(results: Results, figure: Comparison) -> tuple[str, str, str, str]:
    return *_pair(results, figure), VERDICTS[results.meets_aim(figure)]


def _first_joins(results: Results) -> Table:
    rows = [
        [case.title, *_rated_pair(results, figure)] for case in CASES if results.has(figure := first_join_figure(case))
    ]
    return Table("First join of a new group, seconds", texts.FIRST_JOINS, ("client", *_PAIR, ""), rows)


def print_tables(results: Results, seconds: float) -> None:
    for table in tables(results):
        print(f"\n{table.title}\n")
        print_table(table.columns, table.rows)
    print(f"\n{_circumstances(results, seconds)}")
    print("\n".join([*_missing(results), *texts.INTRODUCTION]))


def print_document(results: Results, seconds: float) -> None:
    sizes = results.sizes._asdict() | {"cases": [case.title for case in results.sizes.cases]}
    notes = [*texts.INTRODUCTION, *(f"{table.title}: {table.text}" for table in tables(results))]
    facts = {"sizes": sizes, "skipped": results.skipped}
    print_json("versus-kafka", seconds, results.measured(), notes, _versions(results), **facts)


def write_page(path: Path, results: Results, seconds: float) -> None:
    parts = [
        "# Apache Kafka and Equipoise, side by side",
        f"Written by `{texts.COMMAND}`, {datetime.now(UTC):%Y-%m-%d}. {_circumstances(results, seconds)}",
        *texts.INTRODUCTION,
        _summary(results),
        *_missing(results),
    ]
    for table in tables(results):
        parts += [f"## {table.title}", table.text, _markdown(table)]
    path.write_text("\n\n".join(parts) + "\n")


def _summary(results: Results) -> str:
    rated = [figure for figure in results.figures if figure.aim is not None]
    missed = [figure for figure in rated if not results.meets_aim(figure)]
    rows = [f"- {figure.title}: {short(results.ratio(figure))} times, aim {figure.aim:g}" for figure in missed]
    head = f"{len(rated) - len(missed)} of {len(rated)} aims are met."
    return "\n".join([head + (" Missed:" if missed else ""), *rows])


def _missing(results: Results) -> list[str]:
    return [f"Not measured: {reason}" for reason in results.skipped]


def _markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _versions(results: Results) -> dict[str, str]:
    clients = {case.client for case in CASES if results.has(first_join_figure(case))}
    known = {"kafka": kafka_version()} if KAFKA in results.sides else {}
    if known or "java" in clients:
        known["java"] = _java_version()
    known |= versions()
    return known | {client: _version_of(client) for client in sorted(clients - known.keys())}


def _java_version() -> str:
    said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    return said.split('"')[1]


def _version_of(client: str) -> str:
    if client == "kafkajs":
        package = json.loads((node_modules() / client / "package.json").read_text())
        return str(package["version"])
    return _franz_go_version() if client == "franz-go" else version(client)


def _franz_go_version() -> str:
    """Without that of Go."""
    return client_version("franz-go").split()[0]


def _circumstances(results: Results, seconds: float) -> str:
    named = ", ".join(f"{name} {number}" for name, number in _versions(results).items())
    return f"{named}; {os.cpu_count()} cores ({_processor()}), {platform.platform()}; {seconds:.0f} s."


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
