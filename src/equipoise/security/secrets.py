"""Secrets that do not print: passwords, private keys, tokens."""

from __future__ import annotations

from typing import Any

_HIDDEN = "***"


class Secret:
    """Text that only `reveal` shows. It travels in pickles with its value, because executors need it.

    No subclass of str: every function that takes text (join, json, logging) would show it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return _HIDDEN

    def __format__(self, spec: str) -> str:
        return _HIDDEN

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._text,)


NO_SECRET = Secret()
