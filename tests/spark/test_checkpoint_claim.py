"""Checkpoints and output that do not belong together: refused before anything is read or committed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from equipoise.broker import Broker
from equipoise.spark.options import SourceOptions
from equipoise.spark.pipeline import checkpoint_claim
from equipoise.spark.pipeline.checkpoint_claim import CheckpointClaim, MemberPaths
from equipoise.spark.pipeline.config import Pipeline
from equipoise.spark.pipeline.errors import PipelineError
from equipoise.spark.pipeline.files import Local, Remote
from equipoise.spark.source.source_offset import SourceOffset, check_checkpoint
from equipoise.wire.errors import UsageError
from tests.client.writing import produce_keys
from tests.spark.conftest import Play, create
from tests.spark.streams import Sink, committed, departures, stream
from tests.spark.test_pipeline import offsets

COUNT = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        create(broker.bootstrap_servers, "orders", 2)
        yield broker


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """A pipeline from the group g into files."""
    return {
        "group": "g",
        "sink__format": "parquet",
        "sink__path": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "progress"),
    }


# -- with Spark


@pytest.mark.parametrize("group", ["g", "another"])
def test_another_querys_checkpoint_onto_files_that_are_there(
    play: Play, broker: Broker, tmp_path: Path, given: dict[str, str], group: str
) -> None:
    """Spark would take its batches for known ones: committed to the group, and never written."""
    produce_keys(broker, "orders", COUNT)
    play(**given)
    other = given | {"group": group, "sink__path": str(tmp_path / "elsewhere"), "checkpoint": str(tmp_path / "second")}
    play(**other)
    produce_keys(broker, "orders", COUNT)
    before = committed(broker.bootstrap_servers)
    with pytest.raises(PipelineError) as caught:
        play(**(given | {"checkpoint": other["checkpoint"]}))
    print(caught.value)
    told = {"g": "has been written with another checkpoint than", "another": "with the group 'another', this one has"}
    assert told[group] in str(caught.value)
    assert committed(broker.bootstrap_servers) == before
    play(**given)
    assert len(offsets(tmp_path / "out")) == 2 * COUNT


def test_a_checkpoint_with_another_group_or_another_path(
    play: Play, broker: Broker, tmp_path: Path, given: dict[str, str]
) -> None:
    """It would begin behind what was read elsewhere: no rows, although earliest is asked for."""
    produce_keys(broker, "orders", COUNT)
    play(**given)
    path = str(tmp_path / "elsewhere")
    for change, sentence in [
        ({"group": "new", "sink__path": path}, "with the group 'g', this one has the group 'new'"),
        ({"sink__path": path}, "has written its batches elsewhere, not to"),
        ({"sink__format": "json", "sink__path": path}, "that writes to parquet"),
        ({"sink__format": "noop"}, "this one writes to noop"),
    ]:
        with pytest.raises(PipelineError, match=sentence):
            play(**(given | change))
    assert committed(broker.bootstrap_servers, "new") == {}
    play(**(given | {"group": "new", "sink__path": path, "checkpoint": str(tmp_path / "new")}))
    assert len(offsets(tmp_path / "elsewhere")) == COUNT


def test_both_may_move_and_older_ones_have_no_notes(
    play: Play, broker: Broker, tmp_path: Path, given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes are of what belongs together, not of where it lies; without them Spark's own logs tell as much."""
    monkeypatch.setattr(checkpoint_claim, "_CLOCK_MS", 0)  # both queries may have run within the same second
    produce_keys(broker, "orders", COUNT)
    play(**given)
    other = given | {"sink__path": str(tmp_path / "elsewhere"), "checkpoint": str(tmp_path / "second")}
    play(**other)  # a batch without rows
    play(**other)
    for note in [*tmp_path.glob("*/member*/equipoise.json"), *tmp_path.glob("*/member*/_equipoise.json")]:
        note.unlink()
    moved = {"sink__path": str(tmp_path / "a" / "out"), "checkpoint": str(tmp_path / "a" / "progress")}
    (tmp_path / "a").mkdir()
    shutil.move(given["sink__path"], moved["sink__path"])
    shutil.move(given["checkpoint"], moved["checkpoint"])
    with pytest.raises(PipelineError, match="has been written with another checkpoint"):
        play(**(given | moved | {"checkpoint": other["checkpoint"]}))
    produce_keys(broker, "orders", COUNT)
    play(**(given | moved))
    assert len(offsets(tmp_path / "a" / "out")) == 2 * COUNT


