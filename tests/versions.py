"""Tests of a message in each of its versions. One test has all versions of a message: most of them take less time than
pytest takes for a test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Row = tuple[Any, int]  # a message, and a version of it


def in_each_version(name: str, rows: Iterable[Row], of: Callable[[Any], str]) -> Callable[..., Callable[..., None]]:
    """Runs a test with `version`, and with the message under this name, for all rows; `of` names a message."""
    versions: dict[Any, list[int]] = {}
    for message, version in rows:
        versions.setdefault(message, []).append(version)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def all_versions(*args: Any, **given: Any) -> None:
            for version in versions[given[name]]:
                try:
                    test(*args, version=version, **given)
                except BaseException as error:
                    error.add_note(f"in version {version}")
                    raise

        signature = inspect.signature(test)
        left = [one for one in signature.parameters.values() if one.name != "version"]
        all_versions.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        found: Callable[..., None] = pytest.mark.parametrize(name, list(versions), ids=of)(all_versions)
        return found

    return decorate
