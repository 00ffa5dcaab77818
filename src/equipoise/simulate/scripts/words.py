"""What a script needs words for. `equipoise.console.words` has them; a world has none of its own."""

from __future__ import annotations

from typing import Protocol

from equipoise.coordinator.events import Event
from equipoise.coordinator.journal import Rebalance


class Words(Protocol):
    """The module `equipoise.console.words`, as far as scripts go."""

    def event(self, event: Event, /) -> str:
        """An event of a group, in a line."""

    def rebalance(self, entry: Rebalance, /) -> list[str]:
        """An entry of the journal."""

    def explain(self, entry: Rebalance, /) -> list[str]:
        """The same at length."""

    def duration(self, ms: int, /) -> str:
        """A span of time."""


class PlainWords:
    """Where nobody reads: values as they are."""

    def event(self, event: Event, /) -> str:
        """The value."""
        return repr(event)

    def rebalance(self, entry: Rebalance, /) -> list[str]:
        """The value."""
        return [repr(entry)]

    def explain(self, entry: Rebalance, /) -> list[str]:
        """The value."""
        return [repr(entry)]

    def duration(self, ms: int, /) -> str:
        """In milliseconds."""
        return f"{ms} ms"
