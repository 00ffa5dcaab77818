"""The arithmetic of quotas, with the figures of Kafka's own tests (ClientQuotaManagerTest, RateTest)."""

from __future__ import annotations

from math import inf

import pytest

from equipoise.security.quotas import QuotaManager, Rate, Windows, throttle_time
from equipoise.security.state import Entity

KEY = "producer_byte_rate"


def entity(user: str | type | None = str, client: str | type | None = str) -> Entity:
    """Left out: the entity has no such type."""
    names = (("client-id", client), ("user", user))
    return tuple((kind, name) for kind, name in names if not isinstance(name, type))


def manager(bounds: dict[Entity, float], **options: float) -> QuotaManager:
    made = QuotaManager(KEY, Windows(), **options)
    made.update(bounds)
    return made


class TestMemory:
    """A client may call itself what it likes, each time anew."""

    def test_long_client_ids_are_not_kept(self) -> None:
        quotas = manager({entity(client=None): 10.0, entity(client="c" * 5000): 1000.0})
        for number in range(100):
            quotas.record("u", f"{number}" * 5000, 1000, 0)
        assert max(len(name) for kept in (quotas._found, quotas._rates) for _, name in kept) <= 64
        assert quotas.record("u", "7" * 5000, 1000, 0) > quotas.record("u", "new", 1000, 0) > 0
        assert quotas.record("u", "c" * 5000, 1000, 0) == 0, "its own quota is found by the whole name"

    def test_rates_are_bounded_and_looked_through_once_a_second(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("equipoise.security.quotas._MAX_RATES", 10)
        monkeypatch.setattr("equipoise.security.quotas.MOST_RATES", 30)
        looked_at: list[int] = []
        monkeypatch.setattr(Rate, "is_idle", lambda _, now: looked_at.append(now))
        quotas = manager({entity(client=None): 10.0})
        for number in range(100):
            quotas.record("u", f"c{number}", 1, number * 20)
        assert len(quotas._rates) == 30
        assert set(looked_at) == {200, 1200}


class TestRate:
    def test_a_first_burst_counts_over_ten_whole_samples(self) -> None:
        rate = Rate(Windows())
        rate.record(5000, 0)
        assert rate.measure(0) == (500, 10_000)
        assert rate.measure(500) == (5000 * 1000 / 10_500, 10_500)

    def test_a_sample_counts_as_long_as_it_overlaps_the_window(self) -> None:
        rate = Rate(Windows())
        rate.record(1000, 0)
        rate.record(1000, 999)  # in the same sample
        assert rate.measure(10_999)[1] == 10_999
        assert rate.measure(11_998)[1] == 11_998
        assert rate.measure(11_999) == (0, 10_000)
        assert rate.is_idle(11_999)

    def test_after_a_pause_it_begins_anew(self) -> None:
        rate = Rate(Windows())
        rate.record(10_000, 0)
        rate.record(100, 60_000)
        assert rate.measure(60_000) == (10, 10_000)


@pytest.mark.parametrize(
    ("rate", "bound", "window", "ms"),
    [(600, 500, 10_500, 2100), (500, 500, 10_000, 0), (501, 500, 250, 1), (1, 2, 1, 0)],
)
def test_throttle_time(rate: float, bound: float, window: int, ms: int) -> None:
    assert throttle_time(rate, bound, window) == ms


class TestThrottling:
    def test_a_spike_is_throttled_until_the_rate_is_within_the_bound(self) -> None:
        """testQuotaViolation: 400 each second for 10 s, then 2300 after half a second, with a bound of 500."""
        quotas, now = manager({entity(user="ANONYMOUS"): 500.0}), 0
        for _ in range(10):
            assert quotas.record("ANONYMOUS", "unknown", 400, now) == 0
            now += 1000
        now += 500
        assert quotas.record("ANONYMOUS", "unknown", 2300, now) == 2100
        for _ in range(11):  # until the sample of the spike is no longer counted
            now += 1000
            quotas.record("ANONYMOUS", "unknown", 400, now)
        assert quotas.record("ANONYMOUS", "unknown", 0, now) == 0

    def test_the_longest_throttle_of_a_request_quota_is_one_sample(self) -> None:
        quotas = manager({entity(user="a"): 1.0}, longest_ms=1000)
        assert quotas.record("a", "c", 1_000_000, 0) == 1000

    def test_what_is_taken_back_does_not_count(self) -> None:
        quotas = manager({entity(user="a"): 100.0})
        assert quotas.record("a", "c", 5000, 0) == 40_000
        quotas.unrecord("a", "c", 5000, 0)
        assert quotas.record("a", "c", 1000, 0) == 0

    def test_what_may_be_had_at_once_is_not_throttled(self) -> None:
        quotas = manager({entity(user="a"): 100.0})
        largest = quotas.max_value_in_window("a", "c")
        assert (largest, quotas.max_value_in_window("b", "c")) == (1000, inf)
        assert quotas.record("a", "c", largest, 0) == 0
        assert quotas.record("a", "c", 1, 0) == 10

    def test_who_has_no_quota_is_never_throttled(self) -> None:
        quotas = manager({entity(user="a"): 1.0})
        assert quotas.record("b", "c", 10**9, 0) == 0
        assert not manager({}).is_enabled

    def test_a_change_is_in_force_at_once_and_keeps_the_rate(self) -> None:
        quotas = manager({entity(user="a"): 100.0})
        quotas.record("a", "c", 900, 0)
        quotas.update({entity(user="a"): 50.0})
        assert quotas.record("a", "c", 0, 0) == 8000
        quotas.update({})
        assert quotas.record("a", "c", 10**9, 0) == 0


# The nearest first, with the bound of each.
LEVELS = {
    entity(user="a", client="c"): 1.0,
    entity(user="a", client=None): 2.0,
    entity(user="a"): 3.0,
    entity(user=None, client="c"): 4.0,
    entity(user=None, client=None): 5.0,
    entity(user=None): 6.0,
    entity(client="c"): 7.0,
    entity(client=None): 8.0,
}


@pytest.mark.parametrize("gone", range(9))
def test_precedence(gone: int) -> None:
    left = dict(list(LEVELS.items())[gone:])
    found = manager(left).max_value_in_window("a", "c")
    assert found == (10.0 * (gone + 1) if left else inf)


@pytest.mark.parametrize(
    ("quota", "other", "is_shared"),
    [
        (entity(user="a"), ("a", "d"), True),  # all clients of a user share its rate
        (entity(user=None), ("a", "d"), True),
        (entity(user=None), ("b", "c"), False),  # each user has its own
        (entity(user="a", client=None), ("a", "d"), False),
        (entity(user=None, client=None), ("b", "c"), False),
        (entity(client="c"), ("b", "c"), True),  # whoever uses the client id
        (entity(client=None), ("b", "c"), True),
        (entity(client=None), ("a", "d"), False),
    ],
)
def test_who_shares_a_rate(quota: Entity, other: tuple[str, str], is_shared: bool) -> None:
    quotas = manager({quota: 100.0})
    assert quotas.record("a", "c", 1000, 0) == 0
    assert bool(quotas.record(*other, 1, 0)) is is_shared


def test_clients_that_are_gone_take_no_memory() -> None:
    quotas = manager({entity(client=None): 100.0})
    for number in range(10_500):
        quotas.record("a", f"c{number}", 1, number * 10)
    assert len(quotas._rates) < 2000
    assert len(quotas._found) <= 10_000
