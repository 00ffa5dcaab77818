"""Things to be closed, as context managers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Closing:
    """`with` closes it."""

    @abstractmethod
    def close(self) -> None:
        """Releases what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
