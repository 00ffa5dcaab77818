"""The bench writes commits that are commits, and runs the whole command over them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench import history as bench
from equipoise.wire.offsets_records import CoordinatorRecord, OffsetCommitValue, decode_record
from equipoise.wire.records.read import read_all
from tests.commands import Command

EACH = 40 * 24


def test_rounds_are_a_commit_of_each_group() -> None:
    (first, second) = [[list(read_all(batch)) for batch in round_] for round_ in bench._batches(2)]
    assert [len(batch) for batch in first] == [24] * 40
    found = [decode_record(record.key or b"", record.value) for batch in second for record in batch]
    assert all(isinstance(one, CoordinatorRecord) and isinstance(one.value, OffsetCommitValue) for one in found)
    places = [(one.key.group, one.key.topic, one.key.partition) for one in found]  # type: ignore[union-attr]
    assert places == [(f"group-{group}", "orders", number) for group in range(40) for number in range(24)]
    assert {one.value.offset for one in found} == {1}  # type: ignore[union-attr]
    times = np.array([one.value.commit_timestamp for one in found])  # type: ignore[union-attr]
    assert set(times.tolist()) == {record.timestamp for batch in second for record in batch}


@pytest.mark.soak
@pytest.mark.timeout(900)  # Spark takes its time on a busy machine
def test_the_command_over_few_commits(command: Command) -> None:
    ended = command("history", "--json", "--records", str(EACH))
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    assert told["records"] == EACH
    assert told["figures"]["history"]["best"] > 0
    assert told["figures"]["history"]["aim_at_most"] == 60
