"""Random UUIDs, from chance: pure parts may not import this.

The standard library's module asks for the platform when it is imported: milliseconds of a broker's start.
"""

from __future__ import annotations

import os


def random_uuid() -> bytes:
    """A UUID of version 4."""
    made = bytearray(os.urandom(16))
    made[6] = made[6] & 0x0F | 0x40
    made[8] = made[8] & 0x3F | 0x80
    return bytes(made)
