"""`python -m bench large-group`: a very small group, measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench.large import run as large
from bench.large.run import FULL, LARGEST, Size, figures, measure
from bench.results import Results
from proving.brokers import BrokerProcess, EquipoiseBroker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads process clocks of Linux")

QUICK_HEARTBEATS = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}


def test_a_small_group_has_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def broker(_: str) -> Iterator[BrokerProcess]:
        with EquipoiseBroker(QUICK_HEARTBEATS) as running:
            yield running

    monkeypatch.setattr(large, "_broker", broker)
    monkeypatch.setattr(large, "_REST", 0.2)
    size = Size(4, 10)
    rows = figures({"equipoise": (size,)})
    results = Results("large-group", rows, ())
    measure(results, "equipoise", size)
    assert [len(results.values(row.key)) for row in rows] == [1] * len(rows)
    (p99,) = [row for row in rows if row.key.endswith("p99")]
    assert p99.aim == 20.0


def test_kafka_is_measured_up_to_what_it_bears() -> None:
    keys = [row.key for row in figures(FULL)]
    assert f"equipoise_{LARGEST.key}_converge" in keys
    assert f"kafka_{LARGEST.key}_converge" not in keys
    assert any(key.startswith("kafka_") for key in keys)
