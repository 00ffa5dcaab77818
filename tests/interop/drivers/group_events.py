"""What the members of a group tell, and what follows from it: who owns which partition, who has read what."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.interop.drivers.base import PATIENCE_S

Place = tuple[str, int]  # topic, partition
Row = tuple[str, int, int]  # topic, partition, offset

# Events in this order when their times are equal: who lets go comes before who takes.
RELEASES = ("stopped", "lost", "revoked", "killed")


class Event(NamedTuple):
    at: float  # on the machine's monotonic clock, which all processes share
    member: str
    kind: str  # one of RELEASES, or: assigned, records, refused (a commit), closed, assigning, error
    places: frozenset[Place] = frozenset()
    rows: tuple[Row, ...] = ()
    whole: bool = False  # assigned: this is all it has now
    error: str = ""


class Ledger:
    """All that was told. Members write from threads of their own, the test reads and waits."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def note(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Looks again after every event, and from time to time, for not every change is one."""
        end = time.monotonic() + PATIENCE_S
        while not is_so():
            self.check_errors()
            with self._changed:
                self._changed.wait(0.02)
            if time.monotonic() > end:
                tail = "\n".join(map(str, self.events[-30:]))
                raise AssertionError(f"not so within {PATIENCE_S:.0f} s: {what}\n{tail}")

    def check_errors(self) -> None:
        errors = [event for event in self.events if event.kind == "error"]
        assert not errors, errors

    def of(self, member: str, *kinds: str, since: int = 0) -> list[Event]:
        return [event for event in self.events[since:] if event.member == member and event.kind in kinds]

    def rebalances(self, member: str, since: int = 0) -> list[Event]:
        """Its callbacks that changed anything."""
        return [event for event in self.of(member, "assigned", "revoked", "lost", since=since) if event.places]

    def owned(self, member: str) -> frozenset[Place]:
        return _replay(event for event in self.events if event.member == member).get(member, frozenset())

    def read(self, since: int = 0) -> Counter[Row]:
        """How often each record was read."""
        return Counter(row for event in self.events[since:] for row in event.rows)

    def check_single_owners(self) -> None:
        """At no time had a partition two owners. A member that was killed owns nothing from then on."""
        ordered = sorted(self.events, key=lambda event: (event.at, event.kind not in RELEASES))
        _replay(ordered, exclusive=True)


def _replay(events: Iterable[Event], *, exclusive: bool = False) -> dict[str, frozenset[Place]]:
    owned: dict[str, frozenset[Place]] = {}
    for event in events:
        mine = owned.get(event.member, frozenset())
        if event.kind == "assigned":
            owned[event.member] = event.places | (frozenset() if event.whole else mine)
            if exclusive:
                _check_exclusive(owned, event)
        elif event.kind in ("revoked", "lost"):
            owned[event.member] = mine - event.places
        elif event.kind in RELEASES:
            owned[event.member] = frozenset()
    return owned


def _check_exclusive(owned: dict[str, frozenset[Place]], event: Event) -> None:
    for member, places in owned.items():
        common = places & owned[event.member]
        assert member == event.member or not common, f"{event.member} and {member} both own {sorted(common)}: {event}"
