"""Damage to files: it is told, nothing that could be recovered is deleted, and nothing is guessed at."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.recovery.check import check, rebuild_topics
from equipoise.log.recovery.inventory import TopicRecord
from equipoise.log.recovery.partition_registry import REGISTRY
from equipoise.log.storage.directory import DataDirectory
from equipoise.log.storage.disk import PartitionFiles
from equipoise.wire.errors import UsageError
from tests.log.log_helpers import offsets, open_log, put, read_log, texts

SMALL = LogConfig(segment_bytes=300)
CONFIG = LogConfig()
COUNT = 12
TOPIC = TopicRecord("t", bytes(range(16)), 2, {"retention.ms": "-1"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one topic: some segments in partition 0, nothing in partition 1."""
    directory = DataDirectory(tmp_path / "data")
    directory.save_topics([TOPIC])
    log = directory.open_log("t", 0, SMALL)
    directory.open_log("t", 1, SMALL)
    for number in range(COUNT):
        put(log, f"value-{number}", producer_id=4711, epoch=0, sequence=number)
    directory.close()
    return tmp_path / "data"


def segments(data: Path) -> list[Path]:
    return sorted((data / "t-0").glob("*.log"))


def opened(data: Path, look: Callable[[PartitionLog], Any]) -> Any:
    """What `look` finds in partition 0 after a start; the broker is then stopped."""
    directory = DataDirectory(data)
    try:
        return look(directory.open_log("t", 0, SMALL))
    finally:
        directory.close()


def everything(log: PartitionLog) -> list[str | None]:
    return texts(read_log(log))


ALL = [f"value-{number}" for number in range(COUNT)]


def findings(data: Path, *, deep: bool = False) -> list[str]:
    """What the check tells, which must not change a thing."""
    before = tree(data)
    found: list[str] = []
    check(data, found.append, deep=deep)
    assert tree(data) == before
    return found


