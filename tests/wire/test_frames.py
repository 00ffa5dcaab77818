"""Frames out of a stream of bytes, however the reads cut it."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.wire.frames import Frame, FrameReader, FrameSizeError, FrameSplitter, framed

BODIES = st.lists(st.binary(max_size=40) | st.integers(4000, 9000).map(bytes), max_size=12)
CUTS = st.lists(st.integers(0, 10**6), max_size=12)


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


def feed(reader: FrameReader, data: bytes, frames: list[Frame]) -> None:
    """As a socket does: no more at a time than the buffer takes."""
    while data:
        room = reader.buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        reader.received(count, frames)
        data = data[count:]


@given(BODIES, CUTS)
def test_a_reader_finds_the_frames_wherever_reads_end(bodies: list[bytes], cuts: list[int]) -> None:
    reader, frames = FrameReader(10_000), list[Frame]()
    for piece in pieces(b"".join(map(sized, bodies)), cuts):
        feed(reader, piece, frames)
    assert frames == bodies
    assert reader.is_empty


def test_a_frame_larger_than_a_read_is_received_into_one_buffer_of_its_size() -> None:
    made: list[bytearray] = []

    def allocate(size: int) -> bytearray:
        made.append(bytearray(size))
        return made[-1]

    reader, frames = FrameReader(1 << 20, allocate), list[Frame]()
    large = bytes(range(256)) * 1000
    feed(reader, sized(b"small") + sized(large)[:70_000], frames)
    assert frames == [b"small"]
    assert not reader.is_empty
    feed(reader, sized(large)[70_000:] + sized(b"next"), frames)
    assert frames == [b"small", large, b"next"]
    assert len(made) == 1
    assert frames[1] is made[0]


def test_half_a_size_is_kept_for_the_next_read() -> None:
    reader, frames = FrameReader(100), list[Frame]()
    feed(reader, sized(b"one") + b"\0\0", frames)
    assert frames == [b"one"]
    assert not reader.is_empty
    feed(reader, b"\0\3two", frames)
    assert frames == [b"one", b"two"]


@pytest.mark.parametrize("size", [-1, 9, 101, 0x16030100])
@pytest.mark.parametrize("behind", [b"", bytes(8000)], ids=["a small read", "a large read"])
def test_a_size_out_of_bounds_ends_the_stream_behind_what_was_whole(size: int, behind: bytes) -> None:
    splitter, frames = FrameSplitter(100, min_size=10), list[Frame]()
    data = sized(b"0123456789") + struct.pack(">i", size) + behind
    with pytest.raises(FrameSizeError, match=str(size)) as caught:
        splitter.split(memoryview(data), frames)
    assert caught.value.size == size
    assert frames == [b"0123456789"]


@pytest.mark.parametrize("count", [1, 500], ids=["a small read", "a large read"])
def test_only_the_frame_of_a_produce_request_can_be_written_to(count: int) -> None:
    produce, fetch = b"\0\0" + bytes(10), b"\0\1" + bytes(10)
    frames = list[Frame]()
    stream = (sized(produce) + sized(fetch)) * count
    assert FrameSplitter(100, min_size=10, writable_produce=True).split(memoryview(stream), frames) is None
    assert [type(frame) for frame in frames] == [bytearray, bytes] * count
    assert frames == [produce, fetch] * count
    FrameSplitter(100).split(memoryview(stream), frames)
    assert {type(frame) for frame in frames[2 * count :]} == {bytes}


def test_a_splitter_hands_over_the_beginning_of_a_frame() -> None:
    splitter, frames = FrameSplitter(100), list[Frame]()
    unfinished = splitter.split(memoryview(sized(b"whole") + sized(bytes(50))[:20]), frames)
    assert unfinished is not None
    assert (unfinished.size, bytes(unfinished.received)) == (50, bytes(16))
    assert splitter.head == b""


def test_a_frame_of_parts() -> None:
    assert framed(b"ab", b"", b"c") == b"\0\0\0\3abc"
    assert framed() == b"\0\0\0\0"
