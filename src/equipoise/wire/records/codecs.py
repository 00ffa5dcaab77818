"""Compression of a batch's records: gzip, snappy, lz4 and zstd as Kafka's clients frame them.

Decompression has a limit on its output. A batch that expands a thousandfold meets the limit, not the machine's memory.
The library is loaded with the first compressed batch: it takes 1.6 MB, and many brokers never meet one.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import Buffer, Codec

if TYPE_CHECKING:
    from cramjam import DecompressionError

DECOMPRESSED_LIMIT = 256 * 1024 * 1024
"""Bytes that one batch may expand to. Producers build batches of megabytes: far above what they send."""

# Kafka's own defaults: zstd 3, gzip 6, and lz4's fast mode.
_ZSTD_LEVEL = 3
_GZIP_LEVEL = 6
_LZ4_LEVEL = 1

# The framing of snappy-java, which the Java client writes: magic, version, oldest version able to read, then
# blocks each with its length before it. A client that meets Java producers has to read it; a bare snappy block,
# as librdkafka writes, is read by Java and librdkafka, but not by all.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024
_BLOCK_LENGTH = Struct(">I")

# A frame of lz4: magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, the header's checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_LENGTH = Struct("<I")
_LZ4_SIZE = (1 << 31) - 1  # the highest bit is of a block that would not become smaller
_LZ4_CHECKSUM = 4

_FIRST_GUESS = 8  # times the compressed size: most batches expand less, so one attempt is the rule
_GROWTH = 8
_SMALL_ROOM = 4 * 1024 * 1024

_Room = bytearray | memoryview | mmap
_LACK_OF_ROOM = ("failed to write whole buffer", "smaller than required")  # cramjam's words, and those of its snappy


class ExpandsTooFarError(KafkaError):
    """The compressed data may be sound, but it expands to more than the limit."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compresses in the framing of the Java client. `level` is Kafka's compression.*.level; None: its default."""
    if codec is Codec.NONE:
        return bytes(data)
    import cramjam

    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level is None else level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data, _LZ4_LEVEL if level is None else level)
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """As Lz4BlockOutputStream writes it: Java cannot read linked blocks (KIP-57), and kafka-go no checksums of them.

    The library always writes the latter; they are left out."""
    import cramjam

    lz4 = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    lz4.compress(bytes(data))
    frame = memoryview(bytes(lz4.finish()))
    pieces: list[Buffer] = [_LZ4_HEADER]
    pos = len(_LZ4_HEADER)
    while size := _LZ4_LENGTH.unpack_from(frame, pos)[0] & _LZ4_SIZE:
        end = pos + _LZ4_LENGTH.size + size
        pieces.append(frame[pos:end])
        pos = end + _LZ4_CHECKSUM
    return b"".join([*pieces, frame[pos:]])


def _compress_xerial(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        pieces += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def decompress(codec: Codec, data: Buffer, *, limit: int) -> bytes:
    """Expands `data` to at most `limit` bytes. Raises KafkaError(CORRUPT_MESSAGE) if it cannot, or is more."""
    return bytes(expand(codec, data, limit=limit))


def expand(codec: Codec, data: Buffer, *, limit: int) -> bytes | memoryview:
    """The same without a second copy of large data."""
    from cramjam import DecompressionError

    room = min(limit, _FIRST_GUESS * len(data) + 64)
    while True:
        # A bytearray is faster, but writes zeros all over; an mmap takes memory only where bytes arrive.
        out = bytearray(room) if room <= _SMALL_ROOM else mmap(-1, room)
        try:
            expanded = memoryview(out)[: _UNPACKERS[codec](data, out)]
            return bytes(expanded) if room <= _SMALL_ROOM else expanded
        except DecompressionError as error:
            # The reason is in words only, so any failure is tried again with more room, up to the limit.
            if room >= limit:
                raise _failure(error)(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{len(data)} bytes of {codec.name.lower()} cannot be expanded to {limit} bytes or fewer: {error}",
                ) from None
        room = min(limit, room * _GROWTH)


def _failure(error: DecompressionError) -> type[KafkaError]:
    return ExpandsTooFarError if any(words in str(error) for words in _LACK_OF_ROOM) else KafkaError


def decompress_into(codec: Codec, data: Buffer, out: memoryview) -> int | None:
    """Expands `data` to the head of `out` and returns the length; None if it does not fit or is corrupt."""
    from cramjam import DecompressionError

    try:
        return _UNPACKERS[codec](data, out)
    except DecompressionError:
        return None


def _copy_into(data: Buffer, out: _Room) -> int:
    from cramjam import DecompressionError

    if len(data) > len(out):
        raise DecompressionError("not enough room")
    out[: len(data)] = data
    return len(data)


def _gzip_into(data: Buffer, out: _Room) -> int:
    from cramjam import gzip

    return gzip.decompress_into(data, out)


def _lz4_into(data: Buffer, out: _Room) -> int:
    from cramjam import lz4

    return lz4.decompress_into(data, out)


def _zstd_into(data: Buffer, out: _Room) -> int:
    from cramjam import zstd

    return zstd.decompress_into(data, out)


def _snappy_into(data: Buffer, out: _Room) -> int:
    from cramjam import DecompressionError, snappy

    # Only the magic is looked at: Redpanda writes the two versions after it in the wrong byte order.
    if len(data) < len(_XERIAL_HEADER) or data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return snappy.decompress_raw_into(data, out)
    blocks, room = memoryview(data), memoryview(out)
    pos, written = len(_XERIAL_HEADER), 0
    while pos < len(blocks):
        start = pos + _BLOCK_LENGTH.size
        if start > len(blocks):
            raise DecompressionError("the length of a snappy block is cut off")
        pos = start + _BLOCK_LENGTH.unpack_from(blocks, pos)[0]
        if pos > len(blocks):
            raise DecompressionError(f"a snappy block is {pos - len(blocks)} bytes short")
        written += snappy.decompress_raw_into(blocks[start:pos], room[written:])
    return written


_UNPACKERS: dict[Codec, Callable[[Buffer, _Room], int]] = {
    Codec.NONE: _copy_into,
    Codec.GZIP: _gzip_into,
    Codec.SNAPPY: _snappy_into,
    Codec.LZ4: _lz4_into,
    Codec.ZSTD: _zstd_into,
}
