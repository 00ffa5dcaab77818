"""A test of all versions runs each of them, and names the one that fails."""

from __future__ import annotations

import pytest

from tests.versions import in_each_version

SEEN: list[tuple[str, int]] = []


@in_each_version("message", [("a", 0), ("b", 3), ("a", 1)], str)
def test_each_version_has_its_turn(message: str, version: int) -> None:
    SEEN.append((message, version))
    assert [("a", 0), ("a", 1), ("b", 3)][: len(SEEN)] == SEEN


def test_the_version_that_fails_is_named() -> None:
    @in_each_version("message", [("a", 0), ("a", 1), ("a", 2)], str)
    def check(message: str, version: int) -> None:
        assert (message, version) != ("a", 1)

    with pytest.raises(AssertionError) as failed:
        check(message="a")
    assert failed.value.__notes__ == ["in version 1"]
