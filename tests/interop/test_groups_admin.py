"""Groups as the admin clients see them: a live one with two members, one that all have left, and one that has only
ever committed offsets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient
from kafka import TopicPartition as PyTopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove, OffsetSpec
from kafka.errors import GroupIdNotFoundError, GroupSubscribedToTopicError, NoError, UnknownMemberIdError
from kafka.structs import OffsetAndMetadata

from equipoise.broker import Broker
from proving.members.fleet import Members, places_of
from tests.interop.drivers import AioKafka, Confluent, KafkaJs, KafkaPython
from tests.interop.drivers.base import PATIENCE_S
from tests.interop.drivers.kafkajs import KafkaJsError
from tests.interop.groups import Fleet, committed, view_group

PARTITIONS = 4
RECORDS = 3  # in each partition, all of them read and committed by the live group


class Live(NamedTuple):
    """The group with members, and the topic that all groups here have to do with."""

    group: str
    topic: str
    members: Members


@pytest.fixture(scope="module")
def live(broker: Broker, fleet: Fleet, open_client: Callable[[str], Confluent]) -> Iterator[Live]:
    """A static member of confluent-kafka, which came first and leads, and a dynamic one of kafka-python."""
    topic = f"topic-{uuid.uuid4()}"
    open_client(Confluent.name).create_topic(topic, PARTITIONS)
    places = places_of(topic, PARTITIONS)
    with Members.of(fleet, topic) as members:
        members.join("one", "confluent-kafka", instance_id="instance-1")
        members.wait_settled(places)
        members.join("two", "kafka-python")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, RECORDS))
        ends = dict.fromkeys(places, RECORDS)
        members.wait_until("all is committed", lambda: committed(broker, members.group) == ends)
        yield Live(members.group, topic, members)


@pytest.fixture
def empty(broker: Broker, fleet: Fleet, live: Live) -> str:
    """A group that had a member, which has read all and left."""
    with Members.of(fleet, live.topic) as members:
        members.join("one", "confluent-kafka")
        places = places_of(live.topic, PARTITIONS)
        members.wait_settled(places)
        members.wait_read({(*place, offset) for place in places for offset in range(RECORDS)})
    assert view_group(broker, members.group).state == "Empty"
    return members.group


@pytest.fixture
def simple(broker: Broker, live: Live) -> str:
    """A group that never had a member: a consumer that assigns itself has committed offset 2 of partition 1."""
    group_id = f"group-{uuid.uuid4()}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id})
    (done,) = consumer.commit(offsets=[TopicPartition(live.topic, 1, 2)], asynchronous=False)
    consumer.close()
    assert done.error is None
    return group_id


def code_of(action: Callable[[], object]) -> int:
    with pytest.raises(KafkaException) as caught:
        action()
    return int(caught.value.args[0].code())


class TestConfluent:
    @pytest.fixture
    def admin(self, confluent: Confluent) -> AdminClient:
        return confluent.admin

    def listed(self, admin: AdminClient, **filters: object) -> dict[str, tuple[str, bool]]:
        result = admin.list_consumer_groups(**filters).result(PATIENCE_S)
        assert not result.errors
        return {group.group_id: (group.state.name, group.is_simple_consumer_group) for group in result.valid}

    def test_list(self, admin: AdminClient, live: Live, empty: str, simple: str) -> None:
        groups = self.listed(admin)
        assert groups[live.group] == ("STABLE", False)
        assert groups[empty] == ("EMPTY", False)
        assert groups[simple] == ("EMPTY", True)

    def test_list_filtered(self, admin: AdminClient, live: Live, empty: str) -> None:
        assert list(self.listed(admin, states={ConsumerGroupState.STABLE})) == [live.group]
        assert live.group not in self.listed(admin, states={ConsumerGroupState.EMPTY})
        assert {live.group, empty} <= self.listed(admin, types={ConsumerGroupType.CLASSIC}).keys()
        assert self.listed(admin, types={ConsumerGroupType.CONSUMER}) == {}

    def test_describe(self, admin: AdminClient, broker: Broker, live: Live) -> None:
        asked = admin.describe_consumer_groups([live.group], include_authorized_operations=True)
        group = asked[live.group].result(PATIENCE_S)
        assert (group.state.name, group.partition_assignor, group.is_simple_consumer_group) == (
            "STABLE",
            "range",
            False,
        )
        assert f"{group.coordinator.host}:{group.coordinator.port}" == broker.bootstrap_servers
        assert {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE} <= set(group.authorized_operations)
        found = {m.client_id: (m.host, m.group_instance_id, m.assignment.topic_partitions) for m in group.members}
        assert {client: row[:2] for client, row in found.items()} == {
            "confluent": ("/127.0.0.1", "instance-1"),
            "kafka-python": ("/127.0.0.1", None),
        }
        for name, client in (("one", "confluent"), ("two", "kafka-python")):
            assert {(p.topic, p.partition) for p in found[client][2]} == live.members.owned(name)

    def test_describe_without_members(self, admin: AdminClient, empty: str, simple: str) -> None:
        for group_id in (empty, simple):
            group = admin.describe_consumer_groups([group_id])[group_id].result(PATIENCE_S)
            assert (group.state.name, group.members, group.partition_assignor) == ("EMPTY", [], "")

    def test_describe_what_is_not_there(self, admin: AdminClient) -> None:
        group = admin.describe_consumer_groups(["nowhere"])["nowhere"].result(PATIENCE_S)
        assert (group.state.name, group.members) == ("DEAD", [])

    def test_delete(self, admin: AdminClient, live: Live, empty: str, simple: str) -> None:
        deleted = admin.delete_consumer_groups([live.group, empty, simple, "nowhere"])
        assert deleted[empty].result(PATIENCE_S) is None
        assert deleted[simple].result(PATIENCE_S) is None
        assert code_of(lambda: deleted[live.group].result(PATIENCE_S)) == KafkaError.NON_EMPTY_GROUP
        assert code_of(lambda: deleted["nowhere"].result(PATIENCE_S)) == KafkaError.GROUP_ID_NOT_FOUND
        assert not {empty, simple} & self.listed(admin).keys()
        assert self.offsets(admin, empty) == {}

    def offsets(self, admin: AdminClient, group_id: str, *places: TopicPartition) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group_id, list(places) or None)
        found = admin.list_consumer_group_offsets([asked])[group_id].result(PATIENCE_S)
        return {place.partition: place.offset for place in found.topic_partitions}

    def test_list_offsets(self, admin: AdminClient, live: Live, simple: str) -> None:
        assert self.offsets(admin, live.group) == dict.fromkeys(range(PARTITIONS), RECORDS)
        assert self.offsets(admin, live.group, TopicPartition(live.topic, 2)) == {2: RECORDS}
        none = -1001  # librdkafka's word for "no offset"
        asked = [TopicPartition(live.topic, partition) for partition in range(2)]
        assert self.offsets(admin, simple, *asked) == {0: none, 1: 2}
        assert self.offsets(admin, "nowhere") == {}

    def test_alter_offsets(
        self, admin: AdminClient, broker: Broker, fleet: Fleet, live: Live, empty: str, simple: str
    ) -> None:
        """Groups without members, and one that is not there yet; who joins then goes on from there."""
        for group_id in (empty, simple, f"group-{uuid.uuid4()}"):
            asked = ConsumerGroupTopicPartitions(group_id, [TopicPartition(live.topic, 1, 1)])
            altered = admin.alter_consumer_group_offsets([asked])[group_id].result(PATIENCE_S)
            assert [place.error for place in altered.topic_partitions] == [None]
            assert self.offsets(admin, group_id)[1] == 1
        with Members.of(fleet, live.topic, group=empty) as members:
            members.join("two", "kafka-python")
            members.wait_read({(live.topic, 1, offset) for offset in range(1, RECORDS)})
            assert {row[:2] for row in members.ledger.read()} == {(live.topic, 1)}

    def test_alter_offsets_of_a_live_group(self, admin: AdminClient, live: Live) -> None:
        asked = ConsumerGroupTopicPartitions(live.group, [TopicPartition(live.topic, 1, 1)])
        altered = admin.alter_consumer_group_offsets([asked])[live.group].result(PATIENCE_S)
        assert [place.error.code() for place in altered.topic_partitions] == [KafkaError.UNKNOWN_MEMBER_ID]
        assert self.offsets(admin, live.group)[1] == RECORDS


class TestKafkaPython:
    @pytest.fixture
    def admin(self, kafka_python: KafkaPython) -> KafkaAdminClient:
        return kafka_python.admin

    def test_list(self, admin: KafkaAdminClient, live: Live, empty: str, simple: str) -> None:
        def listed(**filters: object) -> dict[str, tuple[str, str, str]]:
            rows = admin.list_groups(**filters)
            return {row["group_id"]: (row["protocol_type"], row["group_state"], row["group_type"]) for row in rows}

        groups = listed()
        assert groups[live.group] == ("consumer", "Stable", "classic")
        assert groups[empty] == ("consumer", "Empty", "classic")
        assert groups[simple] == ("", "Empty", "classic")
        assert list(listed(states_filter=["Stable"])) == [live.group]
        assert live.group in listed(types_filter=["classic"])
        assert listed(types_filter=["consumer"]) == {}

    def test_describe(self, admin: KafkaAdminClient, live: Live, empty: str) -> None:
        groups = admin.describe_groups([live.group, empty, "nowhere"])
        group = groups[live.group]
        assert (group["group_state"], group["protocol_type"], group["protocol_data"]) == ("Stable", "consumer", "range")
        assert group["error"] is None
        found = {row["client_id"]: (row["client_host"], row["group_instance_id"]) for row in group["members"]}
        assert found == {"confluent": ("/127.0.0.1", "instance-1"), "kafka-python": ("/127.0.0.1", None)}
        for row in group["members"]:
            assert row["member_metadata"]["topics"] == [live.topic]
            name = "one" if row["client_id"] == "confluent" else "two"
            (assigned,) = row["member_assignment"]["assigned_partitions"]
            assert {(assigned["topic"], p) for p in assigned["partitions"]} == live.members.owned(name)
        assert (groups[empty]["group_state"], groups[empty]["members"]) == ("Empty", [])
        assert (groups["nowhere"]["group_state"], groups["nowhere"]["members"]) == ("Dead", [])
        assert "GroupIdNotFound" in groups["nowhere"]["error"]

    def test_delete(self, admin: KafkaAdminClient, live: Live, empty: str, simple: str) -> None:
        assert admin.delete_groups([live.group, empty, simple, "nowhere"]) == {
            live.group: "NonEmptyGroupError",
            empty: "OK",
            simple: "OK",
            "nowhere": "GroupIdNotFoundError",
        }
        assert admin.list_group_offsets([empty]) == {empty: {}}

    def test_list_offsets(self, admin: KafkaAdminClient, live: Live, simple: str) -> None:
        """Of several groups at a time, for OffsetFetch v8 asks for them in one request."""
        asked = {live.group: None, simple: [PyTopicPartition(live.topic, 0), PyTopicPartition(live.topic, 1)]}
        found = admin.list_group_offsets(asked)
        assert {p.partition: one.offset for p, one in found[live.group].items()} == dict.fromkeys(
            range(PARTITIONS), RECORDS
        )
        assert {place.partition: one.offset for place, one in found[simple].items()} == {0: -1, 1: 2}

    def test_alter_offsets(self, admin: KafkaAdminClient, live: Live, empty: str) -> None:
        place = PyTopicPartition(live.topic, 1)
        offset = OffsetAndMetadata(1, "put back", -1)
        assert admin.alter_group_offsets(empty, {place: offset}) == {place: NoError}
        assert admin.list_group_offsets({empty: [place]})[empty][place] == offset
        assert admin.alter_group_offsets(live.group, {place: offset}) == {place: UnknownMemberIdError}

    def test_reset_offsets(self, admin: KafkaAdminClient, live: Live, empty: str) -> None:
        places = [PyTopicPartition(live.topic, partition) for partition in range(3)]
        targets = dict(zip(places, (OffsetSpec.EARLIEST, OffsetSpec.LATEST, 1), strict=True))
        reset = admin.reset_group_offsets(empty, targets)
        assert [(reset[p]["error"], reset[p]["offset"]) for p in places] == [(NoError, n) for n in (0, RECORDS, 1)]

    def test_delete_offsets(self, admin: KafkaAdminClient, live: Live, empty: str) -> None:
        places = [PyTopicPartition(live.topic, partition) for partition in range(2)]
        assert admin.delete_group_offsets(empty, places) == dict.fromkeys(places, NoError)
        left = {place.partition for place in admin.list_group_offsets([empty])[empty]}
        assert left == set(range(2, PARTITIONS))
        refused = admin.delete_group_offsets(live.group, places)
        assert refused == dict.fromkeys(places, GroupSubscribedToTopicError)
        with pytest.raises(GroupIdNotFoundError):
            admin.delete_group_offsets("nowhere", places)

    def test_remove_members(self, admin: KafkaAdminClient, broker: Broker, fleet: Fleet, live: Live) -> None:
        """A static member that is gone is removed by its instance id, without a wait for its session's end."""
        places = places_of(live.topic, PARTITIONS)
        with Members.of(fleet, live.topic) as members:
            members.join("gone", "kafka-python", instance_id="gone")
            members.join("here", "kafka-python")
            members.wait_settled(places)
            members.close("gone")
            assert len(view_group(broker, members.group).members) == 2
            gone, nobody = MemberToRemove(group_instance_id="gone"), MemberToRemove(group_instance_id="nobody")
            removed = admin.remove_group_members(members.group, [gone, nobody])
            assert sorted(error.__name__ for error in removed.values()) == ["NoError", "UnknownMemberIdError"]
            members.wait_settled(places)


