"""Explanations of what real clients did, as golden transcripts: ids, times and spans are masked."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.coordinator.reasons import Trigger
from tests.commands import Command
from tests.console.groups.test_past import masked
from tests.watching.conftest import Join

PATIENCE_S = 60


@contextmanager
def process(broker: Broker, client_id: str) -> Iterator[subprocess.Popen[str]]:
    """A member of `billing` in a process of its own, which can be killed."""
    code = (
        "from equipoise.client import Consumer\n"
        f"with Consumer(bootstrap_servers={broker.bootstrap_servers!r}, group_id='billing',"
        f" client_id={client_id!r}, partition_assignment_strategy='range') as consumer:\n"
        "    consumer.subscribe(['orders'])\n"
        "    while True:\n"
        "        consumer.poll(0.1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for(broker: Broker, trigger: Trigger) -> str:
    """The generation of the rebalance that it caused, when it is over."""

    def found() -> list[int]:
        if "billing" not in broker.groups:
            return []
        return [one.generation for one in broker.groups["billing"].rebalances if one.cause.trigger is trigger]

    until(lambda: bool(found()))
    return str(found()[-1])


def explained(groups: Command, generation: str) -> list[str]:
    ended = groups("explain", "billing", generation)
    assert ended.status == 0, ended.err
    return [line for line in masked(ended.out).splitlines() if not line.startswith(("  advice", "  zone"))]


def test_a_member_leaves(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "one").close()
    lines = explained(groups, wait_for(broker, Trigger.MEMBER_LEFT))
    assert lines[1].startswith("  why      one-ID (client one, 127.0.0.1) left")
    assert lines[3:] == ["  ended    without members", "  moved    0 of 4 partitions; nobody has orders:0,1,2,3"]


def test_a_member_is_killed(groups: Command, broker: Broker, join: Join) -> None:
    survivor = join("billing", "one", partition_assignment_strategy="range")
    with process(broker, "two") as other:

        def both() -> bool:
            survivor.poll(0.02)
            return len(broker.groups["billing"].members) == 2 and broker.groups["billing"].state == "Stable"

        until(both)
        other.kill()

        def alone() -> bool:
            survivor.poll(0.02)
            return len(broker.groups["billing"].members) == 1 and broker.groups["billing"].state == "Stable"

        until(alone)
    lines = explained(groups, wait_for(broker, Trigger.CONNECTION_LOST))
    assert lines[1] == (
        "  why      two-ID (client two, 127.0.0.1) lost its connection and did not come back"
        " (silent for T, group.lost.connection.grace.ms=2000)"
    )
    assert lines[3].startswith("  moved    2 of 4 partitions: orders:")
    assert lines[3].endswith(" from two-ID to one-ID")
    assert lines[4].startswith("  dark     ")


def test_a_member_polls_too_late(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "slow", max_poll_interval_ms=500)
    lines = explained(groups, wait_for(broker, Trigger.MEMBER_LEFT))
    assert lines[1] == (
        '  why      slow-ID (client slow, 127.0.0.1) left, saying "poll() was not called for T (max.poll.interval.ms)"'
    )


def test_a_static_member_comes_back_with_another_assignor(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "first", group_instance_id="pod-1", partition_assignment_strategy="range,roundrobin").close()
    join("billing", "second", group_instance_id="pod-1", partition_assignment_strategy="roundrobin")
    lines = explained(groups, wait_for(broker, Trigger.STATIC_MEMBER_REPLACED))
    assert lines[1] == "  why      static member pod-1 came back as pod-1-ID (client first, 127.0.0.1)"


def test_a_topic_of_a_consumer_group_grows(groups: Command, broker: Broker, join: Join) -> None:
    consumer = join("billing", "one", group_protocol="consumer")
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("orders", 6)

    def grown() -> bool:
        consumer.poll(0.02)
        return len(consumer.assignment()) == 6

    until(grown)
    lines = explained(groups, wait_for(broker, Trigger.TOPICS_CHANGED))
    assert lines[0].startswith("Epoch ")
    assert lines[1] == "  why      topics that it reads were created, deleted or changed"
    assert any(line.startswith("  moved    2 of 6 partitions: orders:4,5 to ") for line in lines)
