"""confluent-kafka with `group.protocol=consumer` on a broker of ours: join, leave, restart, growth, commits, crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from equipoise.broker import Broker
from equipoise.coordinator.reasons import Trigger

WITHIN_S = 30.0


@contextmanager
def consumers(broker: Broker) -> Iterator[Callable[..., Consumer]]:
    """Makes members of group g, and closes those that are open at the end."""
    made: list[Consumer] = []

    def make(name: str, **settings: Any) -> Consumer:
        known = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer({**known, **{key.replace("_", "."): value for key, value in settings.items()}})
        consumer.subscribe(["t"])
        made.append(consumer)
        return consumer

    try:
        yield make
    finally:
        for consumer in made:
            consumer.close()


def until(condition: Callable[[], bool], *polled: Consumer, values: set[bytes] | None = None) -> None:
    """Polls until it holds; `values` takes what comes meanwhile."""
    ends = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < ends, "in vain"
        for consumer in polled:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None and (value := message.value()) is not None:
                (set() if values is None else values).add(value)


def numbers(consumer: Consumer) -> set[int]:
    return {one.partition for one in consumer.assignment()}


def shared(count: int, *members: Consumer) -> Callable[[], bool]:
    """Whether the members have all partitions, each its share."""

    def check() -> bool:
        held = [numbers(member) for member in members]
        return sorted(number for one in held for number in one) == list(range(count)) and all(held)

    return check


def test_members_join_read_commit_and_leave() -> None:
    with Broker(topics={"t": 6}) as broker, consumers(broker) as make:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(60):
            producer.produce("t", str(number).encode(), partition=number % 6)
        producer.flush()
        values = set[bytes]()
        a = make("a")
        until(shared(6, a), a, values=values)
        b = make("b")
        until(shared(6, a, b), a, b, values=values)
        until(lambda: len(values) == 60, a, b, values=values)
        a.commit(asynchronous=False)
        assert {one.offset for one in a.committed(a.assignment())} == {10}
        group = broker.groups["g"]
        assert (group.state, {one.client_id for one in group.members}) == ("Stable", {"a", "b"})
        assert set(group.owners.values()) == {"a", "b"}
        b.close()
        until(shared(6, a), a)
        triggers = [entry.cause.trigger for entry in broker.groups["g"].rebalances]
        assert triggers == [Trigger.MEMBER_JOINED, Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT]


def test_a_static_member_restarts_without_a_move() -> None:
    with Broker(topics={"t": 4}) as broker, consumers(broker) as make:
        a, s = make("a"), make("s", group_instance_id="i")
        until(shared(4, a, s), a, s)
        had, epoch = numbers(s), broker.groups["g"].generation_id
        s.close()
        back = make("s", group_instance_id="i")
        until(shared(4, a, back), a, back)
        assert (numbers(back), broker.groups["g"].generation_id) == (had, epoch)


def test_partitions_that_are_added_are_assigned() -> None:
    with Broker(topics={"t": 2}) as broker, consumers(broker) as make:
        a, b = make("a"), make("b")
        until(shared(2, a, b), a, b)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for future in admin.create_partitions([NewPartitions("t", 6)]).values():
            future.result()
        until(shared(6, a, b), a, b)
        assert {len(numbers(a)), len(numbers(b))} == {3}


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_the_admin_client_describes_the_group(assignor: str) -> None:
    with Broker(topics={"t": 3}) as broker, consumers(broker) as make:
        a = make("a", group_remote_assignor=assignor)
        until(shared(3, a), a)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        (future,) = admin.describe_consumer_groups(["g"]).values()
        found = future.result()
        assert (found.state.name, found.partition_assignor) == ("STABLE", assignor)
        (member,) = found.members
        assert sorted(one.partition for one in member.assignment.topic_partitions) == [0, 1, 2]
        listed = admin.list_consumer_groups().result()
        assert [one.group_id for one in listed.valid] == ["g"]


def test_a_broker_that_restarts_keeps_the_group(tmp_path: Any) -> None:
    """Members, epochs, partitions and commits are what they were; the members hear of nothing, and go on."""
    called: list[str] = []

    def note(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        called.append(f"{sorted(one.partition for one in partitions)}")

    with Broker(topics={"t": 4}, data=tmp_path) as broker:
        address = broker.bootstrap_servers
        with consumers(broker) as make:
            a, b = make("a"), make("b")
            for one in (a, b):
                one.subscribe(["t"], on_assign=note, on_revoke=note, on_lost=note)
            until(shared(4, a, b), a, b)
            until(lambda: broker.groups["g"].state == "Stable", a, b)
            for one in (a, b):
                one.commit(offsets=[TopicPartition("t", number, 7) for number in numbers(one)], asynchronous=False)
            before, held, heard = broker.groups["g"], (numbers(a), numbers(b)), list(called)
            broker.__exit__(None, None, None)
            with Broker(topics={"t": 4}, data=tmp_path, listen=address) as restarted:
                until(lambda: "g" in restarted.groups and restarted.groups["g"].state == "Stable", a, b)
                after = restarted.groups["g"]
                assert after.generation_id == before.generation_id
                assert [(one.client_id, one.member_id, one.partitions) for one in after.members] == [
                    (one.client_id, one.member_id, one.partitions) for one in before.members
                ]
                for one in (a, b):
                    assert {row.offset for row in one.committed(one.assignment(), timeout=WITHIN_S)} == {7}
                    one.commit(offsets=[TopicPartition("t", number, 8) for number in numbers(one)], asynchronous=False)
                assert ((numbers(a), numbers(b)), called) == (held, heard), "nobody was called"
                b.close()
                until(shared(4, a), a)
                a.close()
