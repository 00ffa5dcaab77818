"""The figures of one group over the time that was seen, for reports and for advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

Row = Mapping[str, Any]
EAGER = frozenset({"range", "roundrobin", "sticky"})
_SHORTEST_SPAN = timedelta(hours=1)  # what is seen for less says nothing of an hour
REJOINED = "rejoined with changed metadata"


@dataclass(frozen=True)
class Summary:
    """One group: its rows of every table."""

    group: str
    rebalances: Sequence[Row]  # in time, as all of these
    memberships: Sequence[Row]
    ownership: Sequence[Row]
    flapping: Sequence[Row]
    causes: Sequence[Row]
    lag: Sequence[Row]

    @cached_property
    def reasons(self) -> Counter[str]:
        """The number of rebalances for each reason."""
        return Counter(row["reason"] for row in self.rebalances)

    @cached_property
    def culprits(self) -> Counter[str]:
        """The number of rebalances that each client caused."""
        return Counter(row["cause_client"] for row in self.rebalances if row["cause_client"])

    @cached_property
    def span(self) -> tuple[datetime, datetime] | None:
        """The first and the last known time of the group. A group that still has members is observed until now."""
        times = [row[name] for row in (*self.rebalances, *self.memberships) for name in ("began", "ended") if row[name]]
        if any(row["ended"] is None for row in self.memberships):
            times += [row["at"] for row in self.lag[-1:]]
        return (min(times), max(times)) if times else None

    @property
    def seen_for(self) -> timedelta:
        """The time between the first and the last sign of the group."""
        return timedelta(0) if self.span is None else self.span[1] - self.span[0]

    @property
    def per_hour(self) -> float | None:
        """Rebalances per hour; None if the observed time is too short for a rate."""
        is_long = self.seen_for >= _SHORTEST_SPAN
        return len(self.rebalances) / (self.seen_for / timedelta(hours=1)) if is_long else None

    @property
    def protocols(self) -> list[str]:
        """The assignors in use, the newest first."""
        found = [row["protocol"] for row in self.rebalances if row["protocol"]]
        return list(dict.fromkeys(reversed(found)))

    @property
    def is_guessed(self) -> bool:
        """Whether the group has no journal, so that causes and durations are not known."""
        return bool(self.rebalances) and all(row["source"] != "journal" for row in self.rebalances)

    @property
    def duration_ms(self) -> int:
        """The time spent in rebalances, as far as durations are known."""
        return sum(row["duration_ms"] or 0 for row in self.rebalances)

    @property
    def longest_ms(self) -> int:
        """The longest rebalance, as far as durations are known."""
        return max((row["duration_ms"] or 0 for row in self.rebalances), default=0)

    @property
    def dark_ms(self) -> int:
        """The time that partitions had no owner while the group had members, summed over partitions."""
        return sum(row["dark_ms"] for row in self.flapping)

    @property
    def lag_now(self) -> int | None:
        """The lag of all partitions at the end of the log; None if no partition's is known."""
        known = [row["lag"] for row in self.lag if not row["is_estimate"] and row["lag"] is not None]
        return sum(known) if known else None

    def left(self, *why: str) -> list[Row]:
        """Memberships that ended for one of these reasons."""
        return [row for row in self.memberships if row["why_left"] in why]


def words(reason: str) -> str:
    """A reason in words. A subscription contains the owned partitions, so it changes mostly without new topics."""
    return REJOINED if reason == "subscription_changed" else reason.replace("_", " ")
