"""Random messages of any class and version, drawn from the class's own table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from equipoise.wire.apis import APIS
from equipoise.wire.schema import ZERO_UUID, Field, Message, Struct, WireType
from tests.versions import in_each_version

Overrides = Mapping[str, SearchStrategy[Any]]

# Lengths around 127 are where a uvarint takes a second byte.
_LONG = [126, 127, 128, 300]
_VALUES: dict[str, SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),  # NaN is not equal to itself
    "uuid": st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=4) | st.sampled_from(["n" * size for size in _LONG]),
    "bytes": st.binary(max_size=4) | st.sampled_from([b"\xff" * size for size in _LONG]),
    "records": st.binary(max_size=4) | st.sampled_from([b"\xff" * size for size in _LONG]),
}


MESSAGES: list[type[Message]] = [cls for api in APIS.values() for cls in (api.request, api.response)]


def each_version(classes: list[type[Message]]) -> list[tuple[type[Message], int]]:
    """All versions of the classes."""
    return [(cls, version) for cls in classes for version in range(cls.versions.first, cls.versions.last + 1)]


def of_messages(rows: list[tuple[type[Message], int]]) -> Callable[..., Callable[..., None]]:
    """Runs a test with `cls` and `version` for all rows."""
    return in_each_version("cls", rows, lambda cls: cls.__name__)


def messages(cls: type[Struct], version: int, overrides: Overrides | None = None) -> SearchStrategy[Any]:
    """Instances of `cls` whose fields outside `version` have their defaults; `overrides` are values by field name."""
    return _structs(cls, version, tuple((overrides or {}).items()))


@cache
def _structs(
    cls: type[Struct], version: int, overrides: tuple[tuple[str, SearchStrategy[Any]], ...]
) -> SearchStrategy[Any]:
    named = dict(overrides)
    fields = {
        name: named[name] if name in named else _values(row, version, overrides)
        for name, row in cls.fields.items()
        if version in row.versions
    }
    absent = {name: st.just(row.default) for name, row in cls.fields.items() if name not in fields and row.required}
    return st.builds(cls, **fields, **absent)


def _values(row: Field, version: int, overrides: tuple[tuple[str, SearchStrategy[Any]], ...]) -> SearchStrategy[Any]:
    values = _of_type(row.type, version, overrides)
    if version in row.nullable or (row.tag is not None and row.default is None):
        values = st.none() | values.filter(_tells_something)
    return values


def _of_type(
    type: WireType, version: int, overrides: tuple[tuple[str, SearchStrategy[Any]], ...]
) -> SearchStrategy[Any]:
    if isinstance(type, list):
        return st.lists(_of_type(type[0], version, overrides), max_size=2)
    return _VALUES[type] if isinstance(type, str) else _structs(type, version, overrides)


def _tells_something(value: Any) -> bool:
    """False for a struct of defaults only: in the tagged section other writers leave it out."""
    if not isinstance(value, Struct) or any(row.required for row in value.fields.values()):
        return True
    return value != type(value)()


def sample(cls: type[Struct], version: int) -> Any:
    """One fixed instance: a value in every field of `version`, two items in each array, no two numbers alike."""
    return cls(
        **{
            name: _sample(row.type, version, number) if version in row.versions else row.default
            for number, (name, row) in enumerate(cls.fields.items(), start=1)
        }
    )


def _sample(type: WireType, version: int, number: int) -> Any:
    if isinstance(type, list):
        return [_sample(type[0], version, number)] * 2
    if not isinstance(type, str):
        return sample(type, version)
    fixed = {"bool": True, "uuid": bytes(range(16)), "string": "né", "bytes": b"\0\xff", "records": b"\1\2\3"}
    return fixed.get(type, number)