class TestAioKafka:
    def test_groups(self, aiokafka: AioKafka, live: Live, empty: str) -> None:
        listed = aiokafka.with_admin(lambda admin: admin.list_consumer_groups())
        assert {(live.group, "consumer"), (empty, "consumer")} <= {tuple(row[:2]) for row in listed}
        (response,) = aiokafka.with_admin(lambda admin: admin.describe_consumer_groups([live.group]))
        (group,) = response.groups
        assert (group[0], group[1], group[2], len(group[5])) == (0, live.group, "Stable", 2)

    def test_offsets(self, aiokafka: AioKafka, live: Live) -> None:
        found = aiokafka.with_admin(lambda admin: admin.list_consumer_group_offsets(live.group))
        expected = {AioTopicPartition(live.topic, partition): RECORDS for partition in range(PARTITIONS)}
        assert {place: one.offset for place, one in found.items()} == expected


class TestKafkaJs:
    def test_groups(self, kafkajs: KafkaJs, live: Live, empty: str) -> None:
        listed = kafkajs.call("admin.listGroups")["groups"]
        assert {(row["groupId"], row["protocolType"]) for row in listed} >= {
            (live.group, "consumer"),
            (empty, "consumer"),
        }
        (group,) = kafkajs.call("admin.describeGroups", [live.group])["groups"]
        assert (group["state"], group["protocol"], len(group["members"])) == ("Stable", "range", 2)

    def test_offsets(self, kafkajs: KafkaJs, live: Live) -> None:
        (found,) = kafkajs.call("admin.fetchOffsets", {"groupId": live.group, "topics": [live.topic]})
        assert {row["partition"]: row["offset"] for row in found["partitions"]} == dict.fromkeys(
            range(PARTITIONS), str(RECORDS)
        )

    def test_delete(self, kafkajs: KafkaJs, live: Live, empty: str) -> None:
        assert kafkajs.call("admin.deleteGroups", [empty])[0]["groupId"] == empty
        with pytest.raises(KafkaJsError):
            kafkajs.call("admin.deleteGroups", [live.group])
