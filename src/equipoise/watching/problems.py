"""What could not be had: the newest error of each thing, of the newest things only.

What is had later is no problem any more.
"""

from __future__ import annotations

from equipoise.views.model import Problem
from equipoise.wire.errors import ErrorCode, KafkaError

MOST = 20  # a page that lists thousands tells nothing


class Problems:
    """By the thing that could not be had, the newest last."""

    def __init__(self) -> None:
        self._found: dict[str, Problem] = {}

    def note(self, what: str, error: Exception, otherwise: str = "") -> None:
        """An error. `otherwise`: what is said where it has no words of its own."""
        code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        self._found.pop(what, None)
        self._found[what] = Problem(what, code, str(error) or otherwise)
        while len(self._found) > MOST:
            del self._found[next(iter(self._found))]

    def had(self, what: str) -> None:
        """It was had after all."""
        self._found.pop(what, None)

    def had_all(self, beginning: str) -> None:
        """All things whose names begin so were had, or are asked for no more."""
        for what in [what for what in self._found if what.startswith(beginning)]:
            del self._found[what]

    @property
    def all(self) -> tuple[Problem, ...]:
        """The newest last."""
        return tuple(self._found.values())
