"""Random UUIDs, and how Kafka and Java write them.

The standard library's module asks for the platform when it is imported: milliseconds of a broker's start.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode


def random_uuid() -> bytes:
    """A UUID of version 4."""
    made = bytearray(os.urandom(16))
    made[6] = made[6] & 0x0F | 0x40
    made[8] = made[8] & 0x3F | 0x80
    return bytes(made)


def dashed(uuid: bytes) -> str:
    """As Java writes a UUID: 36 characters."""
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short(uuid: bytes) -> str:
    """As Kafka writes a UUID: 22 characters. Kafka: Uuid.toString."""
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()
