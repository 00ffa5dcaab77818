"""Settings as tables: each row of a frozen dataclass is a setting with its Kafka name, default, bounds and description.

The Kafka name of a row is its attribute with dots for underscores. A value may be given as text. Unknown names, values
out of bounds and values of the wrong type are refused; the error names the setting.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
LEGAL_ID = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # of a topic, or a static member (Topic.validate)
_LONGEST_TEXT = 2**15 - 1  # bytes, in a request of the older versions
_LONGEST_LABEL = 64  # letters between two dots

Rows = dict[str, dataclasses.Field[Any]]


def setting(default: Any, doc: str, low: int | None = None, high: int = LONG_MAX, **more: Any) -> Any:
    """A row of the table. `choices` and `list_of` are the allowed words; a function is asked for them each time. A
    default of None is optional text; `is_sent`: it stands in requests."""
    return dataclasses.field(default=default, metadata={"doc": doc, "low": low, "high": high, **more})


def kafka_name(attribute: str) -> str:
    """The Kafka name of an attribute."""
    return attribute.replace("_", ".")


def rows_of(table: type) -> Rows:
    """Every setting by its Kafka name, in the order of the table."""
    return {kafka_name(row.name): row for row in dataclasses.fields(table)}


def parse_values(given: Mapping[str, object], rows: Rows, aliases: Iterable[str], document: str) -> dict[str, Any]:
    """Returns attributes and values. UsageError names the setting, and the nearest match or the document."""
    values = {}
    for name, value in given.items():
        if name not in rows:
            raise UsageError(f"unknown setting {name!r}{nearest(name, [*rows, *aliases], document)}")
        values[rows[name].name] = parse_value(name, value, rows[name])
    return values


def is_host(text: str) -> bool:
    """Whether a resolver can look the name up. Python's own error for others is a UnicodeError of its codec."""
    labels = text.removesuffix(".").split(".")
    return text.isprintable() and (":" in text or all(0 < len(label) < _LONGEST_LABEL for label in labels))


def nearest(name: str, known: Iterable[str], document: str) -> str:
    """The end of an error message about an unknown name."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; {document} lists the names"


def parse_value(name: str, value: object, row: dataclasses.Field[Any]) -> Any:
    """Converts text or a value to the type of the row's default, and checks its bounds."""
    if row.metadata.get("as_is") or (value is None and row.default is None):
        return value
    parsed = convert(name, value, str if row.default is None else type(row.default))
    if row.metadata.get("is_sent"):
        _check_sent(name, parsed)
    choices = row.metadata.get("choices")
    if row.metadata.get("in_capitals"):
        parsed = parsed.upper()
    if choices and parsed not in choices:
        raise UsageError(f"{name}={value}: must be one of {', '.join(map(str, choices))}")
    words = row.metadata.get("list_of")
    if words:
        return _words(name, str(parsed), words() if callable(words) else words)
    low, high = row.metadata["low"], row.metadata["high"]
    if low is not None and not low <= parsed <= high:
        raise UsageError(f"{name}={value}: must be between {low} and {high}")
    return parsed


def _check_sent(name: str, text: str) -> None:
    """A request with such a text could not be written, again and again."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{name}={text!r}: cannot be written in UTF-8") from None
    if size > _LONGEST_TEXT:
        raise UsageError(f"{name}: has {size} bytes; a request holds {_LONGEST_TEXT} at most")


def _words(name: str, text: str, allowed: tuple[str, ...]) -> str:
    words = [word.strip() for word in text.split(",")]
    if not set(words) <= set(allowed):
        raise UsageError(f"{name}={text}: must be one or more of {', '.join(allowed)}, with commas")
    return ",".join(dict.fromkeys(words))


def convert(name: str, value: object, kind: type) -> Any:
    """Converts text to a type. UsageError names the setting. Text of a secret is trimmed too, as Java does."""
    if isinstance(value, Secret):
        value = value.reveal()
        assert kind is Secret, f"{name} is no secret"
    text = str(value).strip()
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{name}={value}: must be true or false")
        return text.lower() == "true"
    if kind in (str, Secret):
        return kind(text)
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{name}={value}: must be a number") from None


def render(value: object) -> str:
    """A value as Kafka's tools write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
