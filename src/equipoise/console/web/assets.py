"""The files that a browser gets. Their address holds a digest of them all, so they may be kept for ever."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file."""

    content_type: str
    body: bytes


@cache
def assets() -> dict[str, Asset]:
    """By name. Nothing outside this table can be asked for."""
    found = {}
    for one in sorted(files("equipoise.console.web").joinpath("static").iterdir(), key=lambda one: one.name):
        kind = next((kind for ending, kind in _TYPES.items() if one.name.endswith(ending)), None)
        if kind is not None:
            found[one.name] = Asset(kind, one.read_bytes())
    return found


@cache
def digest() -> str:
    """Changes with any of the files; modules that import each other stay of one version."""
    seen = sha256()
    for name, one in assets().items():
        seen.update(name.encode() + b"\0" + one.body + b"\0")
    return seen.hexdigest()[:16]


def address(name: str) -> str:
    """Where a page finds the file."""
    if name not in assets():
        raise KeyError(name)
    return f"/static/{digest()}/{name}"
