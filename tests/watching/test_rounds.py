"""Who is asked about when: those that somebody looks at always, the others in turn, as far as the purse reaches."""

from __future__ import annotations

import asyncio

from equipoise.broker import Broker
from equipoise.client import Admin, Producer, TopicPartition
from equipoise.views.model import ClusterView, Ms
from equipoise.watching.access import Access
from equipoise.watching.rounds import Purse, Rounds, Turns
from equipoise.watching.watcher import Watched, Watcher, watching
from tests.watching.conftest import Join, Produce


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.spent = 0.0


def purse(clock: Clock, share: float = 0.01) -> Purse:
    return Purse(share, now=lambda: clock.now, spent=lambda: clock.spent)


def test_a_purse_fills_with_time_and_work_takes_out_what_it_took() -> None:
    clock = Clock()
    one = purse(clock)
    assert one.is_empty
    clock.now = 2.0
    one.fill()
    assert not one.is_empty  # 20 ms
    one.begin()
    clock.spent = 0.019
    one.pay()
    assert not one.is_empty
    clock.spent = 0.021
    one.pay()
    assert one.is_empty


def test_neither_wealth_nor_debt_is_without_end() -> None:
    clock = Clock()
    one = purse(clock)
    clock.now = 1e6
    one.fill()
    one.begin()
    clock.spent = 0.6
    one.pay()
    assert one.is_empty  # it held half a second at most
    one.begin()
    clock.spent = 100.0
    one.pay()
    clock.now += 51.0
    one.fill()
    assert not one.is_empty


def test_who_has_waited_longest_is_next_and_new_ones_come_first() -> None:
    turns = Turns()
    turns.keep(["a", "b", "c"])
    assert turns.next(before=10, most=2) == ["a", "b"]
    turns.asked(["a", "b"], 10)
    assert turns.next(before=10, most=5) == ["c"]
    turns.asked(["c"], 11)
    assert turns.next(before=11, most=5) == ["a", "b"]
    turns.keep(["d", "b", "c"])
    assert turns.next(before=20, most=5) == ["d", "b", "c"]


# -- on a broker


def watched(broker: Broker, looked_at: set[str], wealth: float) -> tuple[list[ClusterView], list[list[str]]]:
    """Two rounds after a look; the views after each, and which groups were asked about."""
    asked: list[list[str]] = []
    views: list[ClusterView] = []

    async def scenario() -> None:
        access = Access(bootstrap_servers=broker.bootstrap_servers)
        async with watching(access, Watched(since=Ms(0), starts=True)) as watcher:
            _note_questions(watcher, asked)
            await watcher.look()
            clock = Clock()
            rounds = Rounds(watcher, lambda: looked_at, purse(clock))
            views.append(rounds.view())
            for _ in range(2):
                clock.now += wealth * 100
                await rounds.round(0.0)
                asked.append(["-"])
                views.append(rounds.view())

    asyncio.run(scenario())
    return views, asked


def test_a_group_that_does_not_commit_is_not_asked_about_in_its_turn(
    broker: Broker, join: Join, produce: Produce
) -> None:
    """Its lag grows nevertheless: ends are asked for. Who commits is asked about in the next turn."""
    quiet, busy = join("billing", "worker"), join("reports", "reader")
    for one in (quiet, busy):
        one.commit({TopicPartition("orders", 0): 0})
    asked: list[list[str]] = []

    async def scenario() -> list[ClusterView]:
        access = Access(bootstrap_servers=broker.bootstrap_servers)
        async with watching(access, Watched(since=Ms(0))) as watcher:
            await watcher.begin()
            _note_questions(watcher, asked)
            _never_twice(watcher)
            clock = Clock()
            rounds = Rounds(watcher, set, purse(clock))
            async with watcher.live(interval=3_600):
                clock.now += 100
                await asyncio.to_thread(produce, 5)
                await rounds.round(0.0)
                views = [rounds.view()]
                await asyncio.to_thread(busy.commit, {TopicPartition("orders", 0): 3})
                while not watcher.store.totals("reports").commits:
                    await asyncio.sleep(0.01)
                clock.now += 100
                await rounds.round(0.0)
                return [*views, rounds.view()]

    before, after = asyncio.run(scenario())
    assert asked == [["reports"]]
    assert [one.lag.lag for one in before.groups] == [5, 5]
    assert [one.lag.lag for one in after.groups] == [5, 2]


def test_offsets_of_a_transaction_count_when_it_ends(broker: Broker, join: Join, produce: Produce) -> None:
    """Its end is no record: a group whose commits are pending is asked about until they count, and then no more."""
    place = TopicPartition("orders", 0)
    join("billing", "worker").commit({place: 0})
    produce(5)
    asked: list[list[str]] = []

    async def scenario() -> list[int | None]:
        access = Access(bootstrap_servers=broker.bootstrap_servers)
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="etl-1")
        async with watching(access, Watched(since=Ms(0))) as watcher:
            await watcher.begin()
            _note_questions(watcher, asked)
            _never_twice(watcher)
            clock = Clock()
            rounds = Rounds(watcher, set, purse(clock))

            async def lag() -> int | None:
                clock.now += 100
                await rounds.round(0.0)
                (view,) = rounds.view().groups
                return view.lag.lag

            async with watcher.live(interval=3_600):
                await asyncio.to_thread(producer.begin_transaction)
                await asyncio.to_thread(producer.send_offsets, {place: 3}, "billing")
                while not watcher.store.totals("billing").commits:
                    await asyncio.sleep(0.01)
                lags = [await lag(), await lag()]
                await asyncio.to_thread(producer.commit_transaction)
                lags += [await lag(), await lag()]
                await asyncio.to_thread(producer.close)
                return lags

    assert asyncio.run(scenario()) == [5, 5, 2, 2]
    assert asked == [["billing"]] * 3


def _never_twice(watcher: Watcher) -> None:
    """Each look at the clock shows a later time. A group that was asked about in a millisecond is not asked about again
    in it, nor while the machine's clock is set back."""
    last, now = watcher.now(), watcher.now

    def later() -> Ms:
        nonlocal last
        last = Ms(max(last + 1, now()))
        return last

    watcher.now = later


def _note_questions(watcher: Watcher, asked: list[list[str]]) -> None:
    ask = watcher.refresh_groups

    async def noting(names: list[str]) -> None:
        asked.append(sorted(names))
        await ask(names)

    watcher.refresh_groups = noting  # type: ignore[method-assign,assignment]


def test_with_enough_to_spend_all_are_asked_about_in_each_round(broker: Broker, join: Join) -> None:
    join("billing", "worker")
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {TopicPartition("orders", 0): 3})
    views, asked = watched(broker, set(), wealth=1.0)
    names = [name for names in asked for name in names if name != "-"]
    assert set(names) == {"billing", "reports"}
    assert [one.group_id for one in views[-1].groups] == ["billing", "reports"]
    before, after = views[0].groups[0], views[-1].groups[0]
    assert after.as_of >= before.as_of
    assert [one.log_start for one in after.partitions] == [0] * 4


def test_with_nothing_to_spend_only_what_is_looked_at_is_asked_about(broker: Broker, join: Join) -> None:
    join("billing", "worker")
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {TopicPartition("orders", 0): 3})
    views, asked = watched(broker, {"reports"}, wealth=0.0)
    last = asked[len(asked) - 1 - asked[::-1].index(["-"], 1) + 1 :]  # of the last round
    assert last[0] == ["reports"]
    assert views[-1].groups[0] is views[-2].groups[0]  # of billing, of which nothing new is known
    assert views[-1].groups[1] is not views[-2].groups[1]
