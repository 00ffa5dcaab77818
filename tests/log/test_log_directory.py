"""The data directory: one owner, topics and producer ids that survive, errors that say what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.recovery.inventory import TopicRecord
from equipoise.log.storage import disk as disk_module
from equipoise.log.storage.directory import DataDirectory, MemoryDirectory
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from tests.log.log_helpers import offsets, put, read_log

CONFIG = LogConfig()


def topic(name: str, partitions: int = 1, **configs: str) -> TopicRecord:
    return TopicRecord(name, name.ljust(16, "_").encode(), partitions, configs)


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(UsageError, match=f"{tmp_path} is in use by process {os.getpid()}: stop that process"):
        DataDirectory(tmp_path)
    first.close()
    DataDirectory(tmp_path).close()


def test_two_processes_cannot_share_a_directory(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom equipoise.log.storage.directory import DataDirectory\n"
        "directory = DataDirectory(Path(sys.argv[1]))\nprint('owned', flush=True)\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"owned\n"
        with pytest.raises(UsageError, match=f"in use by process {owner.pid}"):
            DataDirectory(tmp_path)
        owner.stdin.close()
    DataDirectory(tmp_path).close()  # it did not give it free itself: the system did


def test_the_cluster_keeps_its_id(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "deep" / "down")
    first.close()
    again = DataDirectory(tmp_path / "deep" / "down")
    assert len(again.cluster_id) == 22
    assert again.cluster_id == first.cluster_id
    again.close()


def test_the_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    DataDirectory(tmp_path, node_id=3).close()
    with pytest.raises(UsageError, match=r"belongs to node 3, not 4: start with node\.id=3"):
        DataDirectory(tmp_path, node_id=4)
    DataDirectory(tmp_path, node_id=3).close()


def test_a_format_of_the_future_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps({"format": 2, "cluster_id": "x", "node_id": 1}))
    with pytest.raises(UsageError, match="has format 2, this version reads 1"):
        DataDirectory(tmp_path)


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another directory"):
        DataDirectory(tmp_path / "file")
    with pytest.raises(UsageError, match="Not a directory; mend it, or choose another directory"):
        DataDirectory(tmp_path / "file" / "below")


def test_a_directory_that_cannot_be_written_is_refused_and_given_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("equipoise.log.storage.directory.write_dumped", refuse)
        with pytest.raises(UsageError, match="Permission denied; mend it"):
            DataDirectory(tmp_path)
    DataDirectory(tmp_path).close()


def test_topics_survive(tmp_path: Path) -> None:
    topics = [topic("a", 3, **{"retention.ms": "5"}), topic("b")]
    first = DataDirectory(tmp_path)
    assert first.load_topics() == []
    first.save_topics(topics)
    first.close()
    again = DataDirectory(tmp_path)
    assert again.load_topics() == topics
    again.close()


def test_damaged_topics_are_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{")
    with pytest.raises(UsageError, match=r"topics\.json is damaged"):
        DataDirectory(tmp_path)


def test_topics_that_cannot_be_saved_leave_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    directory = DataDirectory(tmp_path)
    directory.save_topics([topic("a")])
    put(directory.open_log("a", 0, CONFIG), "kept")
    with monkeypatch.context() as patch:
        patch.setattr(disk_module, "sync_directory", no_space)
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(KafkaError, match="No space left") as caught:
            directory.save_topics([])
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    directory.save_topics([topic("a"), topic("b")])
    directory.close()
    again = DataDirectory(tmp_path)
    assert len(again.load_topics()) == 2
    assert len(read_log(again.open_log("a", 0, CONFIG))) == 1
    again.close()


def test_partitions_lie_in_directories_named_as_kafka_names_them(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, flush="never")
    directory.save_topics([topic("my.topic-1")])
    log = directory.open_log("my.topic-1", 0, CONFIG)
    assert log.name == "my.topic-1-0"
    assert not (tmp_path / "my.topic-1-0").exists()
    put(log, "a")
    assert (tmp_path / "my.topic-1-0" / "00000000000000000000.log").exists()
    directory.close()
    again = DataDirectory(tmp_path)
    assert len(read_log(again.open_log("my.topic-1", 0, CONFIG))) == 1
    again.close()


@pytest.mark.parametrize("name", ["", "../up", "a/b", "a~deleted", "x" * 250])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    directory = DataDirectory(tmp_path)
    with pytest.raises(UsageError, match="is no topic name"):
        directory.open_log(name, 0, CONFIG)
    directory.close()


def open_files(folder: Path) -> set[str]:
    """Those of this process below `folder`, where the system tells; others come and go meanwhile."""
    fds = Path("/proc/self/fd")
    links = [one for one in fds.iterdir() if one.is_symlink()] if fds.exists() else []
    return {str(at) for one in links if (at := one.resolve()).is_relative_to(folder.resolve())}


def test_many_empty_partitions_cost_no_files(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    before = open_files(tmp_path)
    logs = [directory.open_log("__consumer_offsets", number, CONFIG) for number in range(50)]
    assert {log.log_end_offset for log in logs} == {0}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "meta.json"]
    assert open_files(tmp_path) == before
    directory.close()


def test_a_deleted_topic_is_gone_and_its_name_free(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, flush="never")
    directory.save_topics([topic("t", 2), topic("t-1")])
    old = [directory.open_log("t", number, CONFIG) for number in range(2)]
    other = directory.open_log("t-1", 0, CONFIG)
    for log in [*old, other]:
        put(log, "a")
    directory.save_topics([topic("t-1")])
    directory.delete_topics({"t"})
    assert {log.offline for log in old} == {"t-0 is deleted", "t-1 is deleted"}
    directory.save_topics([topic("t-1"), topic("t")])
    new = directory.open_log("t", 0, CONFIG)
    assert put(new, "b").base_offset == 0
    directory.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0", "t-1-0"]
    again = DataDirectory(tmp_path)
    assert offsets(read_log(again.open_log("t", 0, CONFIG))) == [0]
    assert offsets(read_log(again.open_log("t-1", 0, CONFIG))) == [0]
    again.close()


def test_a_topic_of_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, flush="never")
    put(directory.open_log("x" * 249, 0, CONFIG), "a")
    directory.delete_topics({"x" * 249})
    directory.close()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_deletion_cut_short_by_a_crash_is_finished(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.save_topics([topic("t")])
    put(directory.open_log("t", 0, CONFIG), "a")
    directory.save_topics([])
    directory.close()  # as if it had died before delete_topics
    (tmp_path / "0123~deleted").mkdir()  # or in the middle of it
    again = DataDirectory(tmp_path)
    again.save_topics([topic("t")])
    assert again.open_log("t", 0, CONFIG).log_end_offset == 0
    again.close()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    given: list[int] = []
    for count in (1, 1, 1500, 1000, 1):
        directory = DataDirectory(tmp_path)
        given += [directory.next_producer_id() for _ in range(count)]
        directory.close()
    assert len(set(given)) == 2503
    assert given == sorted(given)
    assert given[0] == 0


def test_a_sync_that_ends_late_leaves_nothing_in_a_topic_made_anew(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    log = directory.open_log("t", 0, LogConfig(segment_bytes=100))
    for _ in range(3):
        put(log, "a", producer_id=1, epoch=0, sequence=log.log_end_offset)
    task = log.begin_sync()
    assert task is not None
    directory.delete_topics({"t"})
    new = directory.open_log("t", 0, CONFIG)
    put(new, "b")
    task.run()
    log.end_sync(task)
    assert [path.name for path in (tmp_path / "t-0").iterdir()] == ["00000000000000000000.log"]
    directory.close()


def test_memory_has_the_same_face() -> None:
    directory = MemoryDirectory()
    assert (directory.load_topics(), len(directory.cluster_id)) == ([], 22)
    directory.save_topics([topic("t")])
    log = directory.open_log("t", 0, CONFIG)
    assert put(log, "a").base_offset == 0
    assert log.name == "t-0"
    assert [directory.next_producer_id() for _ in range(3)] == [0, 1, 2]
    directory.delete_topics({"t"})
    directory.close()
