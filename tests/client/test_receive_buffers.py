"""Buffers of large answers are used again, but never while anybody looks at the old contents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.client.net.receive_buffers import ReceiveBuffers

LARGE = 1 << 20


def test_a_buffer_that_nobody_looks_at_is_used_again() -> None:
    buffers = ReceiveBuffers()
    first = buffers.get(LARGE)
    first[:4] = b"last"
    for size in (LARGE, LARGE - 1000, LARGE):
        again = buffers.get(size)
        assert again is first
        assert len(again) == size


@pytest.mark.parametrize("look", [memoryview, lambda buffer: memoryview(buffer)[10:20].toreadonly()])
def test_what_somebody_looks_at_stays(look: Callable[[bytearray], memoryview]) -> None:
    buffers = ReceiveBuffers()
    first = buffers.get(LARGE)
    first[:] = b"x" * LARGE
    view = look(first)
    second = buffers.get(LARGE)
    second[:] = b"y" * LARGE
    assert second is not first
    assert set(view) == {ord("x")}
    view.release()
    assert buffers.get(LARGE) is first


def test_small_and_very_large_ones_are_not_kept() -> None:
    buffers = ReceiveBuffers()
    for size in (1000, 9 << 20):
        first = buffers.get(size)
        assert buffers.get(size) is not first
        assert len(first) == size


def test_a_connection_keeps_sixteen_megabytes_at_most() -> None:
    buffers = ReceiveBuffers()
    views = [memoryview(buffers.get(4 << 20)) for _ in range(6)]
    assert sum(len(kept) for _, kept in buffers._kept) == 16 << 20
    assert len({id(view.obj) for view in views}) == 6
