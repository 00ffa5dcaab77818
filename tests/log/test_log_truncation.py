"""The end of a log that is cut off: what stays, what producers may do then, and what a restart finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.log.config import LogConfig
from equipoise.log.storage.disk import PRODUCERS
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.effort import examples
from tests.log.log_helpers import Medium, offsets, open_log, put, read_log, texts

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=1)


def test_whole_batches_go(medium: Medium) -> None:
    log = medium.open()
    put(log, "a")
    put(log, "b", "c", "d")
    put(log, "e")
    log.truncate(2)
    assert texts(read_log(log)) == ["a"]
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    put(log, "new")
    assert (texts(read_log(log)), offsets(read_log(log))) == (["a", "new"], [0, 1])


@pytest.mark.parametrize("to", range(13))
def test_at_every_offset_of_several_segments(medium: Medium, to: int) -> None:
    log = medium.open(SMALL)
    for number in range(12):
        put(log, str(number))
    log.truncate(to)
    assert texts(read_log(log)) == [str(number) for number in range(to)]
    assert put(log, "new").base_offset == to
    assert texts(read_log(log)) == [*(str(number) for number in range(to)), "new"]


def test_what_was_read_before_stays_as_it_was(medium: Medium) -> None:
    """A slow client may be sent it yet."""
    log = medium.open()
    put(log, "x" * 100_000)
    put(log, "y" * 100_000)
    views = log.read(0, 1 << 30, log.high_watermark)
    before = b"".join(views)
    log.truncate(1)
    put(log, "z" * 100_000)
    assert b"".join(views) == before


def test_a_producer_goes_on_where_the_log_does(medium: Medium) -> None:
    log = medium.open()
    for sequence in range(4):
        put(log, str(sequence), producer_id=7, epoch=0, sequence=sequence)
    put(log, "other", producer_id=8, epoch=0, sequence=0)
    log.truncate(2)
    with pytest.raises(KafkaError) as raised:
        put(log, "4", producer_id=7, epoch=0, sequence=4)
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert put(log, "1", producer_id=7, epoch=0, sequence=1).duplicate
    assert put(log, "2", producer_id=7, epoch=0, sequence=2).base_offset == 2
    assert not put(log, "other", producer_id=8, epoch=0, sequence=0).duplicate


def test_only_what_there_is_can_be_cut(medium: Medium) -> None:
    log = medium.open()
    put(log, "a", "b")
    for offset in (-1, 3):
        with pytest.raises(KafkaError):
            log.truncate(offset)
    log.truncate(2)
    assert log.log_end_offset == 2


def test_the_start_of_the_log_stays(medium: Medium) -> None:
    """Also where it lies within the batch that goes."""
    log = medium.open()
    put(log, "a", "b", "c")
    log.delete_records(2)
    log.truncate(2)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    assert put(log, "new").base_offset == 2
    assert texts(read_log(log)) == ["new"]


@pytest.mark.parametrize("to", [0, 3, 7, 11])
def test_a_restart_finds_what_stays(disk: Medium, to: int, caplog: pytest.LogCaptureFixture) -> None:
    assert disk.path is not None
    log = disk.open(SMALL)
    for sequence in range(12):
        put(log, str(sequence), producer_id=7, epoch=0, sequence=sequence)
    disk.settle(log)
    assert (disk.path / PRODUCERS).exists()
    log.truncate(to)
    again = open_log(disk.path, SMALL)  # as after a crash: nothing was closed
    disk.logs = [again]
    assert texts(read_log(again)) == [str(number) for number in range(to)]
    assert put(again, "next", producer_id=7, epoch=0, sequence=to).base_offset == to
    assert not caplog.records  # nothing looks like damage


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.one_of(st.integers(1, 4), st.floats(0, 1)), max_size=12))
def test_appends_and_cuts_by_chance(tmp_path_factory: pytest.TempPathFactory, deeds: list[float]) -> None:
    """A number appends a batch of so many records; a fraction cuts the log there."""
    path: Path = tmp_path_factory.mktemp("log") / "t-0"
    log, model = open_log(path, SMALL), list[list[str]]()
    for number, deed in enumerate(deeds):
        if isinstance(deed, int):
            model.append([f"{number}-{one}" for one in range(deed)])
            put(log, *model[-1])
        else:
            to = int(deed * log.log_end_offset)
            log.truncate(to)
            while model and sum(map(len, model)) > to:
                model.pop()
        assert texts(read_log(log)) == [text for batch in model for text in batch]
    log.close()
    again = open_log(path, SMALL)
    assert texts(read_log(again)) == [text for batch in model for text in batch]
    again.close()
