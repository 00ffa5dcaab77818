"""`python -m bench first-batch`: its figures, the processes that it sees, its picture, a query of each connector."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.first_batch.picture import draw
from bench.first_batch.processes import Lane, Processes
from bench.first_batch.query import MARKS, FirstBatch, Query
from bench.first_batch.run import figures, run_query
from bench.spark.runs import fill
from proving.brokers import EquipoiseBroker
from proving.fetched import jars
from tests.proving.needed import needed
from tests.spark.streams import until

BUSY = """
import subprocess, sys, time
module = "pyspark.sql.worker.create_data_source"
child = subprocess.Popen([sys.executable, "-c", "while True: pass", "pyspark.daemon", module])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_the_aims_are_those_of_the_ratios() -> None:
    assert {one.key: one.aim for one in figures() if one.aim is not None} == {
        "ours_ratio": 0.9,
        "member_ratio": 0.85,
        "not_warmed_ratio": 0.9,
        "member_not_warmed_ratio": 0.85,
    }


def test_a_busy_child_has_a_lane_of_its_own() -> None:
    parent = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        with Processes(parent.pid) as processes:
            until("it is seen", lambda: "creation: daemon" in {lane.name for lane in processes.lanes})
    finally:
        parent.kill()
        subprocess.run(["kill", "-9", str(child)], check=True)
        parent.wait()
        parent.stdout.close()
    cpu = {lane.name: lane.cpu for lane in processes.lanes}
    assert cpu.keys() == {"JVM", "creation: daemon"}  # the root is named so, whatever it is
    assert cpu["creation: daemon"] > 0


def test_it_draws_a_panel_for_each_case(tmp_path: Path) -> None:
    lanes = [Lane("JVM", [(0.0, 3.0), (0.5, 3.4), (1.0, 3.4)]), Lane("reading", [(0.5, 0.0), (1.0, 0.5)])]
    seen = FirstBatch(dict(zip(MARKS, (0.1, 0.2, 0.9), strict=True)), lanes)
    assert seen.seconds == 0.9
    draw({"official": seen, "ours": seen}, tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_each_connector_comes_to_a_batch() -> None:
    needed(lambda: jars("spark"))
    with EquipoiseBroker() as broker:
        fill(broker, "first", 100, 100, "none")
        for query in (
            Query("kafka", broker.bootstrap_servers, "first"),
            Query("equipoise", broker.bootstrap_servers, "first", "group"),
        ):
            seen = run_query(query)
            assert list(seen.marks) == list(MARKS)
            assert 0 < seen.marks[MARKS[0]] < seen.marks[MARKS[1]] < seen.seconds
            assert ("driver's source" in {lane.name for lane in seen.lanes}) == (query.connector == "equipoise")
