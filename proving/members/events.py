"""What the members of a group tell, and what follows from it: who owns which partition, who has read what."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from equipoise.wire.errors import EquipoiseError

PATIENCE_S = 120.0  # no step takes a tenth of it, unless the machine is very busy; who has not done by then never will
Place = tuple[str, int]  # topic, partition
Row = tuple[str, int, int]  # topic, partition, offset


class MemberError(EquipoiseError):
    """Members have not done what was expected of them, or one has failed."""


class Event(NamedTuple):
    at: float  # on the machine's monotonic clock, which all processes share
    member: str
    # assigned, revoked, lost, stopped, killed, closed, records, pausing, paused, committed, refused, assigning, error,
    # trouble: an error of which the application hears, and which does not end the member
    kind: str
    places: frozenset[Place] = frozenset()
    rows: tuple[Row, ...] = ()
    whole: bool = False  # assigned: this is all it has now
    error: str = ""


class Span(NamedTuple):
    """Time of ownership."""

    start: float
    end: float
    member: str


class Ledger:
    """All that was told. Members write from threads of their own, a scenario reads and waits."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.may_fail: set[str] = set()
        self._errors: list[Event] = []
        self._owned: dict[str, frozenset[Place]] = {}
        self._changed = threading.Condition()

    def note(self, event: Event) -> None:
        """Keeps up with who owns what: who waits asks after every event, and must not slow down what it looks at."""
        with self._changed:
            self.events.append(event)
            if event.kind == "error":
                self._errors.append(event)
            elif event.kind != "records":
                owned = self.owned(event.member)
                added = event.places if event.kind == "assigned" else frozenset()
                self._owned[event.member] = (owned - _given_up(event, owned)) | added
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
                raise MemberError(f"not so within {PATIENCE_S:.0f} s: {what}\n{tail}")

    def check_errors(self) -> None:
        for event in self._errors:
            if event.member not in self.may_fail:
                raise MemberError(f"{event.member} has failed: {event.error}")

    def of(self, member: str, *kinds: str, since: int = 0) -> list[Event]:
        return [event for event in self.events[since:] if event.member == member and event.kind in kinds]

    def owned(self, member: str) -> frozenset[Place]:
        """Who has paused owns nothing until the group gives it something again: others may have it meanwhile."""
        return self._owned.get(member, frozenset())

    def read(self, since: int = 0) -> Counter[Row]:
        """How often each record was read."""
        return Counter(row for event in self.events[since:] for row in event.rows)

    def read_by(self, members: set[str]) -> Counter[Row]:
        return Counter(row for event in self.events if event.member in members for row in event.rows)

    def committed(self) -> dict[Place, int]:
        """The offsets that members were told are committed: those of the records before. Only with `commit=sync`."""
        reached: dict[Place, int] = {}
        unsure: dict[str, tuple[Row, ...]] = {}
        for event in self.events:
            if event.kind == "records":
                unsure[event.member] = event.rows
            elif event.kind == "committed":
                for topic, partition, offset in unsure.pop(event.member, ()):
                    place = topic, partition
                    reached[place] = max(reached.get(place, 0), offset + 1)
        return reached

    def uncommitted(self) -> set[Row]:
        """Records that may have to be read again: those before a commit that was refused, and those of the killed."""
        found = set(self.read_by({event.member for event in self.events if event.kind == "killed"}))
        unsure: dict[str, tuple[Row, ...]] = {}
        for event in self.events:
            if event.kind == "records":
                unsure[event.member] = event.rows
            elif event.kind == "refused":
                found.update(unsure.get(event.member, ()))
        return found

    def check_single_owners(self) -> None:
        """At no time had a partition two owners. A member that was killed owns nothing from then on."""
        for place, spans in self.spans().items():
            for one, other in itertools.pairwise(sorted(spans)):
                if one.end > other.start:
                    raise MemberError(f"{place} had two owners at a time: {one}, {other}")

    def spans(self) -> dict[Place, list[Span]]:
        """By partition, who owned it from when to when. Ownership that took no time is none."""
        spans: dict[Place, list[Span]] = defaultdict(list)
        for member in {event.member for event in self.events}:
            since: dict[Place, float] = {}
            for event in [*self.events, Event(math.inf, member, "stopped")]:
                if event.member != member:
                    continue
                for place in _given_up(event, since.keys()):
                    spans[place].append(Span(since.pop(place), event.at, member))
                if event.kind == "assigned":
                    since = {**dict.fromkeys(event.places, event.at), **since}
        return {place: [span for span in found if span.start < span.end] for place, found in spans.items()}


def _given_up(event: Event, owned: Iterable[Place]) -> set[Place]:
    if event.kind in ("revoked", "lost"):
        return set(event.places & set(owned))
    gives_all = event.kind in ("stopped", "killed", "paused") or event.whole
    return set(owned) if gives_all else set()
