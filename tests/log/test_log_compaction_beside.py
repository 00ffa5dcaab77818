"""Compaction beside what else goes on: readers, appends, deletions, the end of the log, and crashes."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from equipoise.log import compaction as compaction_module
from equipoise.log.storage.disk import PartitionFiles
from tests.log.compacting import COMPACT, compacted, roll, set_key, state
from tests.log.log_helpers import (
    NOW,
    Medium,
    offsets,
    open_log,
    read_log,
    texts,
)

BOTH = dataclasses.replace(COMPACT, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)


def test_views_of_the_old_segments_stay_valid(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(COMPACT, segment_bytes=1 << 20))
    for number in range(3):
        set_key(log, "k", str(number) * 100_000)
    (view,) = log.read(0, 200_000, 3)[:1]
    before = bytes(view)
    compacted(log)
    log.close()
    assert bytes(view) == before


def test_the_log_lives_on_while_a_thread_compacts(medium: Medium, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "_PAUSE_BYTES", 1)
    log = medium.open(COMPACT)
    for number in range(40):
        set_key(log, f"key-{number % 5}", str(number))
    roll(log)
    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    assert log.begin_compaction(NOW) is None
    paused, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        paused.set()
        go_on.wait(60)

    thread = threading.Thread(target=compaction.run, args=(pause,))
    thread.start()
    assert paused.wait(60)
    for number in range(40, 50):
        set_key(log, f"key-{number % 5}", str(number))
    assert len(read_log(log)) == 50
    go_on.set()
    thread.join()
    assert log.end_compaction(compaction) > 0
    assert texts(read_log(log)) == [str(number) for number in range(35, 50)]


def test_segments_deleted_meanwhile_do_not_come_back(medium: Medium) -> None:
    log = medium.open(BOTH)
    for number in range(10):
        set_key(log, "old", str(number), now=NOW)
    roll(log)
    for number in range(10):
        set_key(log, "new", str(number), now=NOW + 1000)
    roll(log)
    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    compaction.run()
    assert log.enforce_retention(NOW + 1001) > 0
    start = log.log_start_offset
    log.end_compaction(compaction)
    assert log.log_start_offset == start
    assert min(offsets(read_log(log))) >= start
    if medium.path is not None:
        assert not list(medium.path.glob("*.cleaned"))


@pytest.mark.parametrize("delete", ["retention", "DeleteRecords"])
def test_what_a_deletion_leaves_of_a_group_is_not_taken_for_clean(medium: Medium, delete: str) -> None:
    """The older value of a deleted key would stay, and its tombstone would go later."""
    log = medium.open(dataclasses.replace(BOTH, segment_bytes=1 << 20))
    last = set_key(log, "first", "x" * 100)
    roll(log)
    for value in ("secret", None):
        set_key(log, "k", value, now=NOW + 1001)
        roll(log)
    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    compaction.run()
    assert [len(one.old) for one in compaction.replacements] == [3]
    if delete == "retention":
        assert log.enforce_retention(NOW + 1001) == 1
    else:
        log.delete_records(last + 1)
    log.end_compaction(compaction)
    for later in (NOW + 2002, NOW + 4004):
        assert b"k" not in state(read_log(log))
        set_key(log, "other", "1", now=later)
        compacted(log, later)
    assert state(read_log(log)) == {b"other": b"1"}
    assert b"k" not in [record.key for record in read_log(log)]


def test_a_group_that_a_deletion_takes_whole_leaves_nothing_dirty(medium: Medium) -> None:
    log = medium.open(dataclasses.replace(BOTH, segment_bytes=400))
    for key in "abacdedf":
        set_key(log, key, "x" * 100)
    roll(log)
    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    compaction.run()
    first, second = compaction.replacements
    log.delete_records(first.old[-1].end_offset)
    log.end_compaction(compaction)
    assert log._segments[0] is second.new
    assert log.begin_compaction(NOW) is None


def test_a_compaction_that_ends_after_the_log_was_closed_is_dropped(medium: Medium) -> None:
    log = medium.open(COMPACT)
    for number in range(10):
        set_key(log, "k", str(number))
    roll(log)
    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    compaction.run()
    log.close()
    log.end_compaction(compaction)
    if medium.path is not None:
        assert not list(medium.path.glob("*.cleaned"))
        assert len(read_log(medium.open(COMPACT))) == 10


def test_compacted_segments_are_known_to_be_clean_after_a_restart(disk: Medium) -> None:
    log = disk.open(COMPACT)
    for number in range(20):
        set_key(log, f"key-{number % 4}", str(number))
    set_key(log, "gone", None)
    compacted(log, NOW)
    expected = read_log(log)
    log.close()
    again = disk.open(COMPACT)
    assert read_log(again) == expected
    assert again.begin_compaction(NOW) is None
    set_key(again, "other", "1")
    compacted(again, NOW + 1000)
    assert b"gone" not in [record.key for record in read_log(again)]


@pytest.mark.parametrize("steps", range(8))
def test_a_crash_at_any_step_of_the_replacement_loses_nothing(
    disk: Medium, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is copied after that many changes of it, and opened as after a crash."""
    assert disk.path is not None
    log = disk.open(COMPACT)
    for number in range(40):
        set_key(log, f"key-{number % 5}", f"value-{number}")
    set_key(log, "key-1", None)
    roll(log)
    expected = state(read_log(log))
    crash = disk.path.with_name("crashed-0")
    left = steps

    def counted(change: object) -> object:
        def counting(*args: object, **kwargs: object) -> object:
            nonlocal left
            if left == 0 and not crash.exists():
                assert disk.path is not None
                shutil.copytree(disk.path, crash)
            left -= 1
            return change(*args, **kwargs)  # type: ignore[operator]

        return counting

    compaction = log.begin_compaction(NOW)
    assert compaction is not None
    compaction.run()
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    log.end_compaction(compaction)
    monkeypatch.undo()
    assert crash.exists()
    crashed = open_log(crash, COMPACT)
    assert state(read_log(crashed)) == state(read_log(log)) == expected
    assert crashed.log_end_offset == 41
    segments = crashed._segments
    assert all(one.end_offset <= two.base_offset for one, two in pairwise(segments))
    names = sorted(path.name for path in crash.glob("*.log"))
    assert names == [f"{segment.base_offset:020d}.log" for segment in segments if segment.size]
    compacted(crashed)
    assert state(read_log(crashed)) == expected
    crashed.close()


def test_a_leftover_of_an_earlier_attempt_is_overwritten(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(COMPACT)
    for number in range(10):
        set_key(log, "k", str(number))
    roll(log)
    (disk.path / f"{0:020d}.log.cleaned").write_bytes(b"x" * 5000)
    log.compact(NOW)
    assert texts(read_log(log)) == ["9"]
    assert isinstance(log._files, PartitionFiles)
