"""Parts of a page as they were rendered last."""

from __future__ import annotations

from collections.abc import Callable


class Kept:
    """Of one page. A part whose subject is the same is not rendered again: a group that is looked at is looked after
    every two seconds, and most of its page stays as it is."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[object, str]] = {}

    def part(self, name: str, subject: object, render: Callable[[], str]) -> str:
        """The part, made of this subject."""
        found = self._parts.get(name)
        if found is None or found[0] != subject:
            found = self._parts[name] = (subject, render())
        return found[1]
