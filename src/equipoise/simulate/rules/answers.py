"""Every request is answered, or its connection closed."""

from __future__ import annotations

from equipoise.simulate import messages
from equipoise.simulate.observer import Observer
from equipoise.simulate.world import World
from equipoise.wire.schema import Message

_PATIENCE_MS = 30_000  # the longest timeout of a request


class Answers(Observer):
    """A client that hears nothing until its own timeout was forgotten by its broker."""

    def __init__(self, world: World) -> None:
        self._world = world

    def unanswered(self, name: str, request: Message) -> None:
        """The broker had the request, and the connection was up. A broker that stands still answers nobody."""
        if self._world.now - self._world.coordinator.paused_until < _PATIENCE_MS:
            return
        raise AssertionError(f"{messages.api(request)} of {name} is never answered")
