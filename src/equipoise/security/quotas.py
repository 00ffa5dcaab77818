"""The arithmetic of quotas: which quota a client has, its rate, and for how long it is throttled. Pure: `now` comes in.

A quota is a bound on a rate: bytes per second, or per cent of the broker's time. The rate is measured over samples of
a second each. A client above its bound is told to wait until its rate, without new traffic, has fallen to the bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import sha256
from math import floor, inf
from typing import NamedTuple

from equipoise.security.client_quotas import CLIENT_ID, USER
from equipoise.security.state import Entity

_MAX_RATES = 10_000  # then those that have run out are dropped; Kafka forgets a client's after an hour
MOST_RATES = 50_000  # then the oldest are, though they count
_PURGE_MS = 1_000  # at most so often: each looks at all
_SHORT = 256  # letters of a client id that is kept; of a longer one its digest is


class Windows(NamedTuple):
    """Samples of a rate (quota.window.num, quota.window.size.seconds)."""

    samples: int = 11
    size_ms: int = 1000


class _Sample:
    __slots__ = ("last", "start", "value")

    def __init__(self, now: int) -> None:
        self.start = self.last = now
        self.value = 0.0


class Rate:
    """A sum over the last samples, by the time they take (Rate, SampledStat)."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now: int) -> None:
        """Counts something that has happened; a negative value takes it back."""
        if not self._samples or now - self._samples[-1].start >= self._windows.size_ms:
            self._samples.append(_Sample(now))
        sample = self._samples[-1]
        sample.value += value
        sample.last = now

    def measure(self, now: int) -> tuple[float, int]:
        """The rate in units per second, and the window in ms over which it was measured.

        The window has at least `samples - 1` whole samples: a first burst does not look like a high rate.
        """
        self._purge(now)
        count, size_ms = self._windows
        elapsed = now - self._samples[0].start if self._samples else 0
        missing = max(count - 1 - elapsed // size_ms, 0)
        window = max(elapsed + missing * size_ms, 1)
        return sum(sample.value for sample in self._samples) * 1000 / window, window

    def is_idle(self, now: int) -> bool:
        """Whether nothing of it counts any more."""
        self._purge(now)
        return not self._samples

    def _purge(self, now: int) -> None:
        age = self._windows.samples * self._windows.size_ms
        while self._samples and now - self._samples[0].last >= age:
            self._samples.popleft()


def throttle_time(rate: float, bound: float, window_ms: int) -> int:
    """X with rate x window / (window + X) = bound, in ms (QuotaUtils.throttleTime)."""
    return floor((rate - bound) / bound * window_ms + 0.5) if rate > bound else 0


class _Quota(NamedTuple):
    """A client's quota, and the name of the rate that it bounds: clients may share one."""

    bound: float
    shared_by: tuple[str, str]  # user and client id; empty: all of them


class QuotaManager:
    """The quotas of one key, and the rates of the clients that have one (ClientQuotaManager)."""

    def __init__(self, key: str, windows: Windows, longest_ms: float = inf) -> None:
        self.key = key
        self._windows = windows
        self._longest_ms = longest_ms
        self._bounds: Mapping[Entity, float] = {}
        self._found: dict[tuple[str, str], _Quota | None] = {}
        self._rates: dict[tuple[str, str], Rate] = {}
        self._purge_at = 0

    @property
    def is_enabled(self) -> bool:
        """Whether there is a quota of this key."""
        return bool(self._bounds)

    def update(self, bounds: Mapping[Entity, float]) -> None:
        """The quotas of the key have changed: they are these, from now on. Rates go on as they are."""
        self._bounds = bounds
        self._found.clear()
        if not self._bounds:
            self._rates.clear()

    def record(self, user: str, client_id: str, value: float, now: int) -> int:
        """Counts, and returns the ms for which the client is to be throttled (recordAndGetThrottleTimeMs)."""
        quota = self._quota_of(user, client_id)
        if quota is None:
            return 0
        measured = self._rate_of(quota, now)
        measured.record(value, now)
        rate, window = measured.measure(now)
        return int(min(throttle_time(rate, quota.bound, window), self._longest_ms))

    def unrecord(self, user: str, client_id: str, value: float, now: int) -> None:
        """Takes back what was counted and then not done."""
        quota = self._quota_of(user, client_id)
        if quota is not None:
            self._rate_of(quota, now).record(-value, now)

    def max_value_in_window(self, user: str, client_id: str) -> float:
        """What a client without recent traffic may have at once and not be throttled (maxValueInQuotaWindow)."""
        quota = self._quota_of(user, client_id) if self._bounds else None
        return inf if quota is None else quota.bound * (self._windows.samples - 1) * self._windows.size_ms / 1000

    def _quota_of(self, user: str, client_id: str) -> _Quota | None:
        client = user, _short(client_id)
        if client not in self._found:
            if len(self._found) >= _MAX_RATES:
                self._found.clear()
            candidates = _precedence(user, client_id)
            found = ((self._bounds[entity], name) for entity, name in candidates if entity in self._bounds)
            self._found[client] = next((_Quota(*one) for one in found), None)
        return self._found[client]

    def _rate_of(self, quota: _Quota, now: int) -> Rate:
        found = self._rates.get(quota.shared_by)
        if found is None:
            self._make_room(now)
            found = self._rates[quota.shared_by] = Rate(self._windows)
        return found

    def _make_room(self, now: int) -> None:
        """For one more rate: a client may call itself what it likes, each time anew."""
        if len(self._rates) >= _MAX_RATES and now >= self._purge_at:
            self._rates = {name: rate for name, rate in self._rates.items() if not rate.is_idle(now)}
            self._purge_at = now + _PURGE_MS
        if len(self._rates) >= MOST_RATES:
            del self._rates[next(iter(self._rates))]


def _short(client_id: str) -> str:
    if len(client_id) <= _SHORT:
        return client_id
    return sha256(client_id.encode("utf-8", "surrogatepass")).hexdigest()


def _precedence(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str, str]]]:
    """The entities whose quota a client may have, the nearest first, each with the clients that share the rate
    (ClientQuotaManager.DefaultQuotaCallback)."""
    name = _short(client_id)
    for user_name, client_name, shared_by in (
        ([user], [client_id], (user, name)),
        ([user], [None], (user, name)),
        ([user], [], (user, "")),
        ([None], [client_id], (user, name)),
        ([None], [None], (user, name)),
        ([None], [], (user, "")),
        ([], [client_id], ("", name)),
        ([], [None], ("", name)),
    ):
        clients = tuple((CLIENT_ID, one) for one in client_name)
        yield clients + tuple((USER, one) for one in user_name), shared_by
