"""`python -m bench first-batch`: how long a streaming query takes to its first rows, beside Spark's own connector."""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.figures import Figure
from bench.first_batch.query import FirstBatch, Query
from bench.machine import check_machine, progress
from bench.results import Results
from equipoise.wire.errors import EquipoiseError, UsageError
from proving.brokers import EquipoiseBroker
from proving.tree import ROOT, python_module, with_tree

_TOPIC, _RECORDS, _SIZE = "first", 1000, 100
NOTES = (
    "From load() to the end of the first batch, which has 1,000 records of 4 partitions, in a session that has run a "
    "stream of Spark's own before. Each round has a new JVM for each of these, in turn, because the second query of a "
    "session has its classes and processes from the first. The sessions are those of `equipoise run`, which starts "
    "Spark's Python processes in advance; `not warmed` is a session without this.",
    "Ratio: the official connector's median : ours. CPU: that of the JVM and all Python processes in this time; it "
    "depends less on what else the machine does.",
)


class Case(NamedTuple):
    key: str
    title: str
    connector: str
    is_member: bool = False
    warms_up: bool = True
    aim: float | None = None  # of the ratio


OFFICIAL = Case("official", "official", "kafka")
CASES = (
    OFFICIAL,
    Case("ours", "ours", "equipoise", aim=0.9),
    Case("member", "ours, as a member", "equipoise", is_member=True, aim=0.85),
    Case("not_warmed", "ours, not warmed", "equipoise", warms_up=False, aim=0.9),
    Case("member_not_warmed", "ours, as a member, not warmed", "equipoise", True, warms_up=False, aim=0.85),
)


def figures() -> list[Figure]:
    found = []
    for case in CASES:
        found.append(Figure(f"{case.key}_seconds", f"{case.title}: first batch", "s"))
        found.append(Figure(f"{case.key}_cpu", f"{case.title}: CPU", "s CPU"))
    for case in CASES[1:]:
        found.append(Figure(f"{case.key}_ratio", f"official : {case.title}", "times", case.aim))
        found.append(Figure(f"{case.key}_cpu_ratio", f"official : {case.title}, CPU", "times"))
    return found


def run_bench(as_json: bool, quick: bool, picture: Path | None) -> None:
    """Measures for some minutes and prints a table, or one JSON object."""
    check_machine("first-batch", "pyspark")
    from bench.spark.runs import fill, official_jars

    missing = official_jars()[1]
    if missing:
        raise UsageError(f"first-batch needs the official connector beside ours: {missing}")
    _compile()
    rounds = 1 if quick else 5
    facts = {"rounds": rounds, "pyspark": version("pyspark")}
    results = Results("first-batch", figures(), NOTES, **facts)
    began = time.perf_counter()
    seen: dict[str, FirstBatch] = {}
    with EquipoiseBroker() as broker, progress(rounds * len(CASES)) as advance:
        fill(broker, _TOPIC, _SIZE, _RECORDS, "none")
        for number in range(rounds):
            for case in CASES:
                seen[case.title] = _measure(results, case, broker.bootstrap_servers, number)
                advance()
    _compare(results)
    if picture is not None:
        from bench.first_batch.picture import draw

        draw(seen, picture)
    results.print(as_json, time.perf_counter() - began)


def _compile() -> None:
    """As an installer does. Else each of Spark's processes compiles the product again, where Python may not write what
    it has compiled, for half a second of CPU."""
    compileall.compile_dir(ROOT / "src", quiet=1)


def _measure(results: Results, case: Case, servers: str, number: int) -> FirstBatch:
    group = f"{case.key}-{number}" if case.is_member else ""
    found = run_query(Query(case.connector, servers, _TOPIC, group, case.warms_up))
    results.add(f"{case.key}_seconds", found.seconds)
    results.add(f"{case.key}_cpu", sum(lane.cpu for lane in found.lanes))
    return found


def run_query(query: Query) -> FirstBatch:
    """In a process of its own: a process has one JVM."""
    command = python_module("bench.first_batch.query", json.dumps(query))
    ended = subprocess.run(command, env=os.environ | with_tree(), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise EquipoiseError(f"the query of {query.connector} has failed: {ended.stderr.strip()[-2000:]}")
    return FirstBatch.parse(ended.stdout.strip().splitlines()[-1])


def _compare(results: Results) -> None:
    for kind, ratio in (("seconds", "ratio"), ("cpu", "cpu_ratio")):
        official = median(results.values(f"{OFFICIAL.key}_{kind}"))
        for case in CASES[1:]:
            results.add(f"{case.key}_{ratio}", official / median(results.values(f"{case.key}_{kind}")))
