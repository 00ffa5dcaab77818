"""What hunts have found, each with its own test."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.console import words
from equipoise.coordinator.config import GroupConfig
from equipoise.simulate import World
from equipoise.simulate.hunt import run
from equipoise.simulate.scripts.runner import play
from equipoise.wire.errors import ErrorCode

INCREMENTAL = GroupConfig(group_initial_rebalance_delay_ms=0, group_rebalance_incremental="all")
FOUND = sorted(Path(__file__).with_name("found").glob("*.txt"))


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_the_shortest_schedule_of_a_broken_rule(file: Path) -> None:
    """Written by `equipoise simulate check --save`, and played anew when the rule held again."""
    script = file.read_text(encoding="utf-8")
    assert "\n".join(play(script, file.name, words)) + "\n" == script
    assert "broken:" not in script


def test_a_log_that_refuses_is_not_asked_again_without_a_pause() -> None:
    """A target that could not be written was computed and written anew at once, and so on: a busy loop."""
    world = World({"t": 4}, config=INCREMENTAL)
    for name in "ab":
        world.consumer(name, "cooperative-sticky").subscribe("t")
    world.settle()
    world.coordinator.hold_writes()
    world.set_topics({"t": 6})
    attempts = 0
    for _ in range(1_000):
        world.advance(1)
        attempts += len(world.coordinator.under_way)
        world.coordinator.fail_writes(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert 1 <= attempts <= 30
    world.coordinator.holds_writes = False
    world.coordinator.durable()
    world.tell_metadata()
    world.settle()


def test_the_schedule_that_never_ended() -> None:
    """As a seed drew it: schedules of later versions are others."""
    lines = Path(__file__).with_name("never_ended.txt").read_text(encoding="utf-8").splitlines()
    assert run(lines).failure is None
