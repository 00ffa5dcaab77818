"""A broker for tests: the pytest fixture `broker`, or `from equipoise.testing import Broker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.broker import Broker

__all__ = ["Broker"]

_load = importer(__name__, {"Broker": "equipoise.broker"})


def __getattr__(name: str) -> Any:
    return _load(name)
