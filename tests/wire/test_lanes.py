"""Where fields begin in chains of fields: guessed in runs, in lockstep, or alone, always the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.wire.errors import KafkaError
from equipoise.wire.records.lanes import field_starts
from tests.effort import examples

# Lengths whose varints take one, two and three bytes, null (-1) among them.
length = st.sampled_from([-1, 0, 1, 5, 63, 64, 100, 8191, 8192, 9000])
run = st.tuples(length, st.sampled_from([1, 2, 15, 16, 63, 64, 65, 200]))


def varint(number: int) -> bytes:
    zigzag, out = (number << 1) ^ (number >> 63), bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def laid_out(chains: list[list[int]], filler: int) -> tuple[bytes, list[int], list[int]]:
    """The bytes of all chains one behind the other, where each begins, and where each of its fields does."""
    data, starts, fields = bytearray(), [], []
    for chain in chains:
        starts.append(len(data))
        for size in chain:
            fields.append(len(data))
            data += varint(size) + bytes([filler]) * max(size, 0)
    return bytes(data) + b"\0", starts, fields


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.lists(run, min_size=1, max_size=4), min_size=1, max_size=3),
    st.sampled_from([1, 30]),
    st.integers(0, 255),
)
def test_fields_are_found_whatever_their_sizes(runs: list[list[tuple[int, int]]], copies: int, filler: int) -> None:
    chains = [[size for size, count in chain for _ in range(count)] for chain in runs] * copies
    while sum(max(size, 0) for chain in chains for size in chain) > 20_000_000:
        chains.pop()
    data, starts, fields = laid_out(chains, filler)
    counts = np.array([len(chain) for chain in chains], np.int64)
    found = field_starts(np.frombuffer(data, np.uint8), np.array(starts, np.int64), counts)
    assert found.tolist() == fields


@pytest.mark.parametrize("lanes", [1, 40])
def test_a_chain_that_runs_past_the_end_is_refused(lanes: int) -> None:
    """The last field of each says it is longer than what is there."""
    data, starts, _ = laid_out([[100] * 80] * lanes, 0)
    counts = np.array([81] * lanes, np.int64)
    with pytest.raises(KafkaError, match="past the"):
        field_starts(np.frombuffer(data[: -len(data) // lanes // 2], np.uint8), np.array(starts, np.int64), counts)


def test_what_lies_between_chains_does_not_matter() -> None:
    data, starts, fields = laid_out([[50] * 100, [50] * 100], 0x32)
    gap = b"\xff" * 61
    middle = starts[1]
    spread = np.frombuffer(data[:middle] + gap + data[middle:], np.uint8)
    found = field_starts(spread, np.array([0, middle + 61]), np.array([100, 100]))
    assert found.tolist() == [at if at < middle else at + 61 for at in fields]
