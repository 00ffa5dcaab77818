"""Ids of simulated topics: their names, filled up to 16 bytes, so that they can be read. Long names have a hash."""

from __future__ import annotations

from hashlib import blake2b

_BYTES = 16
_FILLING = "."
_names: dict[bytes, str] = {}  # of the ids that are no names


def topic_id(name: str) -> bytes:
    """The id of a topic of this name, in every world."""
    plain = name.encode()
    if len(plain) <= _BYTES and not name.endswith(_FILLING):
        return plain.ljust(_BYTES, _FILLING.encode())
    hashed = blake2b(plain, digest_size=_BYTES).digest()
    _names[hashed] = name
    return hashed


def topic_name(given: bytes) -> str:
    """The reverse."""
    return _names.get(given) or given.decode(errors="replace").rstrip(_FILLING)
