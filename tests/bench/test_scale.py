"""`python -m bench scale`: where a cost doubles, what is measured, and the picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.scale.measures import Records, commit, join, read_records
from bench.scale.picture import draw
from bench.scale.run import FULL
from bench.scale.series import Series, first_doubling
from bench.versus.run import create_topic
from proving.brokers import BrokerProcess, MemoryBroker

SIZES = (1, 10, 100, 1000)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with MemoryBroker() as running:
        yield running


@pytest.mark.parametrize(
    ("costs", "at"),
    [
        ([1.0, 1.1, 1.9, 2.0], 1000),
        ([4.0, 1.0, 1.9, 2.0], 1000),  # twice the cheapest, not the first
        ([1.0, 2.0, 1.0, 1.0], 10),
        ([4.0, 3.0, 2.0, 1.0], None),
    ],
)
def test_where_a_cost_doubles(costs: list[float], at: int | None) -> None:
    assert first_doubling(SIZES, costs) == at


def test_the_whole_range_is_measured() -> None:
    assert (FULL.partitions[0], FULL.partitions[-1]) == (100, 10_000)
    assert (FULL.groups[0], FULL.groups[-1]) == (10, 5000)
    assert (FULL.members[0], FULL.members[-1]) == (1, 64)
    assert FULL.sizes[0] == 10
    assert FULL.sizes[-1] > 800_000  # a megabyte is the most that a producer sends by default


def test_a_record_costs_broker_consumer_and_source(broker: BrokerProcess) -> None:
    costs = read_records(broker, Records("few", 3, 20, 60))
    assert costs.keys() == {"broker", "consumer", "source"}
    assert all(cost > 0 for cost in costs.values())


def test_a_commit_costs_the_broker(broker: BrokerProcess) -> None:
    assert commit(broker, 3, 10)["broker"] > 0


def test_a_member_costs_both_sides(broker: BrokerProcess) -> None:
    create_topic(broker, "shared", 4)
    costs = join(broker, 2, "shared", 4)
    assert costs.keys() == {"broker", "consumer"}
    assert all(cost > 0 for cost in costs.values())


def test_the_same_costs_for_another_unit() -> None:
    series = Series("sizes", "Records", "bytes", "record", (10, 100), {"broker": [1.0, 5.0]})
    each = series.per("bytes", "Bytes", "100 bytes", [10, 1])
    assert each == ("bytes", "Bytes", "bytes", "100 bytes", (10, 100), {"broker": [10.0, 5.0]})


def test_it_draws_a_panel_for_each(tmp_path: Path) -> None:
    series = Series("groups", "Commits", "groups", "commit", SIZES, {"broker": [1.0, 1.0, 3.0, 4.0]})
    assert dict(series.doublings()) == {"broker": 100}
    draw([series] * 4, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")
