"""For tests: `Broker`, `Trigger`, the causes of rebalances, faults for `Broker.control`, and a
clock that a test moves on. The pytest fixtures are in `plugin.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.broker import Broker
    from equipoise.broker.clock import VirtualClock
    from equipoise.broker.control import Cut, Delay, Fail, Lose, Unheard
    from equipoise.coordinator.reasons import Trigger

__all__ = ["Broker", "Cut", "Delay", "Fail", "Lose", "Trigger", "Unheard", "VirtualClock"]

_load = importer(
    __name__,
    {"Broker": "equipoise.broker", "Trigger": "equipoise.coordinator.reasons", "VirtualClock": "equipoise.broker.clock"}
    | dict.fromkeys(("Cut", "Delay", "Fail", "Lose", "Unheard"), "equipoise.broker.control"),
)


def __getattr__(name: str) -> Any:
    return _load(name)
