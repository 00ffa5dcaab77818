"""Which groups are asked about when: a console costs little, however many groups there are.

Groups that somebody looks at, and those that the source has told of, are asked about in every round. All others take
turns, as far as a purse of CPU time reaches: on a small cluster that is all of them in every round, on a large one each
has its turn once in a minute. Where the source tells of every commit, a group that has not committed is not asked about
in its turn: only the ends of its partitions are. Every view says of when it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.views.model import ClusterView, GroupView, Ms
from equipoise.watching.watcher import Watcher
from equipoise.wire.errors import EquipoiseError

SHARE = 0.012  # of a core, for questions and views of groups that nobody looks at
LISTED_MS = 15_000  # between two lists of all groups, where they are many
ENDS_MS = 15_000  # the age of an end that will do where groups are many, and nobody looks at this one
TURN_MS = 45_000  # between two turns of a group where groups are many: all have had theirs within a minute
STARTS_MS = 300_000
ASKED_MS = 300_000  # the age of members and commits that will do where the source would tell of others
_MANY = 100  # groups: fewer are listed in every round
_TOGETHER = 25  # groups between two looks into the purse
_NO_AGE = 0
_DEEPEST_S = 0.5  # what a purse holds at most, and what it may owe
Now = Callable[[], float]
Place = tuple[str, int]


class Purse:
    """CPU time to spend: a share of the time that passes comes in, and work takes out what it took."""

    def __init__(self, share: float = SHARE, *, now: Now = time.monotonic, spent: Now = time.process_time) -> None:
        self._share = share
        self._now, self._spent = now, spent
        self._at, self._paid = now(), spent()
        self._left = 0.0

    def fill(self) -> None:
        """What came in since the last time."""
        now = self._now()
        self._left = min(self._left + (now - self._at) * self._share, _DEEPEST_S)
        self._at = now

    def begin(self) -> None:
        """Work begins."""
        self._paid = self._spent()

    def pay(self) -> None:
        """Takes out what the work took since `begin`. A large debt is forgiven: other rounds follow."""
        self._left = max(self._left - (self._spent() - self._paid), -_DEEPEST_S)
        self._paid = self._spent()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing left."""
        return self._left <= 0


