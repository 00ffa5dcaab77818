"""The recipes of docs/recipes.md with three clients: what the page says of each of them is so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from equipoise import Broker, Producer
from equipoise.testing import Trigger, VirtualClock
from tests.interop.polled import CLIENTS, GROUP, TOPIC, Polled, Refused, read, until

QUICK = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1_000}
Join = Callable[..., Polled]
INTERVAL_MS = {"confluent-kafka": 1_000}  # it looks at the interval, and at its heartbeats, every half second


@pytest.fixture
def orders() -> Iterator[Broker]:
    with Broker(QUICK, topics={TOPIC: 2}) as running:
        yield running


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def join(client: str) -> Join:
    """A member of the client by its client id, with settings of its own."""

    def open_it(broker: Broker, client_id: str, **settings: object) -> Polled:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return CLIENTS[client](broker.bootstrap_servers, client_id, named)

    return open_it


def share(*members: Polled) -> Callable[[], bool]:
    """Whether the members have both partitions, each as many as the others."""
    return lambda: all(one.assigned() == 2 / len(members) for one in members)


def produce(broker: Broker, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(TOPIC, value, partition=0)


def last_cause(broker: Broker) -> Trigger:
    return broker.groups[GROUP].rebalances[-1].cause.trigger


def test_a_rebalance_listener(orders: Broker, join: Join) -> None:
    produce(orders, b"one", b"two")
    with join(orders, "first") as first:
        first.is_careful = True
        assert read(first, 2) == [b"one", b"two"]
        with join(orders, "second") as second:
            until(share(first, second), first, second)
            until(lambda: len(first.heard) == 3, first, second)
            assert first.heard == [("assigned", 2), ("revoked", 2), ("assigned", 1)]
            assert second.committed() == 2


def test_a_max_poll_overrun(orders: Broker, join: Join, client: str) -> None:
    produce(orders, b"one")
    interval_ms = INTERVAL_MS.get(client, 200)
    with join(orders, "slow", session_timeout_ms=1_000, max_poll_interval_ms=interval_ms) as slow:
        assert read(slow, 1) == [b"one"]
        produce(orders, b"two")  # aiokafka's interval counts while records wait
        until(lambda: not orders.groups[GROUP].members)
        assert last_cause(orders) is Trigger.MEMBER_LEFT
        # aiokafka commits without a member id once it has heard of its leave, which a group without members takes, as
        # Kafka's does; before that it is refused.
        with suppress(Refused) if client == "aiokafka" else pytest.raises(Refused):
            slow.commit(0)
        with join(orders, "next") as following:
            assert read(following, 2) == [b"one", b"two"]
            with pytest.raises(Refused):
                slow.commit(1)
            until(share(slow, following), slow, following)
        assert slow.heard[:2] == [("assigned", 2), ("revoked" if client == "aiokafka" else "lost", 2)]
        assert ("_MAX_POLL_EXCEEDED" in slow.troubles) is (client == "confluent-kafka")


def test_a_zombie_that_cannot_commit(orders: Broker, join: Join) -> None:
    with join(orders, "zombie") as zombie:
        until(share(zombie), zombie)
        with orders.groups[GROUP].pause_heartbeats("zombie"):
            orders.groups[GROUP].expire("zombie")
            assert not orders.groups[GROUP].members
            assert last_cause(orders) is Trigger.SESSION_EXPIRED
            with join(orders, "heir") as heir:
                until(share(heir), heir)
                assert zombie.assigned() == 2
                with pytest.raises(Refused):
                    zombie.commit(7)
                assert heir.committed() is None


@pytest.mark.parametrize(("days", "first_read"), [(6, b"two"), (8, b"one")])
def test_offset_expiry(join: Join, days: int, first_read: bytes) -> None:
    clock = VirtualClock()
    with Broker(QUICK | {"log.retention.ms": -1}, topics={TOPIC: 2}, clock=clock) as broker:
        produce(broker, b"one")
        with join(broker, "a") as consumer:
            read(consumer, 1)
            consumer.commit()
        clock.advance(days=days)
        until(lambda: (GROUP in broker.groups) == (days < 7))
        produce(broker, b"two")
        with join(broker, "a") as consumer:
            assert read(consumer, 1)[0] == first_read


@pytest.mark.parametrize("is_static", [True, False])
def test_a_rolling_deploy(orders: Broker, join: Join, is_static: bool) -> None:
    def start(name: str) -> Polled:
        return join(orders, name, **({"group_instance_id": name} if is_static else {}))

    fleet = {name: start(name) for name in ("a", "b")}
    until(share(*fleet.values()), *fleet.values())
    before = orders.groups[GROUP]
    for name in ("a", "b"):
        fleet[name].close()
        fleet[name] = start(name)
        until(share(*fleet.values()), *fleet.values())
    after = orders.groups[GROUP]
    for one in fleet.values():
        one.close()
    assert (after.generation_id == before.generation_id) is is_static
    if is_static:
        assert after.owners == before.owners


def test_a_coordinator_that_dies_in_the_middle_of_a_join(join: Join) -> None:
    """The first does not hear of the join: aiokafka would join again in a task of its own."""
    with Broker(QUICK, brokers=3, topics={TOPIC: 2}) as broker, join(broker, "first") as first:
        until(share(first), first)
        first.commit(7)
        coordinator = broker.coordinator_of(GROUP)
        with broker.groups[GROUP].pause_heartbeats("first") as paused, join(broker, "second") as second:
            until(lambda: broker.groups[GROUP].state == "PreparingRebalance", second)
            broker.brokers[coordinator].kill()
            paused.end()
            until(share(first, second), first, second)
            assert broker.coordinator_of(GROUP) != coordinator
            assert second.committed() == 7


def test_a_lost_commit_answer(orders: Broker, join: Join) -> None:
    with join(orders, "a") as consumer:
        until(share(consumer), consumer)
        lost = orders.groups[GROUP].lose("OffsetCommit")
        consumer.commit(7)
        assert lost.hits == 1
        assert consumer.committed() == 7
