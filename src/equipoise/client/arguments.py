"""Checks of what applications pass to clients. A wrong value is refused at once, with words: on the way to the wire it
would be tried again and again, or mean something else."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime
from numbers import Real
from typing import Any

from equipoise.member.commits import OffsetAndMetadata
from equipoise.settings import INT_MAX, LEGAL_ID, LONG_MAX
from equipoise.wire.errors import UsageError

_LONGEST_S = threading.TIMEOUT_MAX / 2  # room for the clock, to which it is added
_MOST_TEXT = 2**15 - 1  # bytes of a text on the wire


def as_integer(what: str, value: object, low: int, high: int = LONG_MAX) -> int:
    """An integer within bounds, also one of numpy's. Text, fractions and truth values are none."""
    try:
        number = operator.index(value) if not isinstance(value, bool) else None  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None:
        raise UsageError(f"{what} is {value!r}: give an integer")
    if not low <= number <= high:
        raise UsageError(f"{what} is {number}: must be between {low} and {high}")
    return number


def as_topic(given: object) -> str:
    """The name of a topic. One that no topic can have would spoil the question for all others, or be asked for again
    and again."""
    if not isinstance(given, str) or not LEGAL_ID.fullmatch(given) or given in (".", ".."):
        raise UsageError(f"{given!r} is no topic: names have 1 to 249 letters, digits, dots, _ or -")
    return given


def as_offset(place: object, given: object) -> OffsetAndMetadata:
    """An offset to commit or to seek to, alone or with metadata (OffsetAndMetadata's constructor). A negative one
    would erase the commit at the coordinator: there it means that there is none."""
    at = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)  # type: ignore[arg-type]
    return OffsetAndMetadata(
        as_integer(f"the offset of {_named(place)}", at.offset, 0),
        _as_metadata(place, at.metadata),
        as_integer(f"the leader epoch of the offset of {_named(place)}", at.leader_epoch, -1, INT_MAX),
    )


def _as_metadata(place: object, given: object) -> str:
    text = "" if given is None else given
    if not isinstance(text, str):
        raise UsageError(f"the metadata of the offset of {_named(place)} is {text!r}: give text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"the metadata of the offset of {_named(place)} is no text: {error}") from None
    if size > _MOST_TEXT:
        raise UsageError(f"the metadata of the offset of {_named(place)} has {size} bytes: {_MOST_TEXT} are the most")
    return text


def as_timestamp(given: object) -> int:
    """Milliseconds since 1970, or a datetime. Negative times mean the ends of the log on the wire, so there are none,
    as in Java."""
    if isinstance(given, datetime):
        try:
            given = round(given.timestamp() * 1000)
        except (OverflowError, OSError, ValueError) as error:  # of years that the system cannot convert
            raise UsageError(f"{given} has no timestamp: {error}") from None
    return as_integer("the time", given, 0)


def as_seconds(what: str, given: object) -> float:
    """A time limit. One that is longer than a thread can wait is cut to what it can, as in Java the largest
    long can be given; a negative one is over at once."""
    if not isinstance(given, Real) or math.isnan(given):
        raise UsageError(f"{what} is {given!r}: give seconds")
    return min(max(float(given), 0.0), _LONGEST_S)


def as_names(what: str, given: object) -> list[str]:
    """Names, each once. A single text is refused: its letters would be taken for names."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise UsageError(f"{what} takes a list of names, not {given!r}: put names in brackets, also a single one")
    names = list(given)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise UsageError(f"{what} takes names, and {wrong[0]!r} is none: give text")
    return list(dict.fromkeys(names))


def as_mapping(what: str, given: object) -> Mapping[Any, Any]:
    """UsageError: a list, or whatever else has no values."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{what} takes a mapping with partitions as keys, not {type(given).__name__}")
    return given


def _named(place: object) -> str:
    return f"{place[0]}-{place[1]}" if isinstance(place, tuple) and len(place) == 2 else repr(place)
