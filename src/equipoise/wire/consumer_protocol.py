"""What consumers tell each other through the coordinator: Subscription in JoinGroup, Assignment in SyncGroup.

Both begin with an int16 version and are never flexible. New versions only append, so a version that is not
known yet is read as the newest known one, and bytes after the last known field are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from equipoise.wire.errors import ProtocolError, UsageError

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3
NO_GENERATION = -1

Partitions = dict[str, list[int]]  # by topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topics and user_data since v0, owned_partitions v1, generation_id v2, rack_id v3."""

    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: Partitions = field(default_factory=dict)
    generation_id: int = NO_GENERATION
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The same layout in all versions."""

    assigned_partitions: Partitions
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    """What the `sticky` assignor remembers of the last generation. v0 has no generation_id."""

    owned_partitions: Partitions
    generation_id: int = NO_GENERATION


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """Topics and partitions in sorted order: the coordinator rebalances when the bytes of a member change."""
    owned = subscription.owned_partitions
    parts = [
        _version(version),
        _array([_string(topic) for topic in sorted(subscription.topics)]),
        _bytes(subscription.user_data),
    ]
    if version >= 1:
        parts.append(_partitions({topic: sorted(owned[topic]) for topic in sorted(owned)}))
    if version >= 2:
        parts.append(struct.pack(">i", subscription.generation_id))
    if version >= 3:
        parts.append(_string(subscription.rack_id))
    return b"".join(parts)


def decode_subscription(buf: bytes | memoryview, newest: int = NEWEST_VERSION) -> Subscription:
    """`newest` is the newest layout to read. The coordinator, which needs the topics only, reads all as v0:
    there are clients whose later fields do not keep to the version they claim."""
    reader = _Reader(buf, "Subscription")
    version = min(reader.version(), newest)
    return Subscription(
        topics=[reader.string() for _ in range(reader.count())],
        user_data=reader.nullable_bytes(),
        owned_partitions=reader.partitions() if version >= 1 else {},
        generation_id=reader.int32() if version >= 2 else NO_GENERATION,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST_VERSION) -> bytes:
    return _version(version) + _partitions(assignment.assigned_partitions) + _bytes(assignment.user_data)


def decode_assignment(buf: bytes | memoryview) -> Assignment:
    reader = _Reader(buf, "Assignment")
    reader.version()
    return Assignment(assigned_partitions=reader.partitions(), user_data=reader.nullable_bytes())


def encode_sticky_user_data(data: StickyUserData) -> bytes:
    """Always v1."""
    return _partitions(data.owned_partitions) + struct.pack(">i", data.generation_id)


def decode_sticky_user_data(buf: bytes | memoryview) -> StickyUserData | None:
    """v1, else v0, else None: the bytes name no version, and what another assignor left there is ignored."""
    reader = _Reader(buf, "sticky user data")
    try:
        owned = reader.partitions()
    except ProtocolError:
        return None
    try:
        return StickyUserData(owned_partitions=owned, generation_id=reader.int32())
    except ProtocolError:
        return StickyUserData(owned_partitions=owned)


class _Reader:
    """Reads forward through `buf`; an error names `what` and the place."""

    def __init__(self, buf: bytes | memoryview, what: str) -> None:
        self.buf = bytes(buf)
        self.what = what
        self.pos = 0

    def take(self, size: int) -> int:
        """The place of the next `size` bytes, which are there."""
        start, self.pos = self.pos, self.pos + size
        if self.pos > len(self.buf):
            raise self.fault(f"needs {size} bytes at {start}, has {len(self.buf) - start}")
        return start

    def fault(self, reason: str) -> ProtocolError:
        return ProtocolError(f"{self.what} of {len(self.buf)} bytes: {reason}")

    def int16(self) -> int:
        return int(struct.unpack_from(">h", self.buf, self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack_from(">i", self.buf, self.take(4))[0])

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise self.fault(f"version {version} is negative")
        return version

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self.buf) - self.pos:
            raise self.fault(f"count {count} at {self.pos - 4}, {len(self.buf) - self.pos} bytes follow")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise self.fault(f"null at {self.pos - 2} where a string must be")
        return text

    def nullable_string(self) -> str | None:
        data = self.data(self.int16())
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as fault:
            raise self.fault(f"text that ends at {self.pos} is no UTF-8: {fault}") from None

    def nullable_bytes(self) -> bytes | None:
        return self.data(self.int32())

    def data(self, length: int) -> bytes | None:
        if length < -1:
            raise self.fault(f"length {length} before {self.pos}")
        if length == -1:
            return None
        start = self.take(length)
        return self.buf[start : self.pos]

    def partitions(self) -> Partitions:
        """A topic that is named twice has the partitions of both places."""
        found: Partitions = {}
        for _ in range(self.count()):
            topic, count = self.string(), self.count()
            found.setdefault(topic, []).extend(struct.unpack_from(f">{count}i", self.buf, self.take(4 * count)))
        return found


def _version(version: int) -> bytes:
    if not 0 <= version <= NEWEST_VERSION:
        raise UsageError(f"consumer protocol version {version}; those that can be written are 0 to {NEWEST_VERSION}")
    return struct.pack(">h", version)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    if len(data) > 0x7FFF:
        raise UsageError(f"{text[:20]!r}... has {len(data)} bytes; a name may have 32767")
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else struct.pack(">i", len(data)) + data


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    return _array(
        [
            _string(topic) + struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)
            for topic, numbers in partitions.items()
        ]
    )
