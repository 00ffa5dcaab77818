"""Worlds for tests of members: the coordinator waits for nobody, takes any session timeout, and is checked."""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.coordinator.config import GroupConfig
from equipoise.member import TopicPartition
from equipoise.simulate import Clock, Invariants, Observer, World


def places(*numbers: int) -> set[TopicPartition]:
    return {TopicPartition("t", number) for number in numbers}


def town(
    topics: Mapping[str, int] | None = None, *observers: Observer, clock: Clock | None = None, delay: int = 0
) -> World:
    config = GroupConfig(group_initial_rebalance_delay_ms=delay, group_min_session_timeout_ms=0)
    watching = [*observers, Invariants()]
    return World({"t": 3} if topics is None else topics, config=config, clock=clock, observers=watching)
