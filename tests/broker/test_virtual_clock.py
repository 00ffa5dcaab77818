"""A broker whose time a test moves on: days pass in milliseconds, with real clients."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from equipoise import Broker, Consumer, Producer, TopicPartition
from equipoise.errors import UsageError
from equipoise.testing import Trigger, VirtualClock

PATIENCE_S = 20
ORDERS_0 = TopicPartition("orders", 0)
AT_ONCE = {"group.initial.rebalance.delay.ms": 0}


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.005)


def billing(broker: Broker) -> Consumer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "heartbeat.interval.ms": 100}
    return Consumer(settings)


def committed(broker: Broker) -> int | None:
    with billing(broker) as consumer:
        found = consumer.committed([ORDERS_0]).get(ORDERS_0)
        return None if found is None else found.offset


def test_offsets_of_an_empty_group_expire_after_a_week() -> None:
    clock = VirtualClock()
    with Broker(AT_ONCE, topics={"orders": 1}, clock=clock) as broker:
        with billing(broker) as consumer:
            consumer.commit({ORDERS_0: 5})
        clock.advance(days=6)
        assert committed(broker) == 5
        clock.advance(days=2)
        until(lambda: committed(broker) is None)
        assert "billing" not in broker.groups


def test_the_session_of_a_silent_member_ends() -> None:
    clock = VirtualClock()
    with Broker(AT_ONCE, topics={"orders": 1}, clock=clock) as broker, billing(broker) as consumer:
        consumer.subscribe(["orders"])
        until(lambda: consumer.poll(0.01) or consumer.assignment())
        (before,) = broker.groups["billing"].members
        clock.advance(minutes=1)
        until(lambda: consumer.poll(0.01) or before not in broker.groups["billing"].members)
        until(lambda: consumer.poll(0.01) or broker.groups["billing"].members)
        causes = [one.cause.trigger for one in broker.groups["billing"].rebalances]
        assert Trigger.SESSION_EXPIRED in causes


def test_records_are_deleted_when_they_are_too_old(tmp_path: Path) -> None:
    """A broker that is started again with the clock goes on at its time."""
    clock = VirtualClock()
    with Broker(data=tmp_path, topics={"orders": 1}, clock=clock) as broker:
        with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("orders", b"old")
        clock.advance(days=3)
    with Broker(data=tmp_path, clock=clock) as broker, billing(broker) as consumer:
        assert consumer.beginning_offsets([ORDERS_0]) == {ORDERS_0: 0}
        clock.advance(days=5)
        until(lambda: consumer.beginning_offsets([ORDERS_0]) == {ORDERS_0: 1})


def test_clear_refusals() -> None:
    clock = VirtualClock()
    with pytest.raises(UsageError, match="no broker runs with this clock"):
        clock.advance(seconds=1)
    with Broker(clock=clock):
        with pytest.raises(UsageError, match="time only moves forward"):
            clock.advance(seconds=-1)
        with pytest.raises(UsageError, match="a clock of its own"):
            Broker(clock=clock).start()
