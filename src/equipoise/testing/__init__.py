"""For tests: `Broker`, and `Trigger`, the causes of rebalances. The pytest fixtures are in `plugin.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.broker import Broker
    from equipoise.coordinator.reasons import Trigger

__all__ = ["Broker", "Trigger"]

_load = importer(__name__, {"Broker": "equipoise.broker", "Trigger": "equipoise.coordinator.reasons"})


def __getattr__(name: str) -> Any:
    return _load(name)
