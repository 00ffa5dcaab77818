"""Leaders that move: who tells of them, which requests are refused and with which hints, what becomes of epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.apis.k01_fetch import FetchResponse
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.apis.k23_offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from equipoise.wire.apis.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from equipoise.wire.apis.k43_elect_leaders import ElectLeadersRequest, ElectLeadersTopicPartitions
from equipoise.wire.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from equipoise.wire.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from equipoise.wire.apis.k60_describe_cluster import DescribeClusterRequest
from equipoise.wire.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import iter_headers
from tests.broker.calls import BY_NAME, append, batch_of, fetch_request, fetched, list_offsets, produce, produce_request
from tests.broker.cluster.conftest import QUICK, At
from tests.broker.conftest import eventually, waiting_calls
from tests.broker.rawclient import RawClient

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def metadata(client: RawClient, *topics: str) -> Any:
    return client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics]))


def leaders(client: RawClient, topic: str = "t") -> dict[int, tuple[int, int]]:
    """By partition: the leader and its epoch."""
    (found,) = metadata(client, topic).topics
    return {row.partition_index: (row.leader_id, row.leader_epoch) for row in found.partitions}


def addresses(broker: Broker) -> dict[int, tuple[str, int]]:
    found = {node_id: one.address.rpartition(":") for node_id, one in broker.brokers.items()}
    return {node_id: (host, int(port)) for node_id, (host, _, port) in found.items()}


def epoch_ends(client: RawClient, *epochs: int, current: int = -1) -> list[tuple[int, int, int]]:
    """Error, epoch and end of each, of partition 0."""
    found = []
    for epoch in epochs:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
        ((row,),) = [topic.partitions for topic in client.call(request).topics]
        found.append((row.error_code, row.leader_epoch, row.end_offset))
    return found


# -- what is told


@pytest.mark.parametrize("node_id", [1, 2, 3])
def test_each_broker_tells_of_all(three: Broker, at: At, node_id: int) -> None:
    found = metadata(at(node_id), "t")
    assert {one.node_id: (one.host, one.port) for one in found.brokers} == addresses(three)
    assert found.controller_id == 1
    assert leaders(at(node_id)) == {0: (1, 0), 1: (2, 0), 2: (3, 0)}
    described = at(node_id).call(DescribeClusterRequest())
    assert {one.broker_id: (one.host, one.port) for one in described.brokers} == addresses(three)


def test_both_descriptions_of_a_topic_agree(three: Broker, at: At) -> None:
    three.move_leader("t", 0, to=3)
    three.brokers[2].kill()
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    (topic,) = at(1).call(request).topics
    (other,) = metadata(at(1), "t").topics
    rows = [
        [
            (one.partition_index, one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes)
            for one in each.partitions
        ]
        for each in (topic, other)
    ]
    assert rows[0] == rows[1]
    assert rows[0] == [(0, 3, 1, [1, 2, 3], [1, 3]), (1, 3, 1, [2, 3, 1], [3, 1]), (2, 3, 0, [3, 1, 2], [3, 1])]
    assert [one.offline_replicas for one in other.partitions] == [[2], [2], [2]]
    assert {one.node_id for one in metadata(at(1)).brokers} == {1, 3}


def test_racks_are_told() -> None:
    with Broker({"broker.rack": "a,b"}, brokers=2) as broker, RawClient(broker.brokers[2].address) as client:
        assert [(one.node_id, one.rack) for one in metadata(client).brokers] == [(1, "a"), (2, "b")]
        assert [one.rack for one in broker.brokers.values()] == ["a", "b"]
    with Broker({"broker.rack": "a"}, brokers=2) as broker:
        assert [one.rack for one in broker.brokers.values()] == ["a", "a"]


def test_assignors_know_the_racks_of_replicas() -> None:
    """Also after a reassignment."""

    def racks(broker: Broker) -> tuple[frozenset[str], ...]:
        def look(server: Server) -> tuple[frozenset[str], ...]:
            topic = server.group_coordinator.image.topic("t")
            return () if topic is None else topic.racks

        return broker.call(look)

    settings = {"broker.rack": "a,b,c", "default.replication.factor": 1}
    with Broker(settings, brokers=3, topics={"t": 3}) as broker, RawClient(broker.brokers[1].address) as client:
        eventually(lambda: racks(broker) == ({"a"}, {"b"}, {"c"}), "the image has the racks")
        assert reassign(client, {0: [3, 2]}) == [ErrorCode.NONE]
        eventually(lambda: racks(broker) == ({"b", "c"}, {"b"}, {"c"}), "the image has the new ones")


# -- the wrong broker


def test_the_wrong_broker_names_the_right_one(three: Broker, at: At) -> None:
    wrong = at(2)
    answer = wrong.call(produce_request(batch_of(b"v")), BY_NAME)
    ((row,),) = [topic.partition_responses for topic in answer.responses]
    assert row.error_code == NOT_LEADER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)
    assert [(one.node_id, (one.host, one.port)) for one in answer.node_endpoints] == [(1, addresses(three)[1])]
    (topic,) = metadata(wrong, "t").topics
    request = fetch_request()
    request.topics[0].topic_id = topic.topic_id
    fetch = wrong.call(request, 16)
    data = fetched(fetch)
    assert data.error_code == NOT_LEADER
    assert data.current_leader is not None
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
    assert [(one.node_id, (one.host, one.port)) for one in fetch.node_endpoints] == [(1, addresses(three)[1])]
    old: FetchResponse = wrong.call(fetch_request(), BY_NAME)
    assert (fetched(old).error_code, fetched(old).current_leader) == (NOT_LEADER, None)  # before KIP-951


def test_what_only_the_leader_answers(three: Broker, at: At) -> None:
    right, wrong = at(1), at(2)
    append(right, b"v")
    assert list_offsets(right, -1).offset == 1
    assert list_offsets(wrong, -1).error_code == NOT_LEADER
    assert epoch_ends(right, 0) == [(ErrorCode.NONE, 0, 1)]
    assert epoch_ends(wrong, 0) == [(NOT_LEADER, -1, -1)]
    row = DeleteRecordsPartition(partition_index=0, offset=1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[row])], timeout_ms=1000)
    codes = [client.call(request).topics[0].partitions[0].error_code for client in (wrong, right)]
    assert codes == [NOT_LEADER, ErrorCode.NONE]


def test_a_waiting_fetch_ends_with_the_move(three: Broker, at: At) -> None:
    client = at(1)
    client.send(fetch_request(0, max_wait_ms=60_000), BY_NAME)
    eventually(lambda: waiting_calls(three), "it waits for records")
    three.move_leader("t", 0, to=2)
    assert fetched(client.receive()).error_code == NOT_LEADER


# -- epochs


def test_records_have_the_epoch_of_their_leader(three: Broker, at: At) -> None:
    append(at(1), b"a", b"b")
    three.move_leader("t", 0, to=2)
    append(at(2), b"c")
    three.move_leader("t", 0, to=3)
    three.move_leader("t", 0, to=1)
    append(at(1), b"d")
    records = fetched(at(1).call(fetch_request(), BY_NAME)).records
    assert isinstance(records, memoryview)
    stamped = [(one.base_offset, one.partition_leader_epoch) for _, one in iter_headers(records)]
    assert stamped == [(0, 0), (2, 1), (3, 3)]
    assert epoch_ends(at(1), 0, 1, 2, 3, 4) == [(0, 0, 2), (0, 1, 3), (0, 1, 3), (0, 3, 4), (0, -1, -1)]
    assert leaders(at(2))[0] == (1, 3)
    assert list_offsets(at(1), -1).leader_epoch == 3
    assert list_offsets(at(1), -2).leader_epoch == 0


def test_old_and_future_epochs_are_fenced(three: Broker, at: At) -> None:
    three.move_leader("t", 0, to=2)
    three.move_leader("t", 0, to=1)
    client = at(1)
    codes = {
        epoch: fetched(client.call(fetch_request(leader_epoch=epoch), BY_NAME)).error_code for epoch in (-1, 1, 2, 3)
    }
    assert codes == {-1: 0, 1: ErrorCode.FENCED_LEADER_EPOCH, 2: 0, 3: ErrorCode.UNKNOWN_LEADER_EPOCH}
    assert epoch_ends(client, 0, current=0)[0][0] == ErrorCode.FENCED_LEADER_EPOCH


def test_a_client_of_a_lost_log_is_told_where_it_parts(three: Broker, at: At) -> None:
    """`last_fetched_epoch`, as our consumer sends it."""
    for value in (b"a", b"b", b"c"):
        append(at(1), value)
    assert three.elect_unclean("t", 0, to=2, lose=2) == 1
    append(at(2), b"new")
    request = fetch_request(3)
    request.topics[0].partitions[0].last_fetched_epoch = 0
    data = fetched(at(2).call(request, BY_NAME))
    assert data.diverging_epoch is not None
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 0, 1)
    assert not data.records
    request.topics[0].partitions[0].fetch_offset = 1
    data = fetched(at(2).call(request, BY_NAME))
    assert data.diverging_epoch is None
    assert data.records


# -- elections and reassignments, over the wire


def elect(client: RawClient, *partitions: int, kind: int = 0) -> dict[int, int]:
    asked = [ElectLeadersTopicPartitions(topic="t", partitions=list(partitions))] if partitions else None
    answer = client.call(ElectLeadersRequest(election_type=kind, topic_partitions=asked))
    return {
        one.partition_id: one.error_code
        for row in answer.replica_election_results
        if row.topic == "t"
        for one in row.partition_result
    }


def test_the_preferred_leader_leads_again(three: Broker, at: At) -> None:
    three.move_leader("t", 0, to=3)
    three.move_leader("t", 1, to=3)
    assert elect(at(2), 0, 2) == {0: ErrorCode.NONE, 2: ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(at(2)) == {1: ErrorCode.NONE}
    assert leaders(at(2)) == {0: (1, 2), 1: (2, 2), 2: (3, 0)}
    three.brokers[3].kill()
    assert elect(at(2), 2) == {2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect(at(2), 2, kind=1) == {2: ErrorCode.ELECTION_NOT_NEEDED}
    three.brokers[3].start()
    three.elect_leaders()
    assert leaders(at(2))[2] == (3, 2)


def reassign(client: RawClient, replicas: dict[int, list[int] | None], **options: Any) -> list[int]:
    rows = [ReassignablePartition(partition_index=index, replicas=one) for index, one in replicas.items()]
    topics = [ReassignableTopic(name="t", partitions=rows)]
    answer = client.call(AlterPartitionReassignmentsRequest(topics=topics, **options))
    return [row.error_code for row in answer.responses[0].partitions]


def test_partitions_are_reassigned_at_once(three: Broker, at: At) -> None:
    assert reassign(at(1), {0: [3, 2], 1: [3, 2], 2: None}) == [0, 0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
    (topic,) = metadata(at(1), "t").topics
    found = [(one.leader_id, one.leader_epoch, one.replica_nodes) for one in topic.partitions]
    assert found == [(3, 1, [3, 2]), (2, 0, [3, 2]), (3, 0, [3, 1, 2])]  # a leader that stays a replica leads on
    assert at(1).call(ListPartitionReassignmentsRequest()).topics == []
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(at(1), {0: [4], 1: [1, 1], 2: []}) == [invalid] * 3
    resized = reassign(at(1), {0: [1]}, allow_replication_factor_change=False)
    assert resized == [ErrorCode.INVALID_REPLICATION_FACTOR]
    three.brokers[1].kill()
    assert reassign(at(2), {0: [1]}) == [invalid]


def test_topics_are_created_where_they_are_wanted(three: Broker, at: At) -> None:
    client = at(1)
    rows = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
        for index, ids in {0: [2, 3], 1: [3, 1]}.items()
    ]
    unset: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    topics = [
        CreatableTopic(name="placed", assignments=rows, **unset),
        CreatableTopic(name="single", num_partitions=1, replication_factor=1),
        CreatableTopic(name="default", **unset),
        CreatableTopic(name="many", num_partitions=1, replication_factor=4),
        CreatableTopic(
            name="uneven", assignments=[rows[0], CreatableReplicaAssignment(partition_index=1, broker_ids=[1])], **unset
        ),
    ]
    created = {
        one.name: (one.error_code, one.replication_factor)
        for one in client.call(CreateTopicsRequest(topics=topics)).topics
    }
    assert created["placed"] == (0, 2)
    assert created["single"] == (0, 1)
    assert created["default"] == (0, 3)
    assert created["many"][0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert created["uneven"][0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    (topic,) = metadata(client, "placed").topics
    assert [one.replica_nodes for one in topic.partitions] == [[2, 3], [3, 1]]
    more = CreatePartitionsTopic(name="placed", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1, 2])])
    assert client.call(CreatePartitionsRequest(topics=[more], timeout_ms=1000)).results[0].error_code == ErrorCode.NONE
    assert leaders(client, "placed") == {0: (2, 0), 1: (3, 0), 2: (1, 0)}


# -- the disk keeps it


def test_a_restart_keeps_leaders_and_epochs(tmp_path: Path) -> None:
    with Broker(QUICK, brokers=3, topics={"t": 3}, data=tmp_path) as broker:
        with RawClient(broker.brokers[1].address) as client:
            append(client, b"a", b"b")
        broker.move_leader("t", 0, to=3)
        with RawClient(broker.brokers[3].address) as client:
            append(client, b"c")
    with Broker(QUICK, brokers=3, data=tmp_path) as broker, RawClient(broker.brokers[3].address) as client:
        assert leaders(client) == {0: (3, 1), 1: (2, 0), 2: (3, 0)}
        assert epoch_ends(client, 0, 1) == [(0, 0, 2), (0, 1, 3)]
        assert append(client, b"d") == 3


def test_a_restart_with_one_broker_and_with_three_again(tmp_path: Path) -> None:
    with Broker(QUICK, brokers=3, topics={"t": 3}, data=tmp_path):
        pass
    with Broker(QUICK, data=tmp_path, topics={"late": 3}) as broker, RawClient(broker.bootstrap_servers) as client:
        assert leaders(client) == {0: (1, 0), 1: (1, 1), 2: (1, 1)}
        (topic,) = metadata(client, "t").topics
        assert [(one.replica_nodes, one.isr_nodes) for one in topic.partitions] == [([1], [1])] * 3
        assert produce(client, batch_of(b"v"), partition=2).error_code == ErrorCode.NONE
    with Broker(QUICK, brokers=3, data=tmp_path) as broker, RawClient(broker.brokers[1].address) as client:
        assert leaders(client) == {0: (1, 0), 1: (1, 1), 2: (1, 1)}
        broker.elect_leaders()
        assert leaders(client) == {0: (1, 0), 1: (2, 2), 2: (3, 2)}
        late = leaders(client, "late")  # of a broker alone: it is spread now
        assert sorted(leader for leader, _ in late.values()) == [1, 2, 3]
        assert {epoch for leader, epoch in late.values() if leader != 1} == {1}
