"""Records to send, from the lines of a file: the lines themselves, or JSON objects. An error names the line."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeGuard

from equipoise.wire.errors import UsageError

BASE64 = "_base64"  # behind a name: its bytes, which are no text
_BYTES = ("value", "key", "headers")
_NAMES = (*_BYTES, "partition", "timestamp")
_IGNORED = ("type", "topic", "offset")  # `consume --json` prints them: where the record was, not where it goes
_HEADERS = '{"name": "value"}, or ["name", "value"] for each in a list'
_TIME = "milliseconds since 1970, or a time (2026-01-31T08:00:00Z)"
_SHOWN = 60  # letters of a value in an error: it may be long, and the error is one line
Pairs = tuple[tuple[str, bytes | None], ...]


class InputRow(NamedTuple):
    """A record to be sent. `line`: where it stands in the input, counted from 1."""

    line: int
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Pairs = ()
    timestamp: int | None = None


def rows_of_lines(lines: Iterable[bytes], separator: str | None) -> Iterator[InputRow]:
    """A value from each line; before the first separator, if it is there, stands the key."""
    for count, line in enumerate(lines, 1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if separator is None:
            yield InputRow(count, text)
            continue
        key, found, value = text.partition(bytes_of(separator))
        yield InputRow(count, value, key) if found else InputRow(count, text)


def bytes_of(argument: str) -> bytes:
    """An argument in UTF-8. What is none comes as it was typed."""
    return argument.encode(errors="surrogateescape")


def rows_of_json(lines: Iterable[bytes]) -> Iterator[InputRow]:
    """A record from each object, as people write it or as `consume --json` prints it. UsageError names the line."""
    for count, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _row(count, _object(line))
            except UsageError as error:
                raise UsageError(f"line {count} of the input {error}") from None


def _object(line: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):  # no JSON, no text, or arrays in arrays without end
        found = None
    if not isinstance(found, dict):
        raise UsageError('is no JSON object, for instance {"key": "7", "value": "x"}')
    return found


def _row(count: int, found: Mapping[str, Any]) -> InputRow:
    for name in found:
        if name not in (*_NAMES, *_IGNORED) and name.removesuffix(BASE64) not in _BYTES:
            raise UsageError(f"has the unknown name {name!r}; {_advice(name)}")
    return InputRow(
        count,
        _bytes_of(found, "value"),
        _bytes_of(found, "key"),
        _partition(found.get("partition")),
        _headers_of(found),
        _timestamp(found.get("timestamp")),
    )


def _advice(name: str) -> str:
    near = get_close_matches(name, _NAMES, n=1)
    return f"did you mean {near[0]!r}?" if near else f"write {', '.join(_NAMES)}"


def _bytes_of(found: Mapping[str, Any], name: str) -> bytes | None:
    coded = found.get(name + BASE64)
    return _bytes(name, found.get(name)) if coded is None else _of_base64(name + BASE64, coded)


def _of_base64(name: str, value: object) -> bytes | None:
    try:
        return None if value is None else b64decode(value, validate=True)  # type: ignore[arg-type]  # checked here
    except (TypeError, ValueError):
        raise _wrong(name, value, "bytes in base64") from None


def _bytes(name: str, value: object) -> bytes | None:
    """Text as it is; anything else as JSON."""
    if value is None:
        return None
    if not isinstance(value, str):
        return _json_of(name, value)
    _check_text(name, value)
    return value.encode()


def _json_of(name: str, value: object) -> bytes:
    """Python reads more numbers than JSON has: NaN, and what is too large for a float."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        raise _wrong(name, value, "numbers that JSON can hold") from None


def _check_text(name: str, text: str) -> None:
    """JSON can hold half a surrogate pair, which UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _wrong(name, text, "text without half a surrogate pair") from None


def _partition(value: object) -> int | None:
    if value is None:
        return None
    if not _is_whole(value):
        raise _wrong("partition", value, "a whole number, 0 or more")
    return value


def _headers_of(found: Mapping[str, Any]) -> Pairs:
    coded = found.get("headers" + BASE64)
    if coded is None:
        return _headers("headers", found.get("headers"), _bytes)
    return _headers("headers" + BASE64, coded, _of_base64)


def _headers(option: str, value: object, decoded: Callable[[str, object], bytes | None]) -> Pairs:
    """An object, or pairs: a record can have several headers of one name."""
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(_is_pair(one) for one in pairs):
        raise _wrong(option, value, _HEADERS)
    for name, _ in pairs:
        _check_text(option, name)
    return tuple((name, decoded(option, content)) for name, content in pairs)


def _is_pair(one: object) -> bool:
    return isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[0], str)


def _timestamp(value: object) -> int | None:
    """None: the producer's own time. A time before 1970 is refused as by Kafka (ProducerRecord)."""
    if value is None:
        return None
    found = _parsed(value) if isinstance(value, str) else value
    if not _is_whole(found):
        raise _wrong("timestamp", value, _TIME)
    return found


def _parsed(text: str) -> int | None:
    """Without a zone it is local time, as in options."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):  # no time, or none that the system's clock can have
        return None


def _is_whole(value: object) -> TypeGuard[int]:
    """A number of the wire's 64 bits that is not negative. `true` is none, though Python counts it as 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _wrong(name: str, value: object, expected: str) -> UsageError:
    shown = json.dumps(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return UsageError(f"has {name} {shown}; write {expected}")
