"""`python -m bench spark`: which figures there are, with and without the official connector, and a very short run."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from bench.spark.ceiling import Ceiling
from bench.spark.run import CODECS, CONNECTORS, FULL, SINKS, figures
from equipoise.spark.schema import arrow_schema
from proving.fetched import jars
from proving.tree import ROOT
from tests.proving.needed import needed

OURS = {"ours": CONNECTORS["ours"]}
SHORT = """
from bench.spark import run as spark
spark.CODECS = ("none",)
spark.QUICK = spark.Size({100: 20_000}, 1, 2, 5, 20, 1, {100: 5_000}, 1)
spark.run_bench(as_json=True, quick=True)
"""


def test_the_aims_are_ours() -> None:
    aims = {one.key: one.aim for one in figures(FULL, CONNECTORS) if one.aim is not None}
    least = {"100_noop": 2.0, "100_parquet": 1.6, "1000_noop": 1.3, "1000_parquet": 1.2}
    ratios = {
        f"ratio_{size}_{codec}_{sink}": least[f"{size}_{sink}"]
        for size in (100, 1000)
        for codec in CODECS
        for sink in SINKS
    }
    assert aims == ratios | {
        "ours_100_none_noop": 2_000_000,
        "ours_batch": 60,
        "ratio_batch": 1.3,
        "commit_overhead": 2,
        "ours_write_100": 500_000,
    }


def test_without_the_official_connector_its_figures_are_missing_and_no_others() -> None:
    both, ours = ({one.key for one in figures(FULL, connectors)} for connectors in (CONNECTORS, OURS))
    assert ours < both
    assert all(key.startswith(("official_", "ratio_")) for key in both - ours)


def test_the_source_in_memory_has_as_many_rows_as_it_is_asked_for() -> None:
    source = Ceiling({"size": "20", "records": "50000", "maxOffsetsPerTrigger": "40000"})
    reader = source.streamReader(source.schema())
    at, found = reader.initialOffset(), []
    while (end := reader.latestOffset(at, ReadAllAvailable())) != at:
        batches: list[Any] = [batch for task in reader.partitions(at, end) for batch in reader.read(task)]
        assert {batch.schema for batch in batches} == {arrow_schema(source.schema().names)}
        found.append(sum(batch.num_rows for batch in batches))
        at = end
    assert found == [40_000, 10_000]


@pytest.mark.soak
@pytest.mark.timeout(600)  # Spark takes its time on a busy machine
def test_a_very_short_run_measures_both_connectors() -> None:
    needed(lambda: jars("spark"))
    ended = subprocess.run([sys.executable, "-c", SHORT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout)
    assert found["skipped"] == []
    values = {key: one["best"] for key, one in found["figures"].items()}
    assert {"ours_100_none_noop", "official_100_none_parquet", "ratio_100_none_noop"} < values.keys()
    assert "ceiling_100_noop" in values
    assert {"ours_batch", "official_batch", "commit_batch", "ours_write_100", "official_write_100"} < values.keys()
    assert all(value > 0 for key, value in values.items() if key != "commit_overhead")
