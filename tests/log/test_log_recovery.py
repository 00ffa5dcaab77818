"""Opening a partition's directory after a clean end, a crash at any moment, and damage."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.recovery import recovery
from equipoise.log.storage.disk import PartitionFiles
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import crc_of, stamp
from proving.tree import ROOT
from tests.log.log_helpers import NOW, Medium, batch, offsets, open_log, put, read_log, texts, values

SMALL = LogConfig(segment_bytes=300)
FIRST = f"{0:020d}"


def fill(log: PartitionLog, count: int) -> None:
    for number in range(count):
        put(log, f"value-{number}")


def copy_of(path: Path, name: str) -> Path:
    """The directory as a crash at this moment would leave it."""
    target = path.with_name(name)
    shutil.copytree(path, target)
    return target


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each batch whose CRC recovery has checked."""
    sizes: list[int] = []

    def counting(buf: memoryview, pos: int, size: int) -> int:
        sizes.append(size)
        return crc_of(buf, pos, size)

    monkeypatch.setattr(recovery, "crc_of", counting)
    return sizes


def test_a_log_never_written_to_leaves_nothing_on_disk(disk: Medium) -> None:
    log = disk.open()
    log.close()
    assert disk.path is not None
    assert not disk.path.exists()


def test_a_clean_end_needs_no_scan(disk: Medium, scanned: list[int]) -> None:
    log = disk.open(SMALL)
    fill(log, 30)
    log.close()
    again = disk.open(SMALL)
    assert scanned == []
    assert again.log_end_offset == again.high_watermark == 30
    assert offsets(read_log(again)) == list(range(30))
    assert again.offset_for_timestamp(NOW) == (NOW, 0)
    assert again.max_timestamp() == (NOW, 0)
    assert put(again, "next").base_offset == 30


def test_what_was_sealed_before_a_crash_is_not_scanned_again(disk: Medium, scanned: list[int]) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 10)
    log.close()
    log = disk.open()
    fill(log, 3)
    crashed = open_log(copy_of(disk.path, "crashed-0"))
    assert len(scanned) == 3
    assert offsets(read_log(crashed)) == list(range(13))
    crashed.close()


def test_rolled_segments_are_not_scanned_after_a_crash(disk: Medium, scanned: list[int]) -> None:
    assert disk.path is not None
    log = disk.open(SMALL)
    fill(log, 30)
    disk.settle(log)
    active = log._segments[-1]
    crashed = open_log(copy_of(disk.path, "crashed-0"), SMALL)
    assert len(scanned) == active.end_offset - active.base_offset
    assert offsets(read_log(crashed)) == list(range(30))
    crashed.close()


def test_a_torn_tail_is_cut_at_every_byte(disk: Medium, caplog: pytest.LogCaptureFixture) -> None:
    assert disk.path is not None
    log = disk.open()
    put(log, "first")
    whole = log.size
    put(log, "second")
    for size in range(whole, log.size):
        path = copy_of(disk.path, f"torn-{size}")
        os.truncate(path / f"{FIRST}.log", size)
        caplog.clear()
        torn = open_log(path)
        assert (texts(read_log(torn)), torn.size) == (["first"], whole)
        assert [f"{size - whole} bytes" in r.getMessage() for r in caplog.records] == ([True] if size > whole else [])
        assert put(torn, "again").base_offset == 1
        torn.close()
        mended = open_log(path)
        assert texts(read_log(mended)) == ["first", "again"]
        mended.close()
        shutil.rmtree(path)


