"""Views as JSON has them: the dataclasses are the schema.

Field names are the model's. Times are ISO 8601 in UTC with milliseconds, spans are numbers that end in `_ms`. What is
unknown is null: never absent, and never 0. The cause of a rebalance stands under `cause`, a conclusion under `guess`;
the other is null.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any

from equipoise.coordinator.reasons import Cause
from equipoise.views.model import Guess, Ms, RebalanceView

_TIMES = ("Ms", "Ms | None")
_LAST_MS = 253_402_300_799_999  # of the year 9999


def plain(value: Any) -> Any:
    """A view, or any value in one, as values that JSON knows."""
    if isinstance(value, RebalanceView):
        return _rebalance(value)
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name.lower()
    if isinstance(value, Cause | Guess) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def iso(at: Ms) -> str:
    """A time with milliseconds, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of_record(at: Ms) -> str | Ms | None:
    """Producers choose it. None: there is none (-1). What no calendar has, such as microseconds, stays a number."""
    if at < 0:
        return None
    return iso(at) if at <= _LAST_MS else at


def _fields(view: Any) -> dict[str, Any]:
    found = {}
    for name, is_time in _names(view.__class__):
        value = getattr(view, name)
        found[name] = iso(value) if is_time and value is not None else plain(value)
    return found


@cache
def _names(kind: type) -> tuple[tuple[str, bool], ...]:
    return tuple((one.name, one.type in _TIMES) for one in dataclasses.fields(kind))


def _rebalance(view: RebalanceView) -> dict[str, Any]:
    found = _fields(view)
    is_guess = isinstance(view.cause, Guess)
    found["cause"] = None if is_guess else found["cause"]
    return found | {"guess": plain(view.cause) if is_guess else None, "duration_ms": view.duration_ms}
