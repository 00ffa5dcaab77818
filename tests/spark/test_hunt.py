"""Nothing is lost, and nothing is read twice that must not be, whatever happens to whom and when."""

from __future__ import annotations

import pytest

from tests.spark.hunting import hunt


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hunt(seed: int) -> None:
    hunt(seed, 150)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("first", range(1_000, 1_400, 10))
def test_long_hunt(first: int) -> None:
    for seed in range(first, first + 10):
        hunt(seed, 300)
