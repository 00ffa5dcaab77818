"""Size-prefixed frames, as requests and responses stand in a stream of bytes: cut out of what arrives, and made.

Nothing here reads or writes: whoever has a socket says where its bytes went. `FrameSplitter` cuts what one read has
brought. `FrameReader` is the whole receiving half of a connection that trusts its peer: a large frame gets a buffer of
its announced size at once. A broker does not trust its peers: there the buffer grows with what arrives
(`broker/net/connection.py`), on top of the same splitter.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, Protocol

from equipoise.wire.errors import ProtocolError

Frame = bytes | bytearray
SIZE = Struct(">i")
_PREFIX = SIZE.size
_unpack = SIZE.unpack_from
_RECEIVE_BUFFER = 64 * 1024
_COPY_UP_TO = 4096  # a small read is cut up faster as bytes than as views


class FrameSizeError(ProtocolError):
    """A frame is announced that is smaller or larger than any may be. `size` was announced, `max_size` is the most."""

    def __init__(self, size: int, max_size: int) -> None:
        self.size, self.max_size = size, max_size
        super().__init__(f"a frame of {size} bytes was announced, {max_size} is the most")


class Frames(Protocol):
    """Where whole frames go: a list or a deque."""

    def append(self, frame: Frame, /) -> None:
        """Takes a frame in the order of the stream."""


class Unfinished(NamedTuple):
    """A frame of which only the beginning has come."""

    size: int
    received: Any  # bytes or a view, which does not outlive the next read


class FrameSplitter:
    """Cuts a stream into frames. A frame has at least `min_size` bytes and at most `max_size`.

    A frame is `bytes`, which are read the fastest. With `writable_produce` the frame of a Produce request, which begins
    with API key 0, is a `bytearray`: a log gives its batches their offsets in place.
    """

    __slots__ = ("_max_size", "_min_size", "_writable_produce", "head")

    def __init__(self, max_size: int, *, min_size: int = 0, writable_produce: bool = False) -> None:
        self.head = b""  # the first bytes of a frame whose size is not known yet
        self._max_size = max_size
        self._min_size = min_size
        self._writable_produce = writable_produce

    def limit(self, max_size: int, *, min_size: int = 0) -> None:
        """Changes the bounds for frames whose size is not read yet."""
        self._max_size, self._min_size = max_size, min_size

    def split(self, data: memoryview, frames: Frames) -> Unfinished | None:
        """Appends to `frames` all that are whole. Returns the beginning of one more, if its size is known.

        FrameSizeError: `frames` has those before, and the stream cannot be read on."""
        view: Any = data
        if self.head:
            view = self.head + data.tobytes()
            self.head = b""
        elif len(data) <= _COPY_UP_TO:
            view = data.tobytes()
        p, end = 0, len(view)
        while end - p >= _PREFIX:
            (size,) = _unpack(view, p)
            if not self._min_size <= size <= self._max_size:
                raise FrameSizeError(size, self._max_size)
            p += _PREFIX
            if end - p < size:
                return Unfinished(size, view[p:])
            frame = view[p : p + size]
            if self._writable_produce and size > 1 and view[p] == 0 and view[p + 1] == 0:
                frame = bytearray(frame)
            elif type(frame) is memoryview:
                frame = frame.tobytes()
            frames.append(frame)
            p += size
            if p == end:
                return None
        if p < end:
            self.head = bytes(view[p:])
        return None


class FrameReader:
    """The receiving half of a connection: bytes go into `buffer()`, and `received` tells how many have come.

    A frame that one read did not bring whole is received into a buffer of its size, of which records can stay views.
    `allocate` makes such buffers.
    """

    def __init__(self, max_size: int, allocate: Callable[[int], bytearray] = bytearray) -> None:
        self._splitter = FrameSplitter(max_size)
        self._allocate = allocate
        self._shared = memoryview(bytearray(_RECEIVE_BUFFER))
        self._frame: bytearray | None = None  # one that is partly received
        self._filled = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go. It is used up by the next `received`."""
        return self._shared if self._frame is None else memoryview(self._frame)[self._filled :]

    @property
    def is_empty(self) -> bool:
        """Whether no frame is partly received."""
        return self._frame is None and not self._splitter.head

    def received(self, count: int, frames: Frames) -> None:
        """So many bytes have come; frames that are whole by now are appended. FrameSizeError as `split` raises it."""
        if self._frame is None:
            unfinished = self._splitter.split(self._shared[:count], frames)
            if unfinished is not None:
                self._begin(unfinished)
        else:
            self._filled += count
            if self._filled == len(self._frame):
                frames.append(self._frame)
                self._frame = None

    def _begin(self, unfinished: Unfinished) -> None:
        size, received = unfinished
        self._frame, self._filled = self._allocate(size), len(received)
        self._frame[: self._filled] = received


def framed(*parts: bytes) -> bytes:
    """One frame of all parts, its size before it."""
    return b"".join((SIZE.pack(sum(map(len, parts))), *parts))


def join_small(pieces: list[Any], below: int) -> list[Any]:
    """Runs of small pieces become one each: uvloop drops a write of more than 2^20 pieces, with EINVAL."""
    joined: list[Any] = []
    run: list[Any] = []
    for piece in pieces:
        if len(piece) < below:
            run.append(piece)
            continue
        if run:
            joined.append(b"".join(run))
            run = []
        joined.append(piece)
    if run:
        joined.append(b"".join(run))
    return joined
