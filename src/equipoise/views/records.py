"""Records for people: what a key or a value is, in one line that cannot harm a page or a terminal."""

from __future__ import annotations

import json
from typing import NamedTuple

from equipoise.wire.text import printable

LONGEST = 300  # letters of a key or a value
_MOST_BYTES = 1_024  # that are looked at


class Shown(NamedTuple):
    """A payload as it is shown: "null", "text", "JSON" or "hex"; its size in bytes tells what was cut."""

    kind: str
    text: str
    size: int


def shown(payload: bytes | None) -> Shown:
    """As JSON if it is an object or a list, as text if it is UTF-8 for people, as hexadecimal digits otherwise."""
    if payload is None:
        return Shown("null", "", 0)
    text = _decoded(payload)
    if text is None or any(letter < " " and letter not in "\t\r\n" for letter in text):
        return Shown("hex", printable(payload[:_MOST_BYTES].hex(" "), LONGEST), len(payload))
    return Shown("JSON" if _is_json(payload) else "text", printable(text, LONGEST), len(payload))


def _decoded(payload: bytes) -> str | None:
    """What is cut may end in the middle of a letter."""
    head = payload[:_MOST_BYTES]
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        if len(payload) == len(head) or error.start < len(head) - 3:
            return None
        return head[: error.start].decode()


def _is_json(payload: bytes) -> bool:
    if len(payload) > _MOST_BYTES or payload[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return True
