"""Compression: every codec both ways, the framings that other clients send, corrupt data, bombs."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import textwrap
from typing import Any

import aiokafka.codec
import cramjam
import kafka.codec
import lz4.frame
import pytest
import zstandard

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import Codec
from equipoise.wire.records.codecs import compress, decompress, decompress_into

LIMIT = 1 << 20
PACKED = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"one group, two state machines; " * 4000  # more than three snappy blocks of 32 KiB
NOISE = random.Random(7).randbytes(70_000)
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE, bytes(500_000)], ids=len)
@pytest.mark.parametrize("codec", Codec)
def test_what_goes_in_comes_out(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, limit=LIMIT) == data
    assert decompress(codec, memoryview(b"??" + packed)[2:], limit=LIMIT) == data


@pytest.mark.parametrize("codec", PACKED)
def test_text_becomes_smaller(codec: Codec) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) / 5


ORACLES = [
    (Codec.GZIP, gzip.compress, gzip.decompress),
    (Codec.GZIP, kafka.codec.gzip_encode, kafka.codec.gzip_decode),
    (Codec.SNAPPY, kafka.codec.snappy_encode, kafka.codec.snappy_decode),
    (Codec.SNAPPY, aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    (Codec.LZ4, kafka.codec.lz4_encode, kafka.codec.lz4_decode),
    (Codec.LZ4, aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    (Codec.LZ4, lz4.frame.compress, lz4.frame.decompress),
    (Codec.ZSTD, kafka.codec.zstd_encode, kafka.codec.zstd_decode),
    (Codec.ZSTD, aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
]


@pytest.mark.parametrize("data", [b"x", TEXT, NOISE], ids=len)
@pytest.mark.parametrize(("codec", "encode", "decode"), ORACLES)
def test_others_read_ours_and_we_read_theirs(codec: Codec, encode: Any, decode: Any, data: bytes) -> None:
    assert bytes(decode(compress(codec, data))) == data
    assert decompress(codec, bytes(encode(data)), limit=LIMIT) == data


def test_bare_snappy_as_librdkafka_sends_it() -> None:
    bare = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Codec.SNAPPY, bare, limit=LIMIT) == TEXT


def test_snappy_is_written_with_the_framing_of_snappy_java() -> None:
    packed = compress(Codec.SNAPPY, b"abc")
    # One literal of three bytes: length 3, tag (3 - 1) << 2, the bytes.
    assert packed == XERIAL + b"\x00\x00\x00\x05" + b"\x03\x08abc"
    assert compress(Codec.SNAPPY, b"") == XERIAL


def test_xerial_blocks_of_any_size_and_versions_in_the_wrong_byte_order() -> None:
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (b"small", NOISE, b"", b"end")]
    body = b"".join(struct.pack(">I", len(block)) + block for block in blocks)
    for versions in (b"\x00\x00\x00\x01\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01\x00\x00\x00"):
        packed = b"\x82SNAPPY\x00" + versions + body
        assert decompress(Codec.SNAPPY, packed, limit=LIMIT) == b"small" + NOISE + b"end"


@pytest.mark.parametrize("level", [None, 1, 9, 12])
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_lz4_has_the_frame_of_the_java_client(size: int, level: int | None) -> None:
    """Neither blocks nor content have checksums, and kafka-go reads none of blocks. What does not shrink is plain."""
    for data in (bytes(size), random.Random(1).randbytes(size)):
        packed = compress(Codec.LZ4, data, level)
        assert packed[:7].hex() == "04224d18604082"
        assert lz4.frame.decompress(packed) == decompress(Codec.LZ4, packed, limit=size + 1) == data
        assert len(packed) <= size + 7 + 4 * (2 + size // 65_536)


def test_lz4_blocks_are_independent_and_the_content_has_no_checksum() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert info["block_linked"] is False
    assert info["content_checksum"] is False


def test_frames_one_after_the_other_are_one_stream() -> None:
    for codec, encode in [(Codec.GZIP, gzip.compress), (Codec.LZ4, lz4.frame.compress)]:
        assert decompress(codec, encode(b"one") + encode(TEXT), limit=LIMIT) == b"one" + TEXT
    zstd = zstandard.ZstdCompressor()
    assert decompress(Codec.ZSTD, zstd.compress(b"one") + zstd.compress(TEXT), limit=LIMIT) == b"one" + TEXT


def test_streams_without_a_declared_size_as_java_writes_them() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert decompress(Codec.ZSTD, packed, limit=LIMIT) == TEXT
    with lz4.frame.LZ4FrameCompressor(block_linked=False) as lz4_stream:
        packed = lz4_stream.begin() + lz4_stream.compress(TEXT) + lz4_stream.flush()
    assert decompress(Codec.LZ4, packed, limit=LIMIT) == TEXT


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, limit=len(TEXT)) == TEXT
    with pytest.raises(KafkaError, match=f"cannot be expanded to {len(TEXT) - 1} bytes") as raised:
        decompress(codec, packed, limit=len(TEXT) - 1)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", PACKED)
def test_truncated_data_is_corrupt_at_every_byte(codec: Codec) -> None:
    packed = compress(codec, TEXT[:3000])
    for size in range(len(packed)):
        # A snappy-java header without blocks is a whole stream of nothing.
        if codec is Codec.SNAPPY and size == len(XERIAL):
            assert decompress(codec, packed[:size], limit=LIMIT) == b""
            continue
        with pytest.raises(KafkaError) as raised:
            decompress(codec, packed[:size], limit=LIMIT)
        assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("junk", [b"", b"\xff", b"no frame of any codec", bytes(100), b"\xff" * 100], ids=repr)
def test_junk_is_corrupt(codec: Codec, junk: bytes) -> None:
    with pytest.raises(KafkaError) as raised:
        decompress(codec, junk, limit=LIMIT)
    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


def test_xerial_block_that_is_cut_says_by_how_much() -> None:
    with pytest.raises(KafkaError, match="block is 95 bytes short"):
        decompress(Codec.SNAPPY, XERIAL + b"\x00\x00\x00\x64" + b"\x03\x08abc", limit=LIMIT)
    with pytest.raises(KafkaError, match="length of a snappy block is cut off"):
        decompress(Codec.SNAPPY, XERIAL + b"\x00\x00", limit=LIMIT)


@pytest.mark.parametrize("codec", Codec)
def test_into_given_room(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    room = bytearray(len(TEXT) + 10)
    assert decompress_into(codec, packed, memoryview(room)) == len(TEXT)
    assert room[: len(TEXT)] == TEXT
    assert decompress_into(codec, packed, memoryview(bytearray(len(TEXT) - 1))) is None


def test_a_bomb_takes_no_more_memory_than_the_limit() -> None:
    """Frames of 16 MiB of zeros, many after another: 10 GiB out of at most 4 MiB, in a process that may have 1 GiB."""
    script = textwrap.dedent("""
        import gzip, resource, cramjam
        from equipoise.wire.errors import KafkaError
        from equipoise.wire.records.batch import Codec
        from equipoise.wire.records.codecs import compress, decompress

        MIB = 1 << 20
        bombs = {codec: compress(codec, bytes(16 * MIB)) * 640 for codec in (Codec.ZSTD, Codec.LZ4, Codec.GZIP)}
        block = compress(Codec.SNAPPY, bytes(MIB))
        bombs[Codec.SNAPPY] = block + block[16:] * 640
        bombs[Codec.NONE] = b"\\xff\\xff\\xff\\xff\\x0f" + b"declares 4 GiB, as a bare snappy block"
        resource.setrlimit(resource.RLIMIT_AS, (1024 * MIB, 1024 * MIB))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for codec, bomb in bombs.items():
            try:
                decompress(codec or Codec.SNAPPY, bomb, limit=64 * MIB)
            except KafkaError as error:
                print(codec.name, error.code.name)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    *refused, megabytes = done.stdout.splitlines()
    assert refused == [f"{name} CORRUPT_MESSAGE" for name in ("ZSTD", "LZ4", "GZIP", "SNAPPY", "NONE")]
    assert int(megabytes) < 200
