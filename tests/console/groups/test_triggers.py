"""Every trigger, produced by real clients that do the thing, as golden transcripts of `groups explain`.

The transcripts are in explanations/; --rewrite-transcripts renews them. Ids, times and spans are masked.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.reasons import Trigger
from equipoise.member.subscription import SubscriptionPattern
from equipoise.testing.plugin import QUICK
from tests.commands import Command
from tests.console.groups.test_explanations import until
from tests.console.groups.test_past import masked
from tests.watching.conftest import Join

DIRECTORY = Path(__file__).parent / "explanations"
GROUP = "billing"
SETTINGS = {**QUICK, "group.min.session.timeout.ms": 500, "group.consumer.regex.refresh.interval.ms": 10_000}
# What also differs from run to run: ids of members of the new protocol, and who waited for how long.
_MORE = ((r"\b[0-9A-Za-z_-]{22}\b", "UUID"), (r"[\d.,]+ (ms|s) for ", "T for "))
_MEMBER = """
import os, signal, time
from equipoise.client import Consumer
from equipoise.assignors.range import RangeAssignor

def lose_connections(*_):
    os.closerange(3, 1024)
    os.kill(os.getpid(), signal.SIGSTOP)

signal.signal(signal.SIGUSR1, lose_connections)

class Frozen(RangeAssignor):
    def assign(self, cluster, members):
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().assign(cluster, members)

with Consumer(group_id="billing", **{settings!r}, partition_assignment_strategy={assignor}) as consumer:
    consumer.subscribe(["orders"])
    while True:
        consumer.poll(0.1)
"""

Golden = Callable[[str, Rebalance], None]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def golden(groups: Command, pytestconfig: pytest.Config) -> Golden:
    """Compares the explanation of a rebalance with its transcript. Advice depends on what else has happened."""

    def check(name: str, rebalance: Rebalance) -> None:
        ended = groups("explain", GROUP, str(rebalance.generation))
        assert ended.status == 0, ended.err
        text = masked(ended.out)
        for pattern, instead in _MORE:
            text = re.sub(pattern, instead, text)
        text = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("  advice"))
        file = DIRECTORY / f"{name}.txt"
        if pytestconfig.getoption("--rewrite-transcripts"):
            DIRECTORY.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return check


@contextmanager
def process(broker: Broker, client_id: str, *, freezes: bool = False, **settings: object) -> Iterator[int]:
    """A member in a process of its own; its pid. `freezes`: as the leader it stops between join and sync."""
    given = {"bootstrap_servers": broker.bootstrap_servers, "client_id": client_id, **settings}
    code = _MEMBER.replace("{settings!r}", repr(given)).replace("{assignor}", "Frozen()" if freezes else "'range'")
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        try:
            yield running.pid
        finally:
            running.kill()


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


def test_a_member_joins_another(golden: Golden, broker: Broker, join: Join) -> None:
    first = join(GROUP, "one", partition_assignment_strategy="range")
    before = members(broker, 1, first)
    with process(broker, "two"):
        golden("a-member-joins", caused(broker, Trigger.MEMBER_JOINED, first, after=before))


def test_a_member_leaves_another(golden: Golden, broker: Broker, join: Join) -> None:
    first = join(GROUP, "one", partition_assignment_strategy="range")
    with process(broker, "two") as pid:
        members(broker, 2, first)
        os.kill(pid, signal.SIGINT)
        golden("a-member-leaves", caused(broker, Trigger.MEMBER_LEFT, first))


def test_a_member_is_killed(golden: Golden, broker: Broker, join: Join) -> None:
    first = join(GROUP, "one", partition_assignment_strategy="range")
    with process(broker, "two") as pid:
        members(broker, 2, first)
        os.kill(pid, signal.SIGKILL)
        golden("a-member-is-killed", caused(broker, Trigger.CONNECTION_LOST, first))


def test_a_member_loses_its_connection_and_lives(golden: Golden, broker: Broker, join: Join) -> None:
    """Its connections end without a word, and the process stands still."""
    first = join(GROUP, "one", partition_assignment_strategy="range")
    with process(broker, "two") as pid:
        members(broker, 2, first)
        os.kill(pid, signal.SIGUSR1)
        golden("a-connection-is-lost", caused(broker, Trigger.CONNECTION_LOST, first))


def test_a_member_falls_silent(golden: Golden, broker: Broker, join: Join) -> None:
    first = join(GROUP, "one", partition_assignment_strategy="range")
    with process(broker, "two", session_timeout_ms=1_000, heartbeat_interval_ms=200) as pid:
        members(broker, 2, first)
        os.kill(pid, signal.SIGSTOP)
        golden("a-session-expires", caused(broker, Trigger.SESSION_EXPIRED, first))


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
    with process(broker, "one", freezes=True, session_timeout_ms=30_000, max_poll_interval_ms=5_000):
        golden("a-sync-is-pending-too-long", caused(broker, Trigger.SYNC_EXPIRED))


def test_a_consumer_group_reconciles(golden: Golden, broker: Broker, join: Join) -> None:
    """The second member has partitions when the first has given them up."""
    first = join(GROUP, "one", group_protocol="consumer")
    before = members(broker, 1, first)
    settings = {"group_protocol": "consumer", "client_id": "two", "group_id": GROUP}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, **settings) as second:
        second.subscribe(["orders"])
        golden("a-consumer-group-reconciles", caused(broker, Trigger.MEMBER_JOINED, first, second, after=before))
