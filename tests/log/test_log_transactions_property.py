"""Random transactions against an oracle that looks at the whole log each time: live, after a crash, cut, compacted."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.producer_state import ProducerStateEntry
from equipoise.wire.records.batch import iter_headers
from equipoise.wire.records.build import Record
from tests.effort import examples
from tests.log.log_helpers import NOW, append, batch, open_log, values
from tests.log.txn_helpers import Oracle, TxnProducer, read_committed

KEYS = "abcdef"


class Play:
    """A log under random transactions, and its oracle."""

    def __init__(self, seed: int, path: Path, config: LogConfig) -> None:
        self.random = Random(seed)
        self.path = path
        self.config = config
        self.log = open_log(path, config, "commit")
        self.oracle = Oracle()
        self.producers = [TxnProducer(self.log, number, bumps=number % 2 == 0) for number in range(5)]
        self.now = NOW

    def step(self) -> None:
        self.now += 10
        producer = self.random.choice(self.producers)
        what = self.random.random()
        if what < 0.45:
            producer.write(*self.random.choices(KEYS, k=self.random.randint(1, 3)), now=self.now)
        elif what < 0.7:
            producer.end(commit=self.random.random() < 0.5, now=self.now)
        elif what < 0.85:
            append(self.log, batch(values(*self.random.choices(KEYS, k=2))), self.now)
        else:
            self.log.flush()
        self.oracle.take(self.log)

    def reopened(self, path: Path) -> PartitionLog:
        self.log.close()
        self.path = path
        self.log = open_log(path, self.config, "commit")
        for producer in self.producers:
            producer.log = self.log
        return self.log

    def check_offsets(self) -> None:
        log = self.log
        end, start = log.log_end_offset, log.log_start_offset
        assert log.last_stable_offset == self.oracle.last_stable_offset(log.high_watermark, end, start)

    def check_index(self) -> None:
        end = self.log.log_end_offset
        for _ in range(10):
            begin = self.random.randint(0, end)
            until = self.random.randint(begin, end)
            found = [entry[:3] for entry in self.log.aborted_transactions(begin, until)]
            assert found == self.oracle.aborted(begin, until, end)

    def check_reading(self) -> None:
        self.log.flush()
        expected = self.oracle.committed(self.log.log_end_offset)
        for size in (1, 300, 1 << 20):
            assert _plain(read_committed(self.log, size)) == _plain(expected)


def _plain(records: list[Record]) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.key) for record in records]


def config_of(random: Random) -> LogConfig:
    return LogConfig(
        segment_bytes=random.choice([200, 700, 100_000]), index_interval_bytes=random.choice([1, 200, 4096])
    )


@pytest.mark.parametrize("seed", range(examples(40)))
def test_offsets_index_and_readers_agree_with_the_oracle(seed: int, tmp_path: Path) -> None:
    play = Play(seed, tmp_path / "t-0", config_of(Random(seed)))
    for number in range(120):
        play.step()
        play.check_offsets()
        if number % 20 == 19:
            play.check_index()
            play.check_reading()
        if number % 40 == 39:
            play.reopened(play.path)
            play.check_offsets()
            play.check_index()
            play.check_reading()
    play.log.close()


@pytest.mark.parametrize("seed", range(examples(24)))
def test_a_crash_at_any_step_loses_nothing_of_a_transaction(seed: int, tmp_path: Path) -> None:
    """The files as they are, without close or flush: what the system has of them after kill -9."""
    play = Play(seed, tmp_path / "t-0", config_of(Random(seed)))
    for number in range(90):
        play.step()
        if play.random.random() < 0.2 and play.path.exists():
            crashed = tmp_path / f"crashed-{number}"
            shutil.copytree(play.path, crashed)
            before = dict(play.log.producers.items())
            play.reopened(crashed)
            play.check_offsets()
            play.check_index()
            play.check_reading()
            assert _transactions(dict(play.log.producers.items())) == _transactions(before)
    play.log.close()


def _transactions(producers: dict[int, ProducerStateEntry]) -> dict[int, ProducerStateEntry]:
    """All but the times, which a crash may change."""
    return {id_: producer._replace(last_seen=0) for id_, producer in producers.items()}


@pytest.mark.parametrize("seed", range(examples(6)))
def test_a_log_cut_at_every_batch_and_within_is_what_it_was_there(seed: int, tmp_path: Path) -> None:
    play = Play(seed, tmp_path / "t-0", LogConfig(segment_bytes=1500))
    for _ in range(60):
        play.step()
    play.log.flush()
    last = sorted(play.path.glob("*.log"))[-1]
    cuts = [position for position, _ in iter_headers(last.read_bytes())] + [last.stat().st_size]
    for at, cut in enumerate(cuts):
        for more in (0, 30) if at + 1 < len(cuts) else (0,):
            crashed = tmp_path / f"cut-{cut}-{more}"
            shutil.copytree(play.path, crashed)
            (crashed / last.with_suffix(".seal").name).unlink(missing_ok=True)
            with open(crashed / last.name, "r+b") as file:
                file.truncate(cut + more)
            log = open_log(crashed, play.config, "commit")
            end = log.log_end_offset
            assert log.last_stable_offset == play.oracle.last_stable_offset(end, end)
            assert [entry[:3] for entry in log.aborted_transactions(0, end)] == play.oracle.aborted(0, end, end)
            assert _plain(read_committed(log, 200)) == _plain(play.oracle.committed(end))
            log.close()
            shutil.rmtree(crashed)
    play.log.close()


@pytest.mark.parametrize("seed", range(examples(10)))
def test_a_truncated_log_is_what_it_was_there(seed: int, tmp_path: Path) -> None:
    play = Play(seed, tmp_path / "t-0", config_of(Random(seed)))
    for _ in range(60):
        play.step()
    while play.log.log_end_offset > 3:
        play.log.truncate(play.random.randrange(play.log.log_end_offset))
        for _ in range(2):
            end = play.log.log_end_offset
            assert play.log.last_stable_offset == play.oracle.last_stable_offset(end, end)
            found = [entry[:3] for entry in play.log.aborted_transactions(0, end)]
            assert found == play.oracle.aborted(0, end, end)
            assert _plain(read_committed(play.log, 200)) == _plain(play.oracle.committed(end))
            play.reopened(play.path)
    play.log.close()


@pytest.mark.parametrize("seed", range(examples(10)))
def test_without_any_note_the_index_is_rebuilt(seed: int, tmp_path: Path) -> None:
    play = Play(seed, tmp_path / "t-0", config_of(Random(seed)))
    for _ in range(80):
        play.step()
    play.log.close()
    lost = [*play.path.glob("*.seal"), *play.path.glob("producers.json")]
    for note in lost if seed % 2 else play.random.sample(lost, len(lost) // 2 + 1):
        note.unlink()
    play.reopened(play.path)
    play.check_offsets()
    play.check_index()
    play.check_reading()
    play.log.close()


@pytest.mark.parametrize("seed", range(examples(24)))
def test_compaction_keeps_what_was_committed(seed: int, tmp_path: Path) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}),
        segment_bytes=400,
        delete_retention_ms=300,
        min_cleanable_dirty_ratio=0.0,
    )
    play = Play(seed, tmp_path / "t-0", config)
    for number in range(150):
        play.step()
        if number % 10 == 9:
            play.log.flush()
            play.log.compact(play.now)
            play.check_offsets()
            _check_compacted(play)
        if number % 30 == 29:
            play.reopened(play.path)
            play.check_offsets()
            _check_compacted(play)
        if number % 50 == 49:
            crashed = tmp_path / f"crashed-{number}"
            shutil.copytree(play.path, crashed)
            for note in crashed.glob("*.seal"):
                note.unlink()
            play.reopened(crashed)
            play.check_offsets()
            _check_compacted(play)
    play.log.close()


def _check_compacted(play: Play) -> None:
    """The newest committed record of each key is there, and nothing that was not committed."""
    play.log.flush()
    expected = _plain(play.oracle.committed(play.log.log_end_offset))
    for size in (1, 400, 1 << 20):
        found = _plain(read_committed(play.log, size))
        assert {key: offset for offset, key in found} == {key: offset for offset, key in expected}
        assert set(found) <= set(expected)