def tree(data: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_sound_directory_has_no_findings(data: Path) -> None:
    assert len(segments(data)) >= 4
    assert findings(data) == findings(data, deep=True) == []
    assert opened(data, everything) == ALL


# -- notes


@pytest.mark.parametrize("content", ["{}", "[]", "null", "{", '{"topics": 5, "deleting": []}', '{"topics": [[1]]}'])
def test_topics_that_cannot_be_read_are_refused(data: Path, content: str) -> None:
    (data / "topics.json").write_text(content)
    with pytest.raises(UsageError, match=r"topics\.json is damaged .*--rebuild-topics"):
        DataDirectory(data)
    assert "topics.json is damaged" in findings(data)[0]


def test_topics_that_are_missing_beside_records_are_refused(data: Path) -> None:
    (data / "topics.json").unlink()
    with pytest.raises(UsageError, match=r"topics\.json is missing, and there are records of 1 partitions \(t-0\)"):
        DataDirectory(data)


def test_a_changed_letter_in_topics_is_noticed(data: Path) -> None:
    """It would be valid JSON, and another topic."""
    path = data / "topics.json"
    path.write_text(path.read_text().replace('"t"', '"u"'))
    with pytest.raises(UsageError, match="its checksum is wrong"):
        DataDirectory(data)


@pytest.mark.parametrize(
    "name", ["topics.json", "meta.json", "producer-ids.json", "groups.json", "t-0/checkpoint.json"]
)
def test_files_of_a_version_without_checksums_are_read(data: Path, name: str) -> None:
    opened(data, lambda log: log.delete_records(1))
    directory = DataDirectory(data)
    directory.next_producer_id()
    directory.save_group_configs({"g": {"consumer.session.timeout.ms": "50000"}})
    directory.close()
    content = json.loads((data / name).read_text())
    assert content.pop("crc32c")
    (data / name).write_text(json.dumps(content))
    assert opened(data, everything) == ALL[1:]


@pytest.mark.parametrize("content", ["{}", "[]", '{"format": 1}', "", '{"next": "x"}'])
@pytest.mark.parametrize("name", ["meta.json", "producer-ids.json", "groups.json", "t-0/checkpoint.json"])
def test_other_files_that_cannot_be_guessed_at_are_refused_with_a_remedy(data: Path, name: str, content: str) -> None:
    (data / name).write_text(content)
    with pytest.raises(UsageError, match=r"is damaged \(.*\): restore it, or remove it: "):
        opened(data, everything)
    (data / name).unlink()
    assert opened(data, everything) == ALL


def test_a_cluster_that_loses_its_id_says_so(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    (data / "meta.json").unlink()
    assert opened(data, everything) == ALL
    assert "meta.json is missing: the cluster has a new id" in caplog.text


@pytest.mark.parametrize("content", ["{}", "[]", '{"size": 1}', '{"size": {}, "last_batch": 0}', "7", "null"])
def test_bad_seals_are_ignored_and_made_anew(data: Path, content: str) -> None:
    seals = sorted((data / "t-0").glob("*.seal"))
    for seal in seals:
        seal.write_text(content)
    assert opened(data, everything) == ALL
    for seal in seals:
        assert json.loads(seal.read_text())["crc32c"]


def test_a_seal_with_a_wrong_index_is_not_believed(data: Path) -> None:
    """Last batch and size are right: only the checksum tells."""
    for seal in (data / "t-0").glob("*.seal"):
        content = json.loads(seal.read_text())
        content["index"] = [[0, 7, -1]]
        seal.write_text(json.dumps(content))
    assert opened(data, lambda log: offsets(read_log(log, max_bytes=1))) == list(range(COUNT))


@pytest.mark.parametrize("content", ["{}", "[]", '{"offset": 0}', '{"offset": 3, "producers": 5}'])
def test_a_bad_snapshot_of_producers_is_made_anew(data: Path, content: str) -> None:
    (data / "t-0" / "producers.json").write_text(content)

    def resend(log: PartitionLog) -> bool:
        return put(log, f"value-{COUNT - 1}", producer_id=4711, epoch=0, sequence=COUNT - 1).duplicate

    assert opened(data, resend)


def test_lost_producer_ids_begin_above_those_in_use(data: Path) -> None:
    directory = DataDirectory(data)
    directory.open_log("t", 0, SMALL)
    assert directory.next_producer_id() == 5000  # 4711 is in the log
    directory.close()


# -- segments


def test_a_missing_segment_in_the_middle_is_a_gap_that_is_told(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, second, third, *_ = segments(data)
    kept = second.rename(data / "moved-away")
    first_lost, first_left = int(second.stem), int(third.stem)
    gap = f"the records at offsets {first_lost} to {first_left - 1} are missing"
    assert any(gap in finding for finding in findings(data))
    assert opened(data, lambda log: offsets(read_log(log))) == [*range(first_lost), *range(first_left, COUNT)]
    assert gap in caplog.text
    kept.rename(second)
    assert opened(data, everything) == ALL


def test_a_missing_last_segment_is_told(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = segments(data)[-1]
    shutil.move(last, data / "moved-away")
    assert any(f"{last} is missing" in finding for finding in findings(data))
    assert opened(data, lambda log: log.log_end_offset) == int(last.stem)
    assert f"the log ended at offset {COUNT} when it was last synced" in caplog.text
    shutil.move(data / "moved-away", last)
    assert opened(data, everything) == ALL


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (0, -1)])
@pytest.mark.parametrize("with_seals", [False, True])
def test_segments_that_were_exchanged_are_put_back(
    data: Path, caplog: pytest.LogCaptureFixture, pair: tuple[int, int], with_seals: bool
) -> None:
    one, other = (segments(data)[at] for at in pair)
    for suffix in (".log", ".seal") if with_seals else (".log",):
        exchange(one.with_suffix(suffix), other.with_suffix(suffix))
    assert any("segment files were exchanged" in finding for finding in findings(data))
    assert opened(data, everything) == ALL
    assert "segment files were exchanged" in caplog.text
    caplog.clear()
    assert opened(data, everything) == ALL
    assert caplog.text == ""


def exchange(one: Path, other: Path) -> None:
    beside = one.with_name("beside")
    one.rename(beside)
    other.rename(one)
    beside.rename(other)


@pytest.mark.parametrize("step", range(8))
def test_a_crash_while_segments_are_put_back_loses_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    exchange(*segments(data)[:2])
    left = [step]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return function(*arguments, **keywords)

        return call

    with monkeypatch.context() as patch:
        for owner, name in [(os, "link"), (Path, "rename"), (Path, "replace"), (Path, "rmdir"), (Path, "mkdir")]:
            patch.setattr(owner, name, counted(getattr(owner, name)))
        with contextlib.suppress(KeyboardInterrupt):
            open_log(data / "t-0", SMALL).close()
    assert opened(data, everything) == ALL


def test_a_damaged_batch_in_a_sealed_segment_is_found_by_a_deep_check(data: Path) -> None:
    flip(segments(data)[1], 100)
    assert findings(data) == []
    (finding,) = [one for one in findings(data, deep=True) if "bytes are damaged" in one]
    assert str(segments(data)[1]) in finding


def test_a_damaged_batch_before_segments_that_were_synced_costs_only_its_own_segment(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, second, third, *_ = segments(data)
    content = second.read_bytes()
    flip(second, 70)  # in its first batch
    damaged = second.read_bytes()
    second.with_suffix(".seal").unlink()
    assert opened(data, lambda log: offsets(read_log(log))) == [
        *range(int(second.stem)),
        *range(int(third.stem), COUNT),
    ]
    assert "are damaged; the segments after it were synced and stay" in caplog.text
    (kept,) = (data / "t-0").glob("*.damaged")
    assert kept.read_bytes() == damaged
    assert any(str(kept) in finding for finding in findings(data))
    second.write_bytes(content)  # from a backup
    kept.unlink()
    assert opened(data, everything) == ALL


def test_what_was_written_after_a_damaged_batch_is_kept_aside(data: Path) -> None:
    last = segments(data)[-1]
    content = last.read_bytes()
    last.with_suffix(".seal").unlink()
    flip(last, 70)
    assert opened(data, lambda log: log.log_end_offset) == int(last.stem)
    (kept,) = (data / "t-0").glob("*.damaged")
    assert len(kept.read_bytes()) == len(content)


def test_a_torn_tail_is_cut_without_ado(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    last = segments(data)[-1]
    whole = last.read_bytes()
    for tail in (whole[:30], whole[:70], bytes(200)):
        last.write_bytes(whole + tail)
        assert findings(data) == []
        assert opened(data, everything) == ALL
        assert last.read_bytes() == whole
    assert not list((data / "t-0").glob("*.damaged"))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_segment_that_overlaps_another_is_put_aside(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a copy of a file from another day may."""
    first, *_ = segments(data)
    stray = first.with_name(f"{1:020d}.log")
    shutil.copy(segments(data)[-1], stray)
    opened(data, everything)
    assert not stray.exists()
    assert "put aside" in caplog.text
    assert len(list((data / "t-0").glob("*.damaged"))) == 1


# -- directories


def test_a_directory_that_held_records_and_is_gone_stops_the_start(data: Path) -> None:
    kept = (data / "t-0").rename(data / "moved-away")
    with pytest.raises(UsageError, match=r"directories of 1 partitions with records are missing \(t-0\): restore"):
        DataDirectory(data)
    assert any(f"{data / 't-0'} is missing" in finding for finding in findings(data))
    kept.rename(data / "t-0")
    assert opened(data, everything) == ALL


def test_the_loss_of_a_directory_can_be_accepted(data: Path) -> None:
    shutil.rmtree(data / "t-0")
    (data / "t-0").mkdir()
    assert opened(data, everything) == []


def test_a_partition_that_was_never_written_to_is_not_missed(data: Path) -> None:
    assert not (data / "t-1").exists()
    assert findings(data) == []


def test_directories_of_a_version_without_a_roster_are_enrolled_at_the_start(data: Path) -> None:
    (data / REGISTRY).unlink()
    assert opened(data, everything) == ALL
    shutil.rmtree(data / "t-0")
    with pytest.raises(UsageError, match="are missing"):
        DataDirectory(data)


def test_a_torn_line_of_the_roster_is_no_line(data: Path) -> None:
    with open(data / REGISTRY, "ab") as file:
        file.write(b"0011 t-1 2 12")  # as after a crash
    directory = DataDirectory(data)
    put(directory.open_log("t", 1, SMALL), "a")
    directory.close()
    shutil.rmtree(data / "t-1")
    with pytest.raises(UsageError, match=r"\(t-1\)"):
        DataDirectory(data)


def test_a_deleted_topic_is_not_missed(data: Path) -> None:
    directory = DataDirectory(data)
    directory.save_topics([])
    directory.delete_topics({"t"})
    directory.save_topics([TOPIC._replace(topic_id=bytes(16))])
    directory.open_log("t", 0, SMALL)
    directory.close()
    assert findings(data) == []
    DataDirectory(data).close()


def test_a_sync_that_outlives_its_topic_enrolls_nothing_for_the_next_of_the_name(data: Path) -> None:
    directory = DataDirectory(data)
    log = directory.open_log("t", 1, SMALL)
    put(log, "a")
    assert isinstance(log._files, PartitionFiles)
    register = log._files.register  # the thread is about to call it
    directory.save_topics([])
    directory.delete_topics({"t"})
    directory.save_topics([TOPIC._replace(topic_id=bytes(16))])
    register()
    directory.close()
    DataDirectory(data).close()


def test_orphans_are_told_and_put_aside_when_their_name_is_needed(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(data / "t-0", data / "other-0")
    assert any(f"{data / 'other-0'} holds records and belongs to no topic" in finding for finding in findings(data))
    directory = DataDirectory(data)
    assert "1 directories with records belong to no topic (other-0)" in caplog.text
    directory.save_topics([TOPIC, TOPIC._replace(name="other", topic_id=bytes(16))])
    assert directory.open_log("other", 0, SMALL).log_end_offset == 0
    directory.close()
    assert sorted((data / "other-0.damaged").glob("*.log"))


# -- topics made anew


@pytest.mark.parametrize("lose", [lambda path: path.unlink(), lambda path: path.write_text("{}")])
def test_topics_made_anew_have_ids_and_counts_of_the_roster_and_lose_no_record(
    data: Path, lose: Callable[[Path], object]
) -> None:
    lose(data / "topics.json")
    assert rebuild_topics(data) == [TOPIC._replace(configs={"retention.ms": "-1", "retention.bytes": "-1"})]
    assert opened(data, everything) == ALL


def test_topics_made_anew_without_a_roster_keep_groups_where_they_are(data: Path) -> None:
    shutil.copytree(data / "t-0", data / "__consumer_offsets-7")
    (data / REGISTRY).unlink()
    (data / "topics.json").unlink()
    offsets_topic, topic = rebuild_topics(data)
    assert (offsets_topic.partitions, offsets_topic.configs) == (50, {"cleanup.policy": "compact"})
    assert (topic.name, topic.partitions) == ("t", 1)


def test_topics_in_order_or_in_use_are_not_made_anew(data: Path) -> None:
    with pytest.raises(UsageError, match="is in order"):
        rebuild_topics(data)
    directory = DataDirectory(data)
    with pytest.raises(UsageError, match="stop the broker first"):
        rebuild_topics(data)
    directory.close()
