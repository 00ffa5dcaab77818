"""The lag of a group over time, small: a console keeps one for each of thousands of groups."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from equipoise.console.web.timeline import LagSample

SAMPLES = 720
_UNKNOWN = -1


class LagHistory:
    """The last samples, the oldest first."""

    __slots__ = ("_at", "_records")

    def __init__(self) -> None:
        self._at = array("q")
        self._records = array("q")

    def add(self, at: int, records: int | None) -> None:
        """A sample; the oldest one goes if there are too many."""
        if len(self._at) == SAMPLES:
            del self._at[0], self._records[0]
        self._at.append(at)
        self._records.append(_UNKNOWN if records is None else records)

    def clear(self) -> None:
        """Forgets all."""
        del self._at[:], self._records[:]

    @property
    def last_at(self) -> int | None:
        """When the newest was taken."""
        return self._at[-1] if self._at else None

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[LagSample]:
        return (
            LagSample(at, None if records == _UNKNOWN else records)
            for at, records in zip(self._at, self._records, strict=True)
        )

    def newest(self, count: int) -> list[LagSample]:
        """So many of the newest that are known, in time."""
        found = [LagSample(at, records) for at, records in zip(self._at, self._records, strict=True) if records >= 0]
        return found[-count:]
