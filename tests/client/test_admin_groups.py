"""Admin's calls about groups, and those about many topics, against our broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from equipoise.client.admin_groups import GroupDescription
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

Join = Callable[..., Consumer]


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(broker.bootstrap_servers) as connected:
        connected.create_topic("orders", 4)
        yield connected


@pytest.fixture
def join(broker: Broker, admin: Admin) -> Iterator[Join]:
    """A consumer of `orders` that has its partitions."""
    with ExitStack() as stack:

        def joined(group: str, client_id: str, **settings: object) -> Consumer:
            consumer = Consumer(
                bootstrap_servers=broker.bootstrap_servers,
                group_id=group,
                client_id=client_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                **settings,
            )
            stack.callback(consumer.close)
            consumer.subscribe(["orders"])
            while not consumer.assignment():
                consumer.poll(0.05)
            return consumer

        yield joined


def _produce(broker: Broker, count: int, partition: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=partition)
        producer.flush()


def _error(found: object) -> ErrorCode:
    assert isinstance(found, KafkaError)
    return found.code


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_listed_and_described_with_its_members(admin: Admin, join: Join, protocol: str) -> None:
    join("billing", "worker", group_protocol=protocol)
    listed = admin.list_groups()
    assert [(one.group_id, one.group_type, one.group_state) for one in listed.groups] == [
        ("billing", protocol, "Stable")
    ]
    assert listed.failures == {}
    group = admin.describe_group("billing")
    assert (group.group_type, group.group_state, group.coordinator_id) == (protocol, "Stable", 1)
    (member,) = group.members
    assert (member.client_id, member.client_host, member.topics) == ("worker", "127.0.0.1", ("orders",))
    assert member.partitions == {TopicPartition("orders", number) for number in range(4)}


def test_one_question_about_many_groups_has_an_answer_for_each(admin: Admin, join: Join) -> None:
    join("old", "a", group_protocol="classic")
    join("new", "b", group_protocol="consumer")
    found = admin.describe_groups(["new", "nobody", "old"])
    assert list(found) == ["new", "nobody", "old"]
    assert isinstance(found["new"], GroupDescription)
    assert isinstance(found["old"], GroupDescription)
    assert _error(found["nobody"]) is ErrorCode.GROUP_ID_NOT_FOUND
    assert found["new"].generation is not None
    assert found["old"].generation is None  # DescribeGroups tells none
    with pytest.raises(KafkaError, match=r"there is no group 'nobody' \(GROUP_ID_NOT_FOUND\)"):
        admin.describe_group("nobody")


def test_offsets_of_a_group_without_members_are_set_read_and_deleted(admin: Admin) -> None:
    places: dict[TopicPartition, int | OffsetAndMetadata] = {
        TopicPartition("orders", 0): 7,
        TopicPartition("orders", 2): OffsetAndMetadata(3, "by hand"),
    }
    admin.commit_offsets("billing", places)
    assert admin.committed("billing") == {
        TopicPartition("orders", 0): OffsetAndMetadata(7),
        TopicPartition("orders", 2): OffsetAndMetadata(3, "by hand"),
    }
    gone = admin.delete_offsets("billing", [TopicPartition("orders", 0)])
    assert gone == {TopicPartition("orders", 0): None}
    assert list(admin.committed("billing")) == [TopicPartition("orders", 2)]
    assert admin.delete_groups(["billing"]) == {"billing": None}
    assert admin.committed("billing") == {}


def test_offsets_of_many_groups_come_in_one_answer(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    place = TopicPartition("orders", 0)
    for number in range(150):
        admin.commit_offsets(f"g-{number}", {place: number})
    asked: list[int] = []
    monkeypatch.setattr(admin, "_ask_offsets", _counting(admin._ask_offsets, asked))
    found = admin.committed_of_groups([*(f"g-{number}" for number in range(150)), "nobody"])
    assert found == {f"g-{number}": {place: OffsetAndMetadata(number)} for number in range(150)} | {"nobody": {}}
    assert asked == [100, 51]
    assert admin.committed_of_groups([]) == {}


def test_a_broker_that_knows_no_list_of_groups_is_asked_for_each(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    place = TopicPartition("orders", 0)
    for name in ("a", "b"):
        admin.commit_offsets(name, {place: 7})
    monkeypatch.setattr("equipoise.client.admin_groups._NEWEST_WITH_NAMES", 7)
    monkeypatch.setattr("equipoise.client.admin_groups._FIRST_WITH_MANY_GROUPS", 99)
    asked: list[int] = []
    monkeypatch.setattr(admin, "_ask_offsets", _counting(admin._ask_offsets, asked))
    assert admin.committed_of_groups(["a", "b"]) == {name: {place: OffsetAndMetadata(7)} for name in ("a", "b")}
    assert asked == [1, 1]


def _counting(ask: Callable[..., Any], asked: list[int]) -> Callable[..., Any]:
    """Notes of how many groups is asked."""

    def counted(connection: Any, group_ids: list[str]) -> Any:
        asked.append(len(group_ids))
        return ask(connection, group_ids)

    return counted


def test_a_group_with_members_is_not_changed_from_outside(admin: Admin, join: Join) -> None:
    consumer = join("billing", "worker")
    consumer.commit({TopicPartition("orders", 0): 1})
    with pytest.raises(KafkaError) as refused:
        admin.commit_offsets("billing", {TopicPartition("orders", 0): 7})
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert _error(admin.delete_groups(["billing"])["billing"]) is ErrorCode.NON_EMPTY_GROUP
    (result,) = admin.delete_offsets("billing", [TopicPartition("orders", 0)]).values()
    assert _error(result) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert admin.committed("billing")[TopicPartition("orders", 0)].offset == 1


def test_members_are_removed_by_either_id(admin: Admin, join: Join) -> None:
    dynamic = join("one", "worker")
    join("two", "other", group_instance_id="pod-1")
    assert admin.remove_members("one", [(dynamic.member_id, None), ("nobody", None)], "by a test")[0] is None
    assert admin.describe_group("one").members == []
    assert admin.remove_members("two", [("", "pod-1")]) == [None]
    assert admin.describe_group("two").members == []


def test_offsets_of_many_partitions_come_with_their_errors(admin: Admin, broker: Broker) -> None:
    _produce(broker, 5, partition=1)
    known, missing = TopicPartition("orders", 1), TopicPartition("nothing", 0)
    found = admin.list_offsets({known: LATEST, missing: LATEST, TopicPartition("orders", 9): LATEST})
    assert found[known] == 5
    assert _error(found[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert _error(found[TopicPartition("orders", 9)]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.list_offsets({known: EARLIEST}) == {known: 0}
    assert admin.list_offsets({}) == {}


def test_records_are_trimmed_and_sizes_told(admin: Admin, broker: Broker) -> None:
    _produce(broker, 5, partition=1)
    partition = TopicPartition("orders", 1)
    assert admin.sizes()[partition] > 0
    assert admin.sizes()[TopicPartition("orders", 0)] == 0
    assert admin.delete_records({partition: 3}) == {partition: 3}
    assert admin.list_offsets({partition: EARLIEST}) == {partition: 3}
    with pytest.raises(KafkaError, match=r"records of orders-1 were not deleted \(OFFSET_OUT_OF_RANGE\)"):
        admin.delete_records({partition: 9})


def test_configs_are_set_and_taken_back_one_by_one(admin: Admin) -> None:
    admin.set_configs("orders", {"retention.ms": "60000", "segment.ms": "1000"})
    admin.set_configs("orders", {"segment.ms": None})
    assert admin.configs("orders") == {"retention.ms": "60000"}
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        admin.set_configs("orders", {"retention.ms": "soon"})


@pytest.mark.parametrize("names", ["ab", b"ab", None, 5, [b"ab"], [None]], ids=repr)
def test_a_text_is_no_list_of_groups(admin: Admin, names: Any) -> None:
    """Of "ab" the groups "a" and "b" would be deleted."""
    place = TopicPartition("orders", 0)
    for group in ("a", "b", "ab"):
        admin.commit_offsets(group, {place: 1})
    for attempt in (admin.delete_groups, admin.describe_groups, admin.committed_of_groups):
        with pytest.raises(UsageError, match=r"\(\) takes (a list of )?names"):
            attempt(names)
    assert [one.group_id for one in admin.list_groups().groups] == ["a", "ab", "b"]
