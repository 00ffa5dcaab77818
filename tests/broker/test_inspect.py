"""What a test can ask of a broker in its process: topics, groups, owners, reasons."""

from __future__ import annotations

import json

import pytest

from equipoise import Broker, Consumer, Producer, TopicPartition
from equipoise.coordinator.reasons import Trigger
from equipoise.errors import KafkaError


def consumer(broker: Broker, client_id: str) -> Consumer:
    made = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing", "client.id": client_id}
        | {"heartbeat.interval.ms": 100}
    )
    made.subscribe(["orders"])
    return made


def test_topics_are_there_from_the_start() -> None:
    with Broker(topics={"orders": 6, "payments": 1}) as broker:
        assert (broker.topics["orders"].partitions, len(broker.topics)) == (6, 2)
        with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            producer.send("payments", b"")
        assert broker.topics["payments"].end_offsets == [1]
        assert "nothing" not in broker.topics
        with pytest.raises(KeyError):
            broker.topics["nothing"]


def test_topics_that_cannot_be_are_refused_at_the_start() -> None:
    with pytest.raises(KafkaError, match="is no topic name"):
        Broker(topics={"a/b": 1}).start()


def test_topics_that_are_there_already_stay(tmp_path: object) -> None:
    for _ in range(2):
        with Broker(topics={"orders": 2}, data=str(tmp_path)) as broker:
            assert broker.topics["orders"].partitions == 2


def test_a_group_its_members_and_why_it_rebalanced() -> None:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(settings, topics={"orders": 4}) as broker:
        assert list(broker.groups) == []
        with consumer(broker, "first") as first:
            while len(first.assignment()) < 4:
                first.poll(0.01)
            group = broker.groups["billing"]
            assert (group.state, group.generation_id, group.protocol) == ("Stable", 1, "range")
            assert [member.client_id for member in group.members] == ["first"]
            assert group.members[0].host == "127.0.0.1"
            assert set(group.owners) == {("orders", number) for number in range(4)}
            with consumer(broker, "second") as second:
                while len(first.assignment()) != 2 or len(second.assignment()) != 2:
                    first.poll(0.01)
                    second.poll(0.01)
                group = broker.groups["billing"]
                assert sorted(group.owners.values()) == ["first", "first", "second", "second"]
                last = group.rebalances[-1]
                assert last.cause.trigger is Trigger.MEMBER_JOINED
                assert last.cause.who.client_id == "second"
                assert (last.members, last.kept, len(last.moved)) == (2, 2, 2)
        assert list(broker.groups) == ["billing"]
        with pytest.raises(KeyError):
            broker.groups["shipping"]


def test_the_fixtures_group_is_ready_at_once(broker: Broker, equipoise_broker: Broker) -> None:
    """Without Kafka's initial wait, by the setting: how long it takes is for the benchmarks."""
    assert broker is equipoise_broker
    assert broker.server.config.group_initial_rebalance_delay_ms == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_as_whom_and_by_which_listener_a_member_has_come(protocol: str) -> None:
    """In the view and in the journal; never on the wire."""
    settings = {"group.initial.rebalance.delay.ms": 0, "group.consumer.assignment.interval.ms": 0}
    users = {"alice": "alice-secret"}
    with Broker(settings, topics={"orders": 1}, security="SASL_PLAINTEXT", users=users) as broker:
        known = broker.client_settings("alice")
        with Consumer({**known, "group.id": "billing", "group.protocol": protocol}) as reading:
            reading.subscribe(["orders"])
            while not reading.assignment():
                reading.poll(0.01)
            (member,) = broker.groups["billing"].members
            assert (member.principal, member.listener) == ("User:alice", "SASL_PLAINTEXT")
        with Consumer({**known, "auto.offset.reset": "earliest"}) as of_journal:
            of_journal.assign([TopicPartition("__rebalances", 0)])
            rows: list[dict[str, object]] = []
            while not rows:
                rows += [
                    row
                    for record in of_journal.poll(0.1)
                    if (row := json.loads(record.value or b""))["type"] == "member_joined"
                ]
        assert (rows[0]["principal"], rows[0]["listener"]) == ("User:alice", "SASL_PLAINTEXT")
