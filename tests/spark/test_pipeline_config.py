"""Pipelines as they are written, and the sentences about those that are written wrongly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from equipoise.spark.pipeline.checks import check, load, path_of, source_of
from equipoise.spark.pipeline.config import Pipeline
from equipoise.spark.pipeline.errors import PipelineError
from equipoise.wire.errors import UsageError

WHOLE = """
group = "etl"
sql = "select * from source"
checkpoint = "progress"
trigger = "5 seconds"

[source]
kafka.bootstrap.servers = "127.0.0.1:9092"
subscribe = ["orders", "refunds"]
startingOffsets = "earliest"
maxOffsetsPerTrigger = 1000
failOnDataLoss = false

[sink]
format = "topic"
topic = "totals"
outputMode = "update"

[spark]
sql.shuffle.partitions = 3
"""


def written(path: Path, text: str) -> str:
    file = path / "orders etl.toml"
    file.write_text(text)
    return str(file)


def test_a_whole_one(tmp_path: Path) -> None:
    pipeline = Pipeline.read(written(tmp_path, WHOLE))
    assert pipeline.name == "orders-etl"
    assert (pipeline.group, pipeline.checkpoint, pipeline.trigger) == ("etl", "progress", "5 seconds")
    assert pipeline.source_options == {
        "group.id": "etl",
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "subscribe": "orders,refunds",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "1000",
        "failOnDataLoss": "false",
    }
    assert pipeline.sink_options == {"topic": "totals", "kafka.bootstrap.servers": "127.0.0.1:9092"}
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "3"}
    assert pipeline.is_shared


def test_a_function_with_values_given_beside_it() -> None:
    pipeline = Pipeline.read("shop.orders:totals", {"source.subscribe": "orders", "sink.format": "noop"})
    assert (pipeline.name, pipeline.function) == ("shop.orders.totals", "shop.orders:totals")
    assert (pipeline.source_options, pipeline.sink_format) == ({"subscribe": "orders"}, "noop")
    assert pipeline.needs_brokers
    assert not pipeline.is_shared


def test_values_given_go_over_those_written(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE)
    pipeline = Pipeline.read(file, {"source.group.mode": "commit", "trigger": "1 minute", "sink.topic": "other"})
    assert not pipeline.is_shared
    assert (pipeline.trigger, pipeline.sink["topic"]) == ("1 minute", "other")
    assert pipeline.at("x:1").source_options["kafka.bootstrap.servers"] == "x:1"
    assert pipeline.at("x:1").sink_options["kafka.bootstrap.servers"] == "x:1"


def test_each_side_may_have_brokers_of_its_own(tmp_path: Path) -> None:
    pipeline = Pipeline.read(written(tmp_path, WHOLE), {"sink.kafka.bootstrap.servers": "y:2"})
    assert pipeline.source["kafka.bootstrap.servers"] == "127.0.0.1:9092"
    assert pipeline.sink["kafka.bootstrap.servers"] == "y:2"


def test_what_needs_no_broker() -> None:
    given = {"source.format": "rate", "sink.format": "parquet", "sink.path": "out/"}
    pipeline = Pipeline.read("a:b", given)
    assert not pipeline.needs_brokers
    assert path_of(pipeline, 1) == "out/member=1"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("grop = 'x'", "unknown key 'grop' in the pipeline; did you mean 'group'?"),
        ("[sorce]\nx = 1", "unknown table [sorce] in the pipeline (it holds 'x'); did you mean 'source'?"),
        ("[snk]\nformat = 'parquet'", "unknown table [snk] in the pipeline (it holds 'format'); did you mean 'sink'?"),
        ("[sink]\nformat = 'parket'", "[sink] format = 'parket': Spark has no such format; did you mean 'parquet'?"),
        ("[sink]\nformat = 'tpoic'", "did you mean 'topic'?"),
        (
            "[source]\nformat = 'equipose'",
            "[source] format = 'equipose': Spark has no such format; did you mean 'equip",
        ),
        ("[sink]\nformat = 'Parquet'", 'the sink has the format parquet, but no path: say where, as path = "out"'),
        ("source = 'orders'", "source = 'orders': this is a table of options: write [source]"),
        ("sql = 'a'\nfunction = 'a:b'", "sql and function are both given"),
        ("function = 'totals'", "function = 'totals': write module:function"),
        ("[sink]\nformat = 'parquet'", 'no path: say where, as path = "out"'),
        ("group = 'g'\n[source]\nformat = 'rate'", "a source of format rate has none"),
        ("[source]\nsubscribe = [1]", "source.subscribe: a list holds names"),
        ("group = ", "is no TOML"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        Pipeline.read(written(tmp_path, text))
    assert sentence in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml does not exist: a pipeline is a file of TOML"):
        Pipeline.read("nowhere.toml")


def test_formats_that_something_may_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages of Spark, classes and Python data sources have names that only Spark can tell."""
    for sink in ({"sink.format": "delta"}, {"sink.format": "org.example.Parket"}):
        Pipeline.read("a:b", sink)
    near = {"sink.format": "parket"}
    Pipeline.read("a:b", near | {"spark.jars.packages": "org.example:parket:1"})
    (tmp_path / "pyspark_parket.py").touch()
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        Pipeline.read("a:b", near)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages org.example:parket:1")
    Pipeline.read("a:b", near)


