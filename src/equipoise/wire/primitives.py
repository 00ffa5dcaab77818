"""The variable-length parts of Kafka's encoding, and the fault that compiled decoders raise."""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview

LONGEST_STRING = 32_767
MAX_TAGS = 65_536  # in all tagged sections of a message that tell us nothing
_MAX_SHIFT = 28  # five bytes of seven bits: the longest uvarint that fits 32 bits


class Fault(Exception):
    """Bytes that do not follow their table. The message is made when the field is known."""

    def __init__(self, found: int, end: int | None = None, what: str = "bytes are missing") -> None:
        super().__init__(found, end)
        self.found = found
        self.end = end
        self.what = what

    def __str__(self) -> str:
        if self.end is None:
            return f"length {self.found} is not allowed"
        if self.found > self.end:
            return f"{self.found - self.end} {self.what}"
        return f"{self.end - self.found} bytes are left over"


def long_uvarint(buf: Buffer, p: int, first: int) -> tuple[int, int]:
    """Reads the rest of a uvarint whose first byte had the continuation bit. Returns it and the next position."""
    value, shift = first & 0x7F, 7
    while True:
        byte = buf[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, p
        shift += 7
        if shift > _MAX_SHIFT:
            raise Fault(value)


def long_string(buf: Buffer, p: int, first: int) -> tuple[int, int]:
    """The same for the length, plus one, of a string. Kafka's strings have at most 32,767 bytes."""
    value, p = long_uvarint(buf, p, first)
    if value - 1 > LONGEST_STRING:
        raise Fault(value - 1)
    return value, p


def uvarint(buf: Buffer, p: int) -> tuple[int, int]:
    """An unsigned varint, and the position behind it."""
    byte = buf[p]
    return (byte, p + 1) if byte < 0x80 else long_uvarint(buf, p + 1, byte)


def write_uvarint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(buf: Buffer, p: int, first: int, left: int = MAX_TAGS) -> tuple[int, int]:
    """Skips a tagged section whose count began with the byte `first`. Returns the next position and the rest of the
    budget."""
    count = first
    if first > 0x7F:
        count, p = long_uvarint(buf, p, first)
    end = len(buf)
    if count > end - p:
        raise Fault(p + count, end)
    if count > left:
        raise Fault(count, left, "tagged fields too many")
    for _ in range(count):
        _, p = uvarint(buf, p)
        size, p = uvarint(buf, p)
        p += size
    return p, left - count
