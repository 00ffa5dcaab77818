"""Random histories of incremental groups, and all that must hold after every step. Rule C9."""

from __future__ import annotations

import pytest

from equipoise.assignors import ASSIGNORS
from equipoise.simulate.world import GROUP
from tests.effort import examples
from tests.incremental.hunting import IncrementalHunt

STEPS = 40


def run(hunt: IncrementalHunt) -> None:
    for _ in range(STEPS):
        hunt.step()
    hunt.settle()


@pytest.mark.parametrize("debounce_ms", [0, 100])
@pytest.mark.parametrize("seed", range(examples(25)))
def test_cooperative_members(seed: int, debounce_ms: int) -> None:
    hunt = IncrementalHunt(seed, debounce_ms=debounce_ms)
    run(hunt)
    assert GROUP in hunt.world.shard.consumer_groups


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("seed", range(100, 100 + examples(10)))
def test_members_of_every_assignor(seed: int, assignor: str) -> None:
    run(IncrementalHunt(seed, assignor))


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
@pytest.mark.parametrize("seed", range(200, 200 + examples(20)))
def test_members_that_die_stand_still_and_are_late(seed: int, assignor: str) -> None:
    run(IncrementalHunt(seed, assignor, is_rough=True))


@pytest.mark.parametrize("seed", range(300, 300 + examples(25)))
def test_with_members_of_the_consumer_protocol(seed: int) -> None:
    run(IncrementalHunt(seed, is_mixed=True))
