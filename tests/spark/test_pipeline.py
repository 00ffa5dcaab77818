"""Pipelines on a real Spark, one session for all; what only a process of its own can show is in tests/console."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.spark.pipeline.errors import PipelineError
from tests.client.transactions.stage import read
from tests.client.writing import produce_keys
from tests.spark.conftest import Play, create
from tests.spark.streams import committed, departures, until

COUNT = 600
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PATIENCE_S = 200.0
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        create(broker.bootstrap_servers, "orders", 6)
        yield broker


def keys(orders: Any) -> Any:
    return orders.selectExpr("cast(key as string) key", "partition", "offset")


def misspelt(orders: Any) -> Any:
    return orders.select("valeu")


def nothing(orders: Any) -> None:
    return None


def broken(orders: Any) -> Any:
    nothing: dict[str, str] = {}
    return orders[nothing["gone"]]


def failing_in_a_task(orders: Any) -> Any:
    from pyspark.sql.functions import udf

    return orders.select(udf(lambda value: 1 // 0)("value"))


def offsets(path: Path) -> list[tuple[int, int]]:
    found = [pq.read_table(file, partitioning=None) for file in path.glob("member=*/*.parquet")]
    return sorted((row["partition"], row["offset"]) for table in found for row in table.to_pylist())


def test_members_share_until_all_is_read_and_go_on_later(play: Play, broker: Broker, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = {"sink__format": "parquet", "sink__path": str(out), "checkpoint": str(tmp_path / "progress"), "group": "g"}
    for count in (COUNT, 2 * COUNT):
        produce_keys(broker, "orders", COUNT)
        shown = play(members=2, **given)
        assert "tests.spark.test_pipeline.keys-1" in shown
        found = offsets(out)
        assert len(found) == len(set(found)) == count
    until_all_have_left(broker, 4)


def values(orders: Any) -> Any:
    return orders.selectExpr("concat(partition, '-', offset) value")


def test_members_write_exactly_once(play: Play, broker: Broker, tmp_path: Path) -> None:
    """The setting of the sink is all that it takes."""
    create(broker.bootstrap_servers, "out", 2)
    given = {"sink__format": "topic", "sink__topic": "out", "sink__delivery": "exactly-once", "group": "g"}
    given |= {"checkpoint": str(tmp_path / "progress"), "function": "tests.spark.test_pipeline:values"}
    for count in (COUNT, 2 * COUNT):
        produce_keys(broker, "orders", COUNT)
        play(members=2, **given)
        found = [record.value for record in read(broker, "out")]
        assert len(found) == len(set(found)) == count
    assert len(read(broker, "out", "read_uncommitted")) == 2 * COUNT
    ends = dict(enumerate(broker.topics["orders"].end_offsets))
    assert committed(broker.bootstrap_servers) == {("orders", one): end for one, end in ends.items()}


def test_rows_on_the_console(play: Play, broker: Broker, capfd: pytest.CaptureFixture[str]) -> None:
    produce_keys(broker, "orders", 3)
    play()
    out = capfd.readouterr().out
    assert "batch 0" in out
    assert "|  key|partition|offset|" in out


def test_the_examples(play: Play, broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, cents in enumerate([20_000, 15_000, 15_001, 100]):
        producer.produce("orders", json.dumps({"order": number, "cents": cents}), key=f"customer-{number % 2}")
    assert producer.flush(30) == 0
    out, progress = tmp_path / "out", tmp_path / "progress"
    play(function=str(EXAMPLES / "large_orders.toml"), sink__path=str(out), checkpoint=str(progress))
    rows = pq.read_table(out / "member=0", partitioning=None).to_pylist()
    assert sorted((row["customer"], row["order"], row["cents"]) for row in rows) == [
        ("customer-0", 0, 20_000),
        ("customer-0", 2, 15_001),
    ]
    play(function="examples.revenue:per_customer", sink__outputMode="complete")
    printed = capfd.readouterr().out
    assert re.search(r"customer-0\|\s+2\|\s+350\.01\|", printed)
    assert re.search(r"customer-1\|\s+2\|\s+151\.0\|", printed)


def test_ctrl_c_ends_it_and_members_leave(play: Play, broker: Broker) -> None:
    produce_keys(broker, "orders", COUNT)

    def interrupt() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while broker.call(_committed) < COUNT and time.monotonic() < deadline:
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    shown = play(until_idle=False, group="g", sink__format="noop")
    thread.join()
    assert f" {COUNT} " in shown
    until_all_have_left(broker, 1)


def until_all_have_left(broker: Broker, count: int) -> None:
    """Each by its own word, not by the end of its session."""
    until("all are gone", lambda: len(departures(broker.bootstrap_servers)) == count)
    assert {why for why, _ in departures(broker.bootstrap_servers)} == {"left"}


def _committed(server: Server) -> int:
    offsets = server.group_coordinator.shard_of("g").core.offsets
    return sum(one.offset for _, _, one in offsets.of_group("g"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"function": "tests.spark.test_pipeline:misspelt"}, "`valeu` cannot be resolved"),
        ({"function": "tests.spark.test_pipeline:nothing"}, "returned NoneType: it is to return a DataFrame"),
        ({"function": "tests.spark.test_pipeline:broken"}, "failed: KeyError: 'gone' ("),
        ({"function": "tests.spark.test_pipeline:failing_in_a_task"}, "ZeroDivisionError: integer division or modulo"),
        ({"sink__format": "nosuch"}, "nosuch"),
        ({"source__subscribe": "ordres"}, "topic 'ordres' does not exist at"),
        ({"trigger": "soon", "until_idle": False}, "soon"),
    ],
)
def test_errors_are_one_sentence(play: Play, broker: Broker, given: dict[str, Any], sentence: str) -> None:
    produce_keys(broker, "orders", 6)
    with pytest.raises((PipelineError, ValueError)) as caught:
        play(**({"sink__format": "noop"} | given))
    print(caught.value)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("selct * from source", "SQL, line 1, character 1: Syntax error at or near 'selct'"),
        ("select nothing from source", "SQL, line 1, character 8: A column"),
        ("select * from sorce", "SQL, line 1, character 15: The table or view `sorce` cannot be found"),
        ("select 1", "writeStream"),
    ],
)
def test_errors_in_sql(play: Play, tmp_path: Path, sql: str, sentence: str) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(f'sql = "{sql}"')
    with pytest.raises(PipelineError) as caught:
        play(function=str(file))
    print(caught.value)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
