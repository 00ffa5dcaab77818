"""The story of rebalancing in five episodes, each a script that plays: docs/tour.md tells it."""

from __future__ import annotations

from importlib.resources import files

EPISODES = ("1-zookeeper", "2-eager", "3-static", "4-cooperative", "5-consumer")


def episode(number: int) -> str:
    """An episode, from 1 on."""
    return (files(__name__) / f"{EPISODES[number - 1]}.txt").read_text(encoding="utf-8")
