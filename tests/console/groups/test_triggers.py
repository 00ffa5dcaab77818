"""Every trigger, produced by real clients that do the thing, as golden transcripts of `groups explain`.

`golden` says where they are.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.reasons import Trigger
from equipoise.member.subscription import SubscriptionPattern
from equipoise.testing.plugin import QUICK
from tests.commands import Command
from tests.console.groups.golden import compare, until
from tests.console.groups.processes import process
from tests.watching.conftest import Join

GROUP = "billing"
SETTINGS = {**QUICK, "group.min.session.timeout.ms": 500, "group.consumer.regex.refresh.interval.ms": 10_000}
Golden = Callable[[str, Rebalance], None]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def golden(groups: Command, pytestconfig: pytest.Config) -> Golden:
    """Compares the explanation of a rebalance with its transcript."""

    def check(name: str, rebalance: Rebalance) -> None:
        ended = groups("explain", GROUP, str(rebalance.generation))
        assert ended.status == 0, ended.err
        compare(name, ended.out, pytestconfig)

    return check


def ended(broker: Broker, trigger: Trigger | None, *, after: int = 0) -> list[Rebalance]:
    """Rebalances that it caused and that are over; None: whatever the cause."""
    if GROUP not in broker.groups:
        return []
    found = [one for one in broker.groups[GROUP].rebalances if trigger in (None, one.cause.trigger)]
    return [one for one in found if one.ended is not None and one.generation > after]


def caused(broker: Broker, trigger: Trigger | None, *polled: Consumer, after: int = 0) -> Rebalance:
    """The last one, when there is one. Meanwhile the members are polled."""

    def there() -> bool:
        for one in polled:
            one.poll(0.02)
        return bool(ended(broker, trigger, after=after))

    until(there)
    return ended(broker, trigger, after=after)[-1]


def members(broker: Broker, count: int, *polled: Consumer) -> int:
    """Waits until the group rests with so many members; its generation."""

    def rests() -> bool:
        for one in polled:
            one.poll(0.02)
        if GROUP not in broker.groups:
            return False
        group = broker.groups[GROUP]
        return len(group.members) == count and group.state == "Stable" and bool(group.rebalances)

    until(rests)
    return broker.groups[GROUP].rebalances[-1].generation


class Pair(NamedTuple):
    """A consumer, and a process that is a member beside it."""

    first: Consumer
    pid: int


@pytest.fixture
def pair(broker: Broker, join: Join) -> Iterator[Callable[..., Pair]]:
    """Two members that rest; the second has these settings."""
    with ExitStack() as stack:

        def settled(**settings: Any) -> Pair:
            first = join(GROUP, "one", partition_assignment_strategy="range")
            pid = stack.enter_context(process(broker.bootstrap_servers, "two", **settings))
            members(broker, 2, first)
            return Pair(first, pid)

        yield settled


def test_a_member_joins_another(golden: Golden, broker: Broker, join: Join) -> None:
    first = join(GROUP, "one", partition_assignment_strategy="range")
    before = members(broker, 1, first)
    with process(broker.bootstrap_servers, "two"):
        golden("a-member-joins", caused(broker, Trigger.MEMBER_JOINED, first, after=before))


@pytest.mark.parametrize(
    ("name", "sent", "trigger"),
    [
        ("a-member-leaves", signal.SIGINT, Trigger.MEMBER_LEFT),
        ("a-member-is-killed", signal.SIGKILL, Trigger.CONNECTION_LOST),
        # Its connections end without a word, and the process stands still.
        ("a-connection-is-lost", signal.SIGUSR1, Trigger.CONNECTION_LOST),
    ],
)
def test_a_member_goes(
    golden: Golden, broker: Broker, pair: Callable[..., Pair], name: str, sent: signal.Signals, trigger: Trigger
) -> None:
    first, pid = pair()
    os.kill(pid, sent)
    golden(name, caused(broker, trigger, first))


def test_a_member_falls_silent(golden: Golden, broker: Broker, pair: Callable[..., Pair]) -> None:
    first, pid = pair(session_timeout_ms=1_000, heartbeat_interval_ms=200)
    os.kill(pid, signal.SIGSTOP)
    golden("a-session-expires", caused(broker, Trigger.SESSION_EXPIRED, first))


def test_the_last_member_leaves(golden: Golden, broker: Broker, join: Join) -> None:
    join(GROUP, "one").close()
    golden("the-last-member-leaves", caused(broker, Trigger.MEMBER_LEFT))


def test_a_member_polls_too_late(golden: Golden, broker: Broker, join: Join) -> None:
    first = join(GROUP, "one", partition_assignment_strategy="range")
    settings = {"partition_assignment_strategy": "range", "max_poll_interval_ms": 1_000, "group_id": GROUP}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, client_id="two", **settings) as late:
        late.subscribe(["orders"])
        members(broker, 2, first, late)
        golden("a-member-polls-too-late", caused(broker, Trigger.MEMBER_LEFT, first))


def test_a_static_member_is_replaced(golden: Golden, broker: Broker, join: Join) -> None:
    join(GROUP, "first", group_instance_id="pod-1", partition_assignment_strategy="range,roundrobin").close()
    join(GROUP, "second", group_instance_id="pod-1", partition_assignment_strategy="roundrobin")
    golden("a-static-member-is-replaced", caused(broker, Trigger.STATIC_MEMBER_REPLACED))


def test_a_pattern_matches_a_new_topic(golden: Golden, broker: Broker, join: Join) -> None:
    member = join(GROUP, "one", metadata_max_age_ms=200)
    before = members(broker, 1, member)
    member.subscribe(pattern="^orders")
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders-returned", 2)
    golden("a-pattern-matches", caused(broker, Trigger.SUBSCRIPTION_CHANGED, member, after=before))


def test_a_pattern_of_the_broker_matches_a_new_topic(golden: Golden, broker: Broker, topic: str) -> None:
    settings = {"group_protocol": "consumer", "client_id": "one", "group_id": GROUP}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **settings) as member:
        member.subscribe(SubscriptionPattern("orders.*"))
        before = members(broker, 1, member)
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders-returned", 2)
        golden("a-pattern-of-the-broker-matches", caused(broker, None, member, after=before))


def test_partitions_are_added(golden: Golden, broker: Broker, join: Join) -> None:
    """The leader of a classic group notices."""
    member = join(GROUP, "one", metadata_max_age_ms=200)
    before = members(broker, 1, member)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("orders", 6)
    golden("partitions-are-added", caused(broker, None, member, after=before))


def test_partitions_are_added_to_a_consumer_group(golden: Golden, broker: Broker, join: Join) -> None:
    member = join(GROUP, "one", group_protocol="consumer")
    members(broker, 1, member)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("orders", 6)
    golden("partitions-are-added-to-a-consumer-group", caused(broker, Trigger.TOPICS_CHANGED, member))


def test_a_leader_never_asks_for_its_assignment(golden: Golden, broker: Broker, topic: str) -> None:
    with process(broker.bootstrap_servers, "one", freezes=True, session_timeout_ms=30_000, max_poll_interval_ms=5_000):
        golden("a-sync-is-pending-too-long", caused(broker, Trigger.SYNC_EXPIRED))


def test_a_consumer_group_reconciles(golden: Golden, broker: Broker, join: Join) -> None:
    """The second member has partitions when the first has given them up."""
    first = join(GROUP, "one", group_protocol="consumer")
    before = members(broker, 1, first)
    settings = {"group_protocol": "consumer", "client_id": "two", "group_id": GROUP}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **settings) as second:
        second.subscribe(["orders"])
        golden("a-consumer-group-reconciles", caused(broker, Trigger.MEMBER_JOINED, first, second, after=before))
