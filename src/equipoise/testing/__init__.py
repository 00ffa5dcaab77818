"""A broker for tests: `from equipoise.testing import Broker`, or the pytest fixture `broker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """Imports the broker when it is asked for: pytest loads this package in every run on the machine."""
    if name == "Broker":
        from equipoise.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
