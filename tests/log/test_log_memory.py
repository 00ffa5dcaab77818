"""A segment's bytes in memory: every part whole in one view, whatever the sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.log.storage.memory import MemoryStorage


@given(st.lists(st.sampled_from([1, 2, 61, 1000, 4095, 4096, 4097, 9000]), max_size=30))
def test_what_was_appended_is_read_back_and_no_part_is_split(sizes: list[int]) -> None:
    storage = MemoryStorage()
    parts = [bytes([number]) * size for number, size in enumerate(sizes)]
    for part in parts:
        storage.append([part])
    starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    for number, part in enumerate(parts):
        assert storage.views(starts[number], starts[number + 1]) == [part]
        assert bytes(storage.peek(starts[number], len(part))) == part
    assert b"".join(storage.views(0, storage.size)) == b"".join(parts)
    assert storage.peek(storage.size, 10) == b""


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_block_is_filled_to_its_last_byte_and_not_beyond(size: int) -> None:
    storage = MemoryStorage()
    storage.append([b"x" * 4094, b"y" * size])
    assert len(storage.views(0, storage.size)) == (1 if size <= 2 else 2)


def test_views_neither_hinder_growth_nor_let_anyone_write() -> None:
    storage = MemoryStorage()
    storage.append([b"first"])
    (view,) = storage.views(0, 5)
    storage.append([b"x" * 10_000])
    assert bytes(view) == b"first"
    assert view.readonly
