"""A cluster that tests share lives as long as there are such tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proving.fetched import Unavailable
from proving.fixtures import Shared

WITH, MORE, WITHOUT = Path("with"), Path("more"), Path("without")
ITEMS: Any = [
    SimpleNamespace(path=WITH, fixturenames=["tmp_path", "cluster"]),
    SimpleNamespace(path=WITH, fixturenames=[]),
    SimpleNamespace(path=MORE, fixturenames=["cluster"]),
    SimpleNamespace(path=WITHOUT, fixturenames=["other"]),
]


def test_it_ends_before_a_file_that_does_not_need_it_and_is_started_again() -> None:
    seen: list[str] = []

    @contextmanager
    def make() -> Iterator[int]:
        seen.append("started")
        yield len(seen)
        seen.append("ended")

    shared = Shared("cluster", "a cluster", make)
    shared.ends_before(ITEMS[0], ITEMS)
    assert (shared.get(), shared.get()) == (1, 1)
    for following in (ITEMS[1], ITEMS[2]):
        shared.ends_before(following, ITEMS)
    assert (shared.get(), seen) == (1, ["started"])
    shared.ends_before(ITEMS[3], ITEMS)
    assert seen == ["started", "ended"]
    assert shared.get() == 3
    shared.ends_before(None, ITEMS)
    shared.close()
    assert seen == ["started", "ended"] * 2


def test_what_cannot_be_had_is_said_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Any:
        raise Unavailable("no Java")

    monkeypatch.setenv("EQUIPOISE_REQUIRE_KAFKA", "1")
    shared: Shared[None] = Shared("cluster", "a cluster", make)
    for _ in range(2):
        with pytest.raises(pytest.fail.Exception, match="a cluster: no Java"):
            shared.get()
    shared.ends_before(None, ITEMS)