def test_any_damaged_byte_of_the_last_batch_cuts_it(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    put(log, "first")
    whole = log.size
    put(log, "second")
    data = (disk.path / f"{FIRST}.log").read_bytes()
    leader_epoch = range(whole + 12, whole + 16)
    path = copy_of(disk.path, "damaged-0")
    for at in range(whole, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x80
        (path / f"{FIRST}.log").write_bytes(damaged)
        (path / f"{FIRST}.seal").unlink(missing_ok=True)
        opened = open_log(path)
        # Neither the leader epoch nor the base offset is under the CRC; only an offset that steps back is noticed.
        assert texts(read_log(opened)) in (["first"], ["first", "second"])
        assert opened.log_end_offset >= 1
        if at >= whole + 8 and at not in leader_epoch:
            assert texts(read_log(opened)) == ["first"]
        opened.close()


def test_offsets_that_step_back_cut_the_log(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 2)
    file = disk.path / f"{FIRST}.log"
    data = bytearray(file.read_bytes())
    stray = batch(values("stray"))
    stamp(stray, 0, 1, 0)
    path = copy_of(disk.path, "crashed-0")
    (path / f"{FIRST}.log").write_bytes(data + stray)
    crashed = open_log(path)
    assert crashed.log_end_offset == 2
    crashed.close()


def test_zeros_after_a_power_cut_are_cut(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 2)
    path = copy_of(disk.path, "crashed-0")
    with open(path / f"{FIRST}.log", "ab") as file:
        file.write(bytes(5000))
    crashed = open_log(path)
    assert (crashed.log_end_offset, crashed.size) == (2, log.size)
    crashed.close()


def test_damage_in_an_earlier_segment_that_is_not_sealed_cuts_all_after_it(
    disk: Medium, caplog: pytest.LogCaptureFixture
) -> None:
    assert disk.path is not None
    log = disk.open(SMALL)
    fill(log, 20)
    second = log._segments[1]
    path = copy_of(disk.path, "damaged-0")
    file = path / f"{second.base_offset:020d}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        damaged = open_log(path, SMALL)
    assert damaged.log_end_offset == second.end_offset - 1
    assert len(list(path.glob("*.log"))) == 2
    assert len(caplog.records) == 1 + len(log._segments) - 2
    damaged.close()


def test_a_sealed_segment_that_lost_bytes_is_scanned_and_cut(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 3)
    log.close()
    file = disk.path / f"{FIRST}.log"
    os.truncate(file, file.stat().st_size - 1)
    assert disk.open().log_end_offset == 2


@pytest.mark.parametrize("content", ["", "{", '{"size": 1'])
def test_a_torn_seal_only_costs_a_scan(disk: Medium, scanned: list[int], content: str) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 3)
    log.close()
    (disk.path / f"{FIRST}.seal").write_text(content)
    assert disk.open().log_end_offset == 3
    assert len(scanned) == 3


def test_the_seal_of_other_bytes_is_not_believed(disk: Medium, tmp_path: Path) -> None:
    """A topic deleted and made again may find the seal of its forerunner, written late."""
    assert disk.path is not None
    log = disk.open()
    put(log, "something long, to make the seal's size less than the other file's")
    log.close()
    other = open_log(tmp_path / "other-0")
    fill(other, 20)
    shutil.copy(disk.path / f"{FIRST}.seal", tmp_path / "other-0")
    crashed = open_log(copy_of(tmp_path / "other-0", "crashed-0"))
    assert offsets(read_log(crashed)) == list(range(20))
    crashed.close()
    other.close()


def test_the_seal_of_bytes_that_only_look_alike_is_not_believed(disk: Medium, tmp_path: Path) -> None:
    assert disk.path is not None
    log = disk.open()
    put(log, "same length", now=NOW)
    log.close()
    other = open_log(tmp_path / "other-0")
    put(other, "same length", now=NOW + 5)
    shutil.copy(disk.path / f"{FIRST}.seal", tmp_path / "other-0")
    crashed = open_log(copy_of(tmp_path / "other-0", "crashed-0"))
    assert crashed.max_timestamp() == (NOW + 5, 0)
    crashed.close()
    other.close()


def test_a_thinned_index_is_filled_again_by_reading(disk: Medium) -> None:
    config = LogConfig(index_interval_bytes=1)
    log = disk.open(config)
    fill(log, 3000)
    log.close()
    again = disk.open(config)
    index = again._segments[0]._index
    assert len(index.offsets) == 1000
    for offset in (2999, 1500, 7, 0, 1501):
        assert read_log_from(again, offset) == offset
    assert len(read_log(again, 1)) == 3000
    assert list(index.offsets) == list(range(3000))
    assert list(index.positions) == sorted(set(index.positions))


def read_log_from(log: PartitionLog, offset: int) -> int:
    (view,) = log.read(offset, 1, log.high_watermark)
    return int.from_bytes(view[:8], "big")


def test_producers_are_known_again_after_a_crash(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(SMALL)
    for sequence in range(12):
        put(log, f"value-{sequence}", producer_id=9, epoch=2, sequence=sequence)
        if sequence == 7:
            disk.settle(log)
    crashed = open_log(copy_of(disk.path, "crashed-0"), SMALL)
    assert crashed.producers.to_json() == log.producers.to_json()
    assert put(crashed, "value-11", producer_id=9, epoch=2, sequence=11).duplicate
    with pytest.raises(KafkaError) as caught:
        put(crashed, "late", producer_id=9, epoch=1, sequence=12)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    crashed.close()


def test_producers_noted_beyond_a_cut_tail_are_forgotten(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    for sequence in range(3):
        put(log, "value", producer_id=9, epoch=0, sequence=sequence)
    log.close()
    file = disk.path / f"{FIRST}.log"
    os.truncate(file, file.stat().st_size - 1)
    again = disk.open()
    assert not put(again, "value", producer_id=9, epoch=0, sequence=2).duplicate
    assert again.log_end_offset == 3


def test_producers_noted_before_batches_that_were_deleted_are_forgotten(disk: Medium) -> None:
    """Else the producer would be asked for a sequence number that it has left behind."""
    assert disk.path is not None
    log = disk.open(LogConfig(retention_ms=1000))
    put(log, "a", producer_id=9, epoch=0, sequence=0)
    log.close()
    log = disk.open(LogConfig(retention_ms=1000))
    put(log, "b", producer_id=9, epoch=0, sequence=1)
    log.enforce_retention(NOW + 1001)
    crashed = open_log(copy_of(disk.path, "crashed-0"))
    assert put(crashed, "c", producer_id=9, epoch=0, sequence=2).base_offset == 2
    crashed.close()


def test_the_start_of_the_log_survives(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(SMALL)
    fill(log, 20)
    log.delete_records(13)
    crashed = open_log(copy_of(disk.path, "crashed-0"), SMALL)
    assert (crashed.log_start_offset, crashed.log_end_offset) == (13, 20)
    assert offsets(read_log(crashed)) == list(range(13, 20))
    crashed.close()


def test_an_emptied_log_goes_on_at_its_old_end(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(LogConfig(retention_ms=1000))
    fill(log, 5)
    log.enforce_retention(NOW + 1001)
    assert list(disk.path.glob("*.log")) == []
    crashed = open_log(copy_of(disk.path, "crashed-0"))
    assert (crashed.log_start_offset, crashed.log_end_offset) == (5, 5)
    assert put(crashed, "next").base_offset == 5
    crashed.close()


def test_a_deletion_that_was_interrupted_is_finished(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open(SMALL)
    fill(log, 20)
    before = copy_of(disk.path, "crashed-0")
    log.delete_records(13)
    shutil.copy(disk.path / "checkpoint.json", before)
    crashed = open_log(before, SMALL)
    assert crashed._segments[0].end_offset > 13
    assert sorted(f.name for f in before.glob("*.log")) == [f"{s.base_offset:020d}.log" for s in crashed._segments]
    crashed.close()


def test_data_lost_below_the_start_of_the_log_does_not_bring_offsets_back(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 5)
    log.delete_records(5)
    path = copy_of(disk.path, "crashed-0")
    os.truncate(path / f"{FIRST}.log", 10)
    crashed = open_log(path)
    assert (crashed.log_start_offset, crashed.log_end_offset) == (5, 5)
    assert put(crashed, "next").base_offset == 5
    crashed.close()
    assert offsets(read_log(open_and_close(path))) == [5]


def open_and_close(path: Path) -> PartitionLog:
    log = open_log(path)
    log.close()
    return log


def test_half_made_files_are_removed(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 2)
    log.close()
    leftovers = [f"{FIRST}.log.cleaned", f"{5:020d}.seal", "producers.json.tmp"]
    for name in leftovers:
        (disk.path / name).write_text("half")
    (disk.path / "notes.log").write_text("not ours")
    assert disk.open().log_end_offset == 2
    names = {file.name for file in disk.path.iterdir()}
    assert names == {f"{FIRST}.log", f"{FIRST}.seal", "producers.json", "notes.log"}


def test_a_damaged_checkpoint_is_not_guessed_at(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 2)
    log.delete_records(1)
    log.close()
    (disk.path / "checkpoint.json").write_text("{")
    with pytest.raises(UsageError, match=r"checkpoint\.json is damaged"):
        disk.open()


def test_a_seal_says_what_its_name_promises(disk: Medium) -> None:
    assert disk.path is not None
    log = disk.open()
    fill(log, 4)
    log.close()
    seal = json.loads((disk.path / f"{FIRST}.seal").read_text())
    assert (seal["size"], seal["end_offset"], seal["max_timestamp"]) == (log.size, 4, NOW)


def test_nothing_acknowledged_is_lost_at_any_moment_of_a_busy_life(disk: Medium) -> None:
    """Copies of the directory between any two operations, each opened as after a crash."""
    assert disk.path is not None
    config = LogConfig(segment_bytes=500, retention_ms=-1)
    log = disk.open(config)
    for step in range(40):
        put(log, f"value-{step}", producer_id=1, epoch=0, sequence=step)
        if step % 5 == 0:
            disk.settle(log)
        if step % 11 == 0:
            log.delete_records(step // 2)
        if step % 17 == 0:
            log.close()
            log = disk.open(config)
        path = copy_of(disk.path, f"crash-{step}")
        crashed = open_log(path, config)
        assert crashed.log_start_offset == log.log_start_offset
        assert read_log(crashed) == read_log(log)
        assert [row[:2] for row in crashed.producers.to_json()] == [[1, 0]]
        assert put(crashed, f"value-{step}", producer_id=1, epoch=0, sequence=step).duplicate
        crashed.close()
        shutil.rmtree(path)


WRITER = """
import sys
from pathlib import Path
from tests.log.log_helpers import open_log, put
from equipoise.log.config import LogConfig
log = open_log(Path(sys.argv[1]), LogConfig(segment_bytes=5000), flush="commit")
for number in range(log.log_end_offset, 1_000_000):
    put(log, f"value-{number}", producer_id=1, epoch=0, sequence=number)
    if number % 10 == 0:
        log.flush()
        print(log.high_watermark, flush=True)
"""


def test_a_killed_process_loses_nothing_it_has_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    acknowledged = 0
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            goal = acknowledged + 100
            while acknowledged < goal:
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        log = open_log(path, LogConfig(segment_bytes=5000))
        assert log.log_end_offset >= acknowledged
        assert texts(read_log(log)) == [f"value-{number}" for number in range(log.log_end_offset)]
        log.close()


def test_a_directory_that_is_not_there_is_an_empty_log(tmp_path: Path) -> None:
    found = recovery.recover(PartitionFiles(tmp_path / "t-0"), LogConfig())
    assert (found.segments, found.checkpoint.log_start_offset) == ([], 0)
