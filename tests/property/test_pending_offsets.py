"""Offsets in transactions by chance: the shard that applies, one that loads the same log, and Kafka's rule by record
offsets must agree."""

from __future__ import annotations

from random import Random

import pytest

from equipoise.broker.groups.loader import CoordinatorLoader
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.shard import Shard
from equipoise.wire.offsets_records import (
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from equipoise.wire.records.batch import read_header
from equipoise.wire.records.build import build_pairs
from equipoise.wire.records.control import EndTransactionMarker, build_marker
from tests.effort import examples

NOW = 1_700_000_000_000
PLACES = [(group, topic, partition) for group in "gh" for topic in "tu" for partition in (0, 1)]


def new_shard() -> Shard:
    return Shard(GroupConfig(), lambda: "id")


class Oracle:
    """Every record with its offset: the committed one of a place is the highest whose transaction is committed, but
    nothing before a tombstone (OffsetMetadataManager.replay)."""

    def __init__(self) -> None:
        self.end = 0
        self.committed: dict[tuple[str, str, int], tuple[int, int]] = {}  # record offset, committed offset
        self.pending: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = {}

    def record(self, place: tuple[str, str, int], offset: int | None, producer_id: int) -> None:
        self.end += 1
        if offset is None:
            self.committed.pop(place, None)
            for one in self.pending.values():
                one.pop(place, None)
        elif producer_id >= 0:
            self.pending.setdefault(producer_id, {})[place] = self.end, offset
        else:
            self.committed[place] = self.end, offset

    def marker(self, producer_id: int, *, commit: bool) -> None:
        self.end += 1
        for place, found in self.pending.pop(producer_id, {}).items():
            if commit and found[0] > self.committed.get(place, (0, 0))[0]:
                self.committed[place] = found


def check(shard: Shard, oracle: Oracle) -> None:
    for place in PLACES:
        found = shard.offsets.get(*place)
        assert (None if found is None else found.offset) == oracle.committed.get(place, (0, None))[1]
        assert shard.offsets.pending.has(*place) == any(place in one for one in oracle.pending.values())
    assert bool(shard.offsets.pending) == any(oracle.pending.values())


@pytest.mark.parametrize("seed", range(examples(100)))
def test_live_and_loaded_shards_follow_the_order_of_records(seed: int) -> None:
    random, oracle, live = Random(seed), Oracle(), new_shard()
    log: list[bytearray] = []
    for offset in range(1, 80):
        what, producer_id = random.random(), random.randrange(3)
        if what < 0.3:
            commit = random.random() < 0.6
            log.append(build_marker(producer_id, 0, EndTransactionMarker(commit, 0), NOW))
            live.offsets.end_transaction(producer_id, commit=commit)
            oracle.marker(producer_id, commit=commit)
        else:
            is_tombstone = what > 0.9
            producer_id = -1 if is_tombstone or what > 0.7 else producer_id
            place = random.choice(PLACES)
            key = OffsetCommitKey(group=place[0], topic=place[1], partition=place[2])
            value = None if is_tombstone else OffsetCommitValue(offset=offset, metadata="", commit_timestamp=NOW)
            pairs = [(encode_key(key), None if value is None else encode_value(value))]
            log.append(build_pairs(pairs, NOW, (producer_id, 0) if producer_id >= 0 else None))
            live.apply(CoordinatorRecord(key, value), NOW, producer_id)
            oracle.record(place, None if is_tombstone else offset, producer_id)
        check(live, oracle)
    loaded = new_shard()
    loader = CoordinatorLoader(loaded, NOW)
    for batch in log:
        loader.take_batch(memoryview(batch), 0, read_header(batch))
    check(loaded, oracle)
    assert {name for name, _, _ in oracle.committed} <= loaded.groups.keys()
