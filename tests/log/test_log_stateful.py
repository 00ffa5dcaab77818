"""A log against a plain list: whatever is done to it, in any order, both must say the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from equipoise.log.config import LogConfig
from equipoise.log.partition import PartitionLog
from equipoise.log.storage.memory import MemoryFiles
from equipoise.wire.records.batch import Codec, iter_headers
from equipoise.wire.records.build import Record
from tests.effort import examples
from tests.log.log_helpers import ALL, NOW, append, batch, offsets, open_log, read_log

KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 40])
VALUES = st.one_of(st.none(), st.binary(max_size=30))


class LogMachine(RuleBasedStateMachine):
    on_disk = True

    @initialize(
        segment_bytes=st.sampled_from([200, 500, 3000]),
        index_interval_bytes=st.sampled_from([1, 150, 4096]),
        policy=st.sampled_from([{"delete"}, {"compact"}, {"compact", "delete"}]),
    )
    def begin(self, segment_bytes: int, index_interval_bytes: int, policy: set[str]) -> None:
        self.config = LogConfig(
            cleanup_policy=frozenset(policy),  # type: ignore[arg-type]
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            retention_ms=1000,
            retention_bytes=2000,
            delete_retention_ms=500,
            min_cleanable_dirty_ratio=0.0,
        )
        self.directory = Path(tempfile.mkdtemp())
        self.now = NOW
        self.records: list[Record] = []
        self.start = self.end = self.sequence = self.generation = 0
        self.log = self.open()

    def open(self) -> PartitionLog:
        if not self.on_disk:
            return PartitionLog("t-0", self.config, MemoryFiles())
        return open_log(self.directory / f"t-{self.generation}", self.config)

    @rule(
        pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
        ages=st.lists(st.integers(0, 300), min_size=5, max_size=5),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]),
    )
    def append(self, pairs: list[tuple[bytes, bytes | None]], ages: list[int], codec: Codec) -> None:
        times = [self.now - age for _, age in zip(pairs, ages, strict=False)]
        data = batch(pairs, timestamps=times, codec=codec, producer_id=5, epoch=0, sequence=self.sequence)
        again = bytearray(data)
        appended = append(self.log, data, self.now)
        assert appended.base_offset == self.end
        assert append(self.log, again, self.now) == appended._replace(duplicate=True)
        new = zip(range(self.end, self.end + len(pairs)), times, pairs, strict=True)
        self.records += [Record(offset, time, *pair) for offset, time, pair in new]
        self.sequence += len(pairs)
        self.end += len(pairs)

    @rule(passed=st.integers(1, 700))
    def time_passes(self, passed: int) -> None:
        self.now += passed

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(at=st.floats(0, 1))
    def delete_records(self, at: float) -> None:
        before = self.start + int(at * (self.end - self.start))
        assert self.log.delete_records(before) == max(before, self.start)
        self.forget_before(before)

    @rule()
    def enforce_retention(self) -> None:
        size = self.log.size
        self.log.enforce_retention(self.now)
        start, first = self.log.log_start_offset, self.log._segments[0]
        gone = [record for record in self.records if record.offset < start]
        if "delete" not in self.config.cleanup_policy:
            assert not gone
        else:
            assert not first.size or first.largest_timestamp >= self.now - 1000
            assert not first.size or self.log.size - 2000 < first.size
        if size < 2000:
            assert all(record.timestamp < self.now - 1000 for record in gone)
        self.forget_before(start)

    def forget_before(self, offset: int) -> None:
        self.start = max(self.start, offset)
        self.records = [record for record in self.records if record.offset >= offset]

    @rule()
    def compact(self) -> None:
        self.log.flush()
        self.log.compact(self.now)
        left = read_log(self.log)
        kept = set(offsets(left))
        newest = {record.key: record.offset for record in self.records}
        for record in self.records:
            if record.offset not in kept:
                assert "compact" in self.config.cleanup_policy
                assert newest[record.key] > record.offset or record.value is None
        self.records = [record for record in self.records if record.offset in kept]

    @precondition(lambda self: self.on_disk)
    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.open()

    @precondition(lambda self: self.on_disk)
    @rule()
    def crash(self) -> None:
        """The process dies without closing anything; what it wrote is there."""
        old = self.directory / f"t-{self.generation}"
        self.generation += 1
        if old.exists():
            shutil.copytree(old, self.directory / f"t-{self.generation}")
        self.log.delete()
        self.log = self.open()

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.log.high_watermark == self.end
        assert read_log(self.log, 300) == self.records

    @rule(at=st.floats(0, 1), max_bytes=st.integers(0, 1000), below=st.floats(0, 1))
    def read(self, at: float, max_bytes: int, below: float) -> None:
        offset = self.start + int(at * (self.end - self.start))
        limit = self.start + int(below * (self.end - self.start))
        views = self.log.read(offset, max_bytes, limit)
        headers = [header for view in views for _, header in iter_headers(view)]
        assert sum(map(len, views)) <= max_bytes or len(headers) == 1
        assert all(header.last_offset < limit for header in headers)
        if not views:
            # With the limit inside a batch, that batch is out of reach.
            whole = self.log.read(offset, ALL, self.end)
            assert not whole or next(h for _, h in iter_headers(whole[0])).last_offset >= limit

    @rule(timestamp=st.integers(NOW - 300, NOW + 3000))
    def find_by_time(self, timestamp: int) -> None:
        expected = next(((r.timestamp, r.offset) for r in self.records if r.timestamp >= timestamp), None)
        assert self.log.offset_for_timestamp(timestamp) == expected

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.directory)


class MemoryLogMachine(LogMachine):
    on_disk = False


_LIMITS = settings(
    max_examples=examples(120), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLogOnDisk = LogMachine.TestCase
TestLogOnDisk.settings = _LIMITS
TestLogInMemory = MemoryLogMachine.TestCase
TestLogInMemory.settings = _LIMITS
