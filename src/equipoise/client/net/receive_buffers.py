"""Buffers for large answers, which a connection uses again."""

from __future__ import annotations

from collections import deque

_SMALLEST_KEPT = 256 * 1024
_MOST_KEPT = 16 * 1024 * 1024  # bytes of buffers kept by one connection


class ReceiveBuffers:
    """Large buffers, reused when no view of them is left: fresh memory costs more than reading into it.

    A bytearray refuses to change its size while a view of it lives, so the test for that is the change itself.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, bytearray]] = deque()  # with the size each was made with

    def get(self, size: int) -> bytearray:
        """One of that size."""
        if not _SMALLEST_KEPT <= size <= _MOST_KEPT // 2:
            return bytearray(size)
        for most, buffer in self._kept:
            if size <= most <= 2 * size and _resized(buffer, size):
                return buffer
        made = bytearray(size)
        self._kept.append((size, made))
        while sum(most for most, _ in self._kept) > _MOST_KEPT:
            self._kept.popleft()
        return made


def _resized(buffer: bytearray, size: int) -> bool:
    try:
        del buffer[-1:]  # a change in any case, also where the size is right already
        if size < len(buffer):
            del buffer[size:]
        else:
            buffer.extend(bytes(size - len(buffer)))
    except BufferError:
        return False
    return True