def test_a_plain_query_on_the_checkpoint_of_another_group(spark: Any, broker: Broker, checkpoint: str) -> None:
    produce_keys(broker, "orders", COUNT)
    servers, options = broker.bootstrap_servers, {"subscribe": "orders", "startingOffsets": "earliest"}
    sink = Sink()
    sink.start(stream(spark, servers, group__id="g", **options), checkpoint, availableNow=True).awaitTermination()
    produce_keys(broker, "orders", COUNT)
    sentence = "the checkpoint is of a query with the group 'g', this one has {}: what was read there would"
    for group, named in (("other", "the group 'other'"), (None, "no group")):
        given = options if group is None else options | {"group__id": group}
        query = sink.start(stream(spark, servers, **given), checkpoint, availableNow=True)
        with pytest.raises(StreamingQueryException, match=re.escape(sentence.format(named))):
            query.awaitTermination()
    assert committed(servers, "other") == {}
    assert departures(servers, "other") == []
    sink.fail_at = max(batch for batch, _ in sink.calls) + 1
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        sink.start(stream(spark, servers, group__id="g", **options), checkpoint, availableNow=True).awaitTermination()
    calls = len(sink.calls)
    with pytest.raises(StreamingQueryException, match=re.escape(sentence.format("the group 'other'"))):
        sink.start(
            stream(spark, servers, group__id="other", **options), checkpoint, availableNow=True
        ).awaitTermination()
    assert len(sink.calls) == calls  # the batch that was under way is not for this query either


def test_files_elsewhere_are_read_and_written_by_spark(spark: Any, tmp_path: Path) -> None:
    for files in (Local(), Remote(spark)):
        name = f"{type(files).__name__} ü%20#?"
        directory = f"file://{tmp_path}/{name}"
        assert files.names(directory) == []
        assert files.read(f"{directory}/a") is None
        files.write(f"{directory}/a", "one")
        files.write(f"{directory}/a", "two ü")
        assert files.read(f"{directory}/a") == "two ü"
        assert [one for one in files.names(directory) if not one.startswith(".")] == ["a"]
        assert (tmp_path / name / "a").exists()


# -- without


class Scene:
    """A checkpoint and files as Spark leaves them."""

    def __init__(self, home: Path) -> None:
        self.checkpoint, self.path = home / "progress" / "member-0", home / "out" / "member=0"
        self.places = MemberPaths(str(self.checkpoint), str(self.path))

    def plan(self, batch: int, at: int = 0, **offset: Any) -> Scene:
        offset = {"v": 1, "query": "q", "batch": batch, "to": {"orders": {"0": 5}}} | offset
        lines = "v1", json.dumps({"batchTimestampMs": at}), json.dumps(offset)
        return self.file(self.checkpoint / "offsets" / str(batch), "\n".join(lines))

    def write(self, batch: int, at: int = 0, *, finish: bool = True) -> Scene:
        self.file(self.path / "_spark_metadata" / str(batch), "v1\n" + json.dumps({"modificationTime": at}))
        return self.file(self.checkpoint / "commits" / str(batch), "v1\n{}") if finish else self

    def file(self, file: Path, text: str) -> Scene:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self

    def belonging(self, **given: str) -> CheckpointClaim:
        brokers = {"source.kafka.bootstrap.servers": "127.0.0.1:1", "source.subscribe": "orders"}
        sink = {"sink.format": "parquet", "sink.path": str(self.path.parent)} if self.places.files else {}
        settings = brokers | sink | {"group": "g"} | {name.replace("__", "."): value for name, value in given.items()}
        return CheckpointClaim(Pipeline.read("a:b", settings), self.places)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_new_ones_belong_together(scene: Scene) -> None:
    scene.belonging().claim()
    scene.plan(0)  # and killed in its first batch, before a file was written
    scene.belonging().claim()
    scene.write(0, finish=False)
    scene.belonging().claim()
    scene.write(0).plan(1)
    scene.belonging().claim()


def test_files_of_another_checkpoint(scene: Scene, tmp_path: Path) -> None:
    scene.file(scene.path / "_spark_metadata" / "0", "v1")
    for checkpoint in (str(scene.checkpoint), None):
        scene.places = MemberPaths(checkpoint, str(scene.path))
        with pytest.raises(PipelineError, match="member=0 has been written with another checkpoint than"):
            scene.belonging().check()
    (scene.checkpoint / "offsets").mkdir(parents=True)
    with pytest.raises(PipelineError, match="member=0 has been written with another checkpoint than"):
        scene.belonging().check()


