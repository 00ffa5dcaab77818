"""A scenario under each of several strategies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from equipoise.simulate.plan.classic import ClassicPlan
from equipoise.simulate.plan.consumer import ConsumerPlan
from equipoise.simulate.plan.costs import Planned
from equipoise.simulate.plan.scenarios import SCENARIOS
from equipoise.simulate.plan.settings import PlanSettings
from equipoise.wire.errors import UsageError


class Strategy(NamedTuple):
    """How the members of a group share its partitions."""

    is_consumer: bool = False
    is_cooperative: bool = False
    is_static: bool = False


STRATEGIES = {
    "eager": Strategy(),
    "cooperative": Strategy(is_cooperative=True),
    "static": Strategy(is_static=True),
    "static-cooperative": Strategy(is_cooperative=True, is_static=True),
    "consumer": Strategy(is_consumer=True),
    "static-consumer": Strategy(is_consumer=True, is_static=True),
}


def plan(scenario: str, strategies: Sequence[str], settings: PlanSettings) -> Iterator[Planned]:
    """The costs of each strategy. UsageError names a scenario or a strategy that there is not, or a setting."""
    if scenario not in SCENARIOS:
        raise UsageError(f"there is no scenario {scenario}; write one of {', '.join(SCENARIOS)}")
    if unknown := [name for name in strategies if name not in STRATEGIES]:
        raise UsageError(f"there is no strategy {unknown[0]}; write one of {', '.join(STRATEGIES)}")
    if min(settings.heartbeat_interval_ms, settings.consumer_heartbeat_interval_ms) < 1:
        raise UsageError("members send heartbeats: write 1ms or more between two of them")
    for name in strategies:
        yield _planned(name, scenario, settings)


def _planned(name: str, scenario: str, settings: PlanSettings) -> Planned:
    events, strategy = SCENARIOS[scenario](settings), STRATEGIES[name]
    last = events.happenings[-1].at
    if strategy.is_consumer:
        group: ConsumerPlan | ClassicPlan = ConsumerPlan(settings, events, is_static=strategy.is_static)
    else:
        group = ClassicPlan(settings, events, is_cooperative=strategy.is_cooperative, is_static=strategy.is_static)
    ended = group.run()
    length = max(ended, last + settings.session_timeout_ms)  # the same time for all, so that heartbeats compare
    group.count_beats(length)
    return Planned.of(name, group.costs, length)