# -- before Spark is started


def test_options_of_the_source_are_checked_by_name() -> None:
    with pytest.raises(UsageError, match="unknown option 'subscrib'; did you mean 'subscribe'"):
        check(Pipeline.read("a:b", {"source.subscrib": "orders", "source.kafka.bootstrap.servers": "x:1"}), 1)


def test_members_need_a_group() -> None:
    with pytest.raises(UsageError, match="--members 2: members share the partitions of a group"):
        check(Pipeline.read("a:b", {"source.subscribe": "orders", "source.kafka.bootstrap.servers": "x:1"}), 2)


def test_static_members_have_an_id_each() -> None:
    """With one for all, each would put the other out."""
    given = {"source.subscribe": "orders", "group": "g", "source.kafka.Group.Instance.Id": "etl"}
    pipeline = Pipeline.read("shop:orders", given)
    assert source_of(pipeline, 1, 3)["kafka.Group.Instance.Id"] == "etl-1"
    assert source_of(pipeline, 0, 1)["kafka.Group.Instance.Id"] == "etl"
    assert source_of(pipeline, 1, 3)["kafka.client.id"] == "shop.orders-1"
    assert source_of(Pipeline.read("a:b", {"source.format": "rate"}), 0, 1) == {}


def test_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("shop_orders.py").write_text("def totals(orders):\n    return orders\n")
    Path("shop_broken.py").write_text("x = 1\nraise KeyError('gone')\n")
    assert load("shop_orders:totals")(5) == 5
    for function, sentence in {
        "shop_nowhere:totals": "there is no module 'shop_nowhere'",
        "shop_orders:total": "the module has no function 'total'",
        "shop_broken:totals": f"its module fails: KeyError: 'gone' ({tmp_path}/shop_broken.py, line 2)",
    }.items():
        with pytest.raises(PipelineError) as caught:
            load(function)
        assert sentence in str(caught.value)


def test_a_sink_that_writes_exactly_once_commits_for_the_group(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(
        'group = "g"\ncheckpoint = "c"\n[source]\nkafka.bootstrap.servers = "x:1"\nsubscribe = "orders"\n'
        '[sink]\nformat = "topic"\ntopic = "out"\ndelivery = "exactly-once"\n'
    )
    exact = Pipeline.read(str(file))
    assert (exact.sink_options["group.id"], exact.source_options["delivery"]) == ("g", "exactly-once")
    other = Pipeline.read(str(file), {"sink.delivery": "at-least-once"})
    assert "group.id" not in other.sink_options
    assert "delivery" not in other.source_options
    file.write_text(file.read_text().replace("checkpoint", "trigger"))
    with pytest.raises(UsageError, match='delivery = "exactly-once" needs a checkpoint that stays'):
        Pipeline.read(str(file))


def test_names_of_options_have_no_case(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(
        'checkpoint = "c"\n[source]\nKafka.Bootstrap.Servers = "x:1"\nSubscribe = "orders"\nGroup.Id = "g"\n'
        'Group.Mode = "commit"\n[sink]\nFormat = "topic"\nTopic = "out"\nDelivery = "exactly-once"\n'
    )
    found = Pipeline.read(str(file))
    assert (found.brokers, found.sink_format, found.is_shared, found.is_exactly_once) == ("x:1", "topic", False, True)
    assert (found.sink_options["group.id"], found.source_options["delivery"]) == ("g", "exactly-once")
    assert not Pipeline.read(str(file), {"sink.delivery": "at-least-once"}).is_exactly_once