class Turns:
    """The order in which groups that nobody looks at are asked about: those that have waited longest first."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}  # when, by group, the longest ago first

    def keep(self, names: Collection[str]) -> None:
        """These groups there are. New ones come first."""
        wanted = set(names)
        for name in [name for name in self._asked if name not in wanted]:
            del self._asked[name]
        new = [name for name in names if name not in self._asked]
        if new:
            self._asked = {**dict.fromkeys(new, 0), **self._asked}

    def asked(self, names: Collection[str], at: int) -> None:
        """They were asked about, and go to the end."""
        for name in names:
            if self._asked.pop(name, None) is not None:
                self._asked[name] = at

    def next(self, before: int, most: int) -> list[str]:
        """Those who were last asked about before a time."""
        found: list[str] = []
        for name, at in self._asked.items():
            if at >= before or len(found) == most:
                break
            found.append(name)
        return found


class Rounds:
    """Rounds of questions of one watcher, and the views that come of them."""

    def __init__(self, watcher: Watcher, looked_at: Callable[[], Collection[str]], purse: Purse | None = None) -> None:
        self._watcher = watcher
        self._looked_at = looked_at
        self._purse = purse or Purse()
        self._last: ClusterView | None = None
        self._forget(is_new=False)
        self._begin_with_what_is_known()
        watcher.store.take_heard()  # what the past tells was looked at already

    def _begin_with_what_is_known(self) -> None:
        """The watcher has asked all questions when rounds begin."""
        names, places, now = self._store.group_ids, self._store.partitions(), self._watcher.now()
        self._turns.keep(names)
        self._turns.asked(names, now)
        self._asked_at |= dict.fromkeys(names, now)
        self._ends_at |= dict.fromkeys(places, now)
        if self._watcher.watched.starts:
            self._starts_at |= dict.fromkeys(places, now)

    def _forget(self, *, is_new: bool) -> None:
        """There is another store, or none was looked at yet. Of a new one nothing is shown before a round is over:
        it knows no groups yet."""
        self._store, self._is_new = self._watcher.store, is_new
        self._turns = Turns()
        self._views: dict[str, GroupView] = {}
        self._stale: set[str] = set()  # whose views are to be made anew
        self._heard: set[str] = set()  # that the source has told of since they were last asked about
        self._ends_at: dict[Place, int] = {}
        self._starts_at: dict[Place, int] = {}
        self._asked_at: dict[str, int] = {}
        self._listed_at: int | None = None

    # -- views

    def view(self) -> ClusterView:
        """What is known now: views of groups that nothing new is known of stay as they are."""
        self._hear()
        if self._is_new and self._last is not None:
            return self._last
        store, now = self._store, self._watcher.now()
        names = store.group_ids
        for name in names:
            if name in self._stale or name not in self._views:
                self._views[name] = store.view(name, now)
        self._stale.clear()
        for name in self._views.keys() - set(names):
            del self._views[name]
            self._asked_at.pop(name, None)
        self._last = self._watcher.view([self._views[name] for name in names])
        return self._last

    def _hear(self) -> None:
        if self._store is not self._watcher.store:
            self._forget(is_new=True)
        heard = self._store.take_heard()
        self._stale |= heard
        self._heard |= heard

    # -- questions

    async def keep_asking(self, interval: float) -> None:
        """A round in each interval. A cluster that is away is asked again; what was known stays, with its age."""
        while True:
            await asyncio.sleep(interval)
            try:
                await self.round(interval)
            except (EquipoiseError, OSError) as error:
                self._watcher.failed(error)

    async def round(self, interval: float) -> None:
        """First what somebody looks at, then the others in turn."""
        self._purse.fill()
        await self._watcher.look_around()
        began = self._watcher.now()
        self._hear()
        await self._list(began)
        wanted = self._heard | set(self._looked_at())
        self._heard.clear()
        await self._ask([name for name in self._store.group_ids if name in wanted], _NO_AGE)
        are_many = len(self._views) > _MANY
        before = began - (TURN_MS if are_many else round(interval * 500))
        while not self._purse.is_empty:
            batch = self._turns.next(before=before, most=_TOGETHER)
            if not batch:
                break
            await self._ask(batch, ENDS_MS if are_many else _NO_AGE, self._rests(batch, began))
        self._is_new = False
        await self._watcher.all_answered()

    async def _list(self, now: Ms) -> None:
        """A group that the source tells of, and no list has, is new."""
        before = set(self._store.group_ids)
        age = LISTED_MS if self._listed_at is None else now - self._listed_at
        if len(before) > _MANY and age < LISTED_MS and self._heard <= before:
            return
        await self._watcher.refresh_listings()
        self._listed_at = now
        names = self._store.group_ids
        self._turns.keep(names)
        self._heard |= set(names) - before

    def _rests(self, names: Sequence[str], now: int) -> set[str]:
        """Those whose members and commits are known, because the source would have told of others."""
        if not self._watcher.hears_commits:
            return set()
        fresh = [name for name in names if now - self._asked_at.get(name, -ASKED_MS) < ASKED_MS]
        return {name for name in fresh if self._store.rests(name)}

    async def _ask(self, names: Sequence[str], end_age: int, rests: Collection[str] = ()) -> None:
        """Members, commits, then ends: lag is never below 0."""
        if not names:
            return
        self._purse.begin()
        watcher = self._watcher
        now = watcher.now()
        asked = [name for name in names if name not in rests]
        if asked:
            for name in asked:
                self._asked_at.pop(name, None)  # whoever is not answered is asked about again
            await watcher.refresh_groups(asked)
            self._asked_at |= dict.fromkeys(asked, now)
        places = watcher.store.partitions(names)
        due = _older(self._ends_at, places, now - end_age)
        await watcher.refresh_offsets(due, LATEST, names)
        self._ends_at |= dict.fromkeys(due, now)
        due = _older(self._starts_at, places, now - STARTS_MS)
        await watcher.refresh_offsets(due, EARLIEST, names)
        self._starts_at |= dict.fromkeys(due, now)
        self._turns.asked(names, now)
        self._make(names, rests)
        self._purse.pay()

    def _make(self, names: Collection[str], rests: Collection[str]) -> None:
        """Views of groups that had their turn, while the purse pays for them."""
        store, now = self._store, self._watcher.now()
        if store is not self._watcher.store:
            return
        for name in names:
            before = self._views.get(name) if name in rests and name not in self._stale else None
            self._views[name] = (before and store.aged(before, now)) or store.view(name, now)
        self._stale.difference_update(names)


def _older(at: Mapping[Place, int], places: Collection[Place], than: int) -> list[Place]:
    """The places that were not asked about since a time."""
    return [one for one in places if at.get(one, than) <= than]