@pytest.mark.parametrize(
    "acts",
    [
        [("plan", 0, 10_000), ("write", 0, 12_000), ("plan", 1, 20_000), ("write", 1, 30_000)],
        [("plan", 0, 10_000), ("write", 0, 12_000), ("plan", 1, 20_000)],
        [("plan", 0, 10_000), ("write", 0, 10_000)],
    ],
)
def test_without_notes_it_is_likely(scene: Scene, acts: list[tuple[str, int, int]]) -> None:
    for act, batch, at in acts:
        getattr(scene, act)(batch, at)
    scene.belonging().claim()
    scene.belonging().check()


@pytest.mark.parametrize(
    "acts",
    [
        [("plan", 0, 10_000), ("write", 0, 2_000)],  # files that were there before
        [("plan", 0, 10_000), ("write", 0, 30_000), ("plan", 1, 20_000)],  # and later
        [("plan", 0, 10_000), ("plan", 1, 20_000), ("plan", 2, 30_000), ("write", 0, 12_000)],
        [("plan", 0, 10_000), ("write", 0, 12_000), ("write", 1, 12_000)],
    ],
)
def test_without_notes_it_is_not_likely(scene: Scene, acts: list[tuple[str, int, int]]) -> None:
    for act, batch, at in acts:
        getattr(scene, act)(batch, at)
    with pytest.raises(PipelineError, match="has been written with another checkpoint"):
        scene.belonging().check()


@pytest.mark.parametrize(
    ("offset", "options", "sentence"),
    [
        ({"group": "g"}, {"group.id": "g"}, None),
        ({"group": ""}, {}, None),
        ({}, {"group.id": "g"}, None),  # of an older release, which did not note the group
        ({"group": "g"}, {"group.id": "h"}, "query with the group 'g', this one has the group 'h'"),
        ({"group": "g"}, {}, "query with the group 'g', this one has no group"),
        ({"group": ""}, {"group.id": "g"}, "query with no group, this one has the group 'g'"),
        ({}, {"subscribe": "others"}, "query that reads orders, this one reads others: begin with a new checkpoint"),
        ({}, {"subscribe": "orders,others"}, None),
        ({}, {"subscribePattern": "ord.*"}, None),
        ({}, {"subscribePattern": "ord"}, "query that reads orders, this one reads ord: "),
        ({"to": {}, "seen": {"orders": 2}}, {"subscribe": "others"}, "query that reads orders"),
        ({}, {"assign": '{"orders": [1]}'}, None),
        ({}, {"assign": '{"others": [0]}'}, "this one reads others-0"),
    ],
)
def test_whose_offsets_they_are(offset: dict[str, Any], options: dict[str, str], sentence: str | None) -> None:
    if not options.keys() & {"assign", "subscribePattern"}:
        options = {"subscribe": "orders"} | options
    parsed = SourceOptions.parse({"kafka.bootstrap.servers": "x:1"} | options, streaming=True)
    found = SourceOffset.parse({"v": 1, "query": "q", "batch": 0, "to": {"orders": {"0": 5}}} | offset)
    if sentence is None:
        check_checkpoint(found, parsed)
    else:
        with pytest.raises(UsageError, match=re.escape(sentence)):
            check_checkpoint(found, parsed)


def test_the_official_connectors_checkpoint_has_no_group() -> None:
    options = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "group.id": "g"}
    check_checkpoint(SourceOffset.parse({"t": {"0": 5}}), SourceOptions.parse(options, streaming=True))


def test_a_sink_that_is_no_directory(scene: Scene) -> None:
    scene.places = MemberPaths(str(scene.checkpoint), None)
    scene.belonging(sink__format="topic", sink__topic="a").claim()
    scene.plan(0)
    scene.belonging(sink__format="equipoise", sink__topic="a").claim()  # another word for it
    with pytest.raises(PipelineError, match="that writes to topic 'a', this one writes to topic 'b', where what was"):
        scene.belonging(sink__format="topic", sink__topic="b").check()


def test_a_damaged_note(scene: Scene) -> None:
    scene.belonging().claim()
    scene.plan(0).write(0).file(scene.checkpoint / "equipoise.json", "{")
    with pytest.raises(PipelineError, match=r"equipoise\.json is damaged: restore it, or begin with a new checkpoint"):
        scene.belonging().check()
