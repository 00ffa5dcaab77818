"""What the handlers decide, through a broker and a socket: rules 2.2, 3.1, 4.1, 4.3, 4.4, 5.2, 5.4, parts of rule 1.4.

What has no case here: a coordinator that is not running (15; then nothing listens), groups of other types than
classic, leaders on other brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.broker.topics.topics import OFFSETS_TOPIC
from equipoise.coordinator.shard_state import Status
from equipoise.security.acls import AclOperation, Resource
from equipoise.security.session import Session
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import read_header
from equipoise.wire.records.build import Record, build_batch
from equipoise.wire.schema import Message
from tests.broker.calls import create_topic, delete_topic
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient
from tests.spec import requests
from tests.spec.requests import BATCHED, WITH_IDS, call_together, errors_of, offsets_of, rows_of, top_error

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
STRANGE_ID = b"s" * 16


class Denying:
    """Denies what is listed, by name."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        return f"{operation.name} {resource.type.name} {resource.name}" not in self.names


@pytest.fixture
def deny(start: Start, connect: Connect) -> Callable[..., RawClient]:
    """`deny("READ GROUP g")` gives a client of a broker that denies this and has the topics t and u."""

    def deny_these(*names: str) -> RawClient:
        client = connect(start(authorizer=Denying(*names)))
        create_topic(client, "t", 2)
        create_topic(client, "u", 2)
        return client

    return deny_these


# -- READ on the group comes first


def test_2_2_1_join_without_read_on_the_group_is_30_with_an_empty_member_id(deny: Callable[..., RawClient]) -> None:
    reply = deny("READ GROUP g").call(requests.join("whoever", session_timeout_ms=1))
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "")


@pytest.mark.parametrize("fields", [{"protocol_type": None}, {"protocol_name": None}])
def test_3_1_1_sync_v5_without_type_or_name_is_23_even_before_authorisation(
    deny: Callable[..., RawClient], fields: dict[str, Any]
) -> None:
    client = deny("READ GROUP g")
    reply = client.call(requests.sync(**fields), 5)
    assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_3_1_1_sync_before_v5_has_neither(client: RawClient) -> None:
    assert client.call(requests.sync(), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("request_", [requests.sync(group="g"), requests.heartbeat(), requests.leave()])
def test_3_without_read_on_the_group_is_30(deny: Callable[..., RawClient], request_: Message) -> None:
    assert deny("READ GROUP g").call(request_).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


# -- 4.1 OffsetCommit, before the group is asked


@pytest.mark.parametrize("version", range(2, 11))
def test_4_1_request_1_without_read_on_the_group_30_on_all_partitions(
    deny: Callable[..., RawClient], version: int
) -> None:
    topic: str | bytes = STRANGE_ID if version >= WITH_IDS else "absent"
    reply = deny("READ GROUP g").call(requests.commit({topic: [0, 1]}), version)
    assert errors_of(reply.topics) == {
        (topic, 0): ErrorCode.GROUP_AUTHORIZATION_FAILED,
        (topic, 1): ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }


def test_4_1_request_2_v10_resolves_ids_and_an_unknown_id_is_100(client: RawClient) -> None:
    topic_id = create_topic(client, "t", 2)
    reply = client.call(requests.commit({topic_id: [0], STRANGE_ID: [0, 7]}, offset=5), 10)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert errors_of(reply.topics) == {(topic_id, 0): OK, (STRANGE_ID, 0): unknown, (STRANGE_ID, 7): unknown}
    assert offsets_of(client.call(requests.fetch({"t": [0]}, 7), 7).topics) == {("t", 0): 5}


def test_4_1_request_3_without_read_on_a_topic_29_for_that_topic(deny: Callable[..., RawClient]) -> None:
    reply = deny("READ TOPIC u").call(requests.commit({"t": [0], "u": [0, 9]}), 9)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert errors_of(reply.topics) == {("t", 0): OK, ("u", 0): denied, ("u", 9): denied}


def test_4_1_request_3_authorisation_comes_before_existence(deny: Callable[..., RawClient]) -> None:
    reply = deny("READ TOPIC absent").call(requests.commit({"absent": [0]}), 9)
    assert errors_of(reply.topics) == {("absent", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", [2, 7, 9])
def test_4_1_request_4_unknown_topics_and_partitions_are_3(client: RawClient, version: int) -> None:
    create_topic(client, "t", 2)
    reply = client.call(requests.commit({"t": [0, 2, -1], "absent": [0]}), version)
    assert errors_of(reply.topics) == {("t", 0): OK, ("t", 2): UNKNOWN, ("t", -1): UNKNOWN, ("absent", 0): UNKNOWN}


@pytest.mark.parametrize("topics", [{}, {"absent": [0]}, {"t": [5]}])
def test_4_1_request_5_with_nothing_left_the_group_is_not_asked(client: RawClient, topics: requests.Topics) -> None:
    create_topic(client, "t", 2)
    reply = client.call(requests.commit(topics, "other", generation_id=7), 9)
    assert set(errors_of(reply.topics).values()) <= {UNKNOWN}
    assert client.call(requests.list_groups()).groups == []


def test_4_1_request_6_the_groups_answers_are_merged_with_the_others(client: RawClient) -> None:
    create_topic(client, "t", 2)
    reply = client.call(requests.commit({"t": [1, 5], "absent": [0]}, generation_id=7), 9)
    expected = {("t", 1): ErrorCode.GROUP_ID_NOT_FOUND, ("t", 5): UNKNOWN, ("absent", 0): UNKNOWN}
    assert errors_of(reply.topics) == expected


def test_4_2_the_broker_resolves_the_topic_id_also_when_the_client_used_a_name(client: RawClient) -> None:
    create_topic(client, "t", 1)
    client.call(requests.commit({"t": [0]}, offset=5), 9)
    delete_topic(client, "t")
    create_topic(client, "t", 1)
    assert offsets_of(client.call(requests.fetch({"t": [0]}, 7), 7).topics) == {("t", 0): -1}


def test_4_1_1_the_empty_group_id_is_accepted_for_offsets_and_by_the_administrators_requests(client: RawClient) -> None:
    create_topic(client, "t", 1)
    reply = client.call(requests.commit({"t": [0]}, "", offset=5), 9)
    assert errors_of(reply.topics) == {("t", 0): OK}
    assert offsets_of(fetched(client.call(requests.fetch(None, 9, ""), 9), 9)) == {("t", 0): 5}
    assert client.call(requests.describe("")).groups[0].group_state == "Empty"
    assert client.call(requests.delete_groups("")).results[0].error_code == OK


# -- 4.3 OffsetFetch in all its versions


@pytest.fixture
def committed(client: RawClient) -> bytes:
    """Topic t with offsets in partitions 0 and 2; its id."""
    topic_id = create_topic(client, "t", 4)
    client.call(requests.commit({"t": [0]}, offset=10), 9)
    client.call(requests.commit({"t": [2]}, offset=12), 9)
    return topic_id


def fetched(reply: Any, version: int) -> Any:
    if version < BATCHED:
        return reply.topics
    (group,) = reply.groups
    assert group.error_code == OK
    return group.topics


@pytest.mark.parametrize("version", range(1, 11))
def test_4_3_what_is_committed_and_what_is_not(client: RawClient, committed: bytes, version: int) -> None:
    topic: str | bytes = committed if version >= WITH_IDS else "t"
    topics = fetched(client.call(requests.fetch({topic: [0, 1, 2]}, version), version), version)
    assert offsets_of(topics) == {(topic, 0): 10, (topic, 1): -1, (topic, 2): 12}
    assert set(errors_of(topics).values()) == {OK}
    assert {row.metadata for row in rows_of(topics).values()} == {""}


@pytest.mark.parametrize("version", range(2, 11))
def test_4_3_null_asks_for_all(client: RawClient, committed: bytes, version: int) -> None:
    topic: str | bytes = committed if version >= WITH_IDS else "t"
    topics = fetched(client.call(requests.fetch(None, version), version), version)
    assert offsets_of(topics) == {(topic, 0): 10, (topic, 2): 12}


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_4_3_an_unknown_group_is_no_error_and_has_nothing(client: RawClient, version: int) -> None:
    assert list(fetched(client.call(requests.fetch(None, version, "unheard"), version), version)) == []


@pytest.mark.parametrize("version", [1, 5, 7, 8, 9])
def test_4_3_whether_the_topic_exists_is_not_checked(client: RawClient, version: int) -> None:
    topics = fetched(client.call(requests.fetch({"absent": [0]}, version), version), version)
    assert (offsets_of(topics), errors_of(topics)) == ({("absent", 0): -1}, {("absent", 0): OK})


@pytest.mark.parametrize("version", [8, 9, 10])
def test_4_3_several_groups_each_with_its_answer(client: RawClient, committed: bytes, version: int) -> None:
    client.call(requests.commit({"t": [1]}, "h", offset=21), 9)
    reply = client.call(requests.fetch(None, version, "g", "h", "unheard"), version)
    topic: str | bytes = committed if version >= WITH_IDS else "t"
    found = {group.group_id: offsets_of(group.topics) for group in reply.groups}
    assert found == {"g": {(topic, 0): 10, (topic, 2): 12}, "h": {(topic, 1): 21}, "unheard": {}}


def test_4_3_v10_an_unknown_id_is_100_with_offset_minus_1(client: RawClient, committed: bytes) -> None:
    topics = fetched(client.call(requests.fetch({committed: [0], STRANGE_ID: [0]}, 10), 10), 10)
    assert errors_of(topics) == {(committed, 0): OK, (STRANGE_ID, 0): ErrorCode.UNKNOWN_TOPIC_ID}
    assert offsets_of(topics) == {(committed, 0): 10, (STRANGE_ID, 0): -1}


def test_4_3_v10_all_omits_topics_whose_id_is_not_known(broker: Broker, client: RawClient, committed: bytes) -> None:
    """An offset of a topic that is gone, as a log from before the deletion could have it."""

    def forge(server: Server) -> None:
        core = server.group_coordinator.shard_of("g").core
        core.offsets._groups["g"]["gone"] = core.offsets._groups["g"]["t"]

    broker.call(forge)
    by_name = fetched(client.call(requests.fetch(None, 9), 9), 9)
    assert {topic.name for topic in by_name} == {"t", "gone"}
    by_id = fetched(client.call(requests.fetch(None, 10), 10), 10)
    assert [topic.topic_id for topic in by_id] == [committed]


def test_4_3_v10_of_a_topic_created_anew_there_is_nothing(client: RawClient, committed: bytes) -> None:
    delete_topic(client, "t")
    topic_id = create_topic(client, "t", 4)
    topics = fetched(client.call(requests.fetch({topic_id: [0]}, 10), 10), 10)
    assert (topic_id != committed, offsets_of(topics)) == (True, {(topic_id, 0): -1})


def test_4_3_without_describe_on_the_group_is_30_in_v1_on_every_partition(deny: Callable[..., RawClient]) -> None:
    client = deny("DESCRIBE GROUP g")
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    old = client.call(requests.fetch({"t": [0, 1]}, 1), 1)
    assert errors_of(old.topics) == {("t", 0): denied, ("t", 1): denied}
    for version in range(2, BATCHED):
        reply = client.call(requests.fetch({"t": [0]}, version), version)
        assert (reply.error_code, reply.topics) == (denied, [])
    for version in (8, 9):
        reply = client.call(requests.fetch({"t": [0]}, version, "g", "h"), version)
        assert [(group.group_id, group.error_code) for group in reply.groups] == [("g", denied), ("h", OK)]


def test_4_3_without_describe_on_a_topic_is_29_per_partition(deny: Callable[..., RawClient]) -> None:
    client = deny("DESCRIBE TOPIC u")
    client.call(requests.commit({"u": [0]}), 9)
    topics = fetched(client.call(requests.fetch({"t": [0], "u": [0]}, 9), 9), 9)
    assert errors_of(topics) == {("t", 0): OK, ("u", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_4_3_all_omits_topics_that_may_not_be_described(deny: Callable[..., RawClient]) -> None:
    client = deny("DESCRIBE TOPIC u")
    client.call(requests.commit({"t": [0], "u": [0]}), 9)
    assert [topic.name for topic in fetched(client.call(requests.fetch(None, 9), 9), 9)] == ["t"]


def test_4_3_member_id_and_epoch_mean_nothing_to_a_classic_group(client: RawClient, committed: bytes) -> None:
    request = requests.fetch({"t": [0]}, 9)
    request.groups[0].member_id, request.groups[0].member_epoch = "stranger", 77
    assert offsets_of(fetched(client.call(request, 9), 9)) == {("t", 0): 10}


@pytest.mark.parametrize("version", [7, 8, 10])
def test_4_3_require_stable_reads_after_all_writes_before_it(client: RawClient, committed: bytes, version: int) -> None:
    """Both requests are in one read of the broker, so the commit cannot be durable when the fetch is looked at."""
    topic: str | bytes = committed if version >= WITH_IDS else "t"
    fetch = requests.fetch({topic: [0]}, version, require_stable=True)
    _, reply = call_together(client, (requests.commit({"t": [0]}, offset=99), 9), (fetch, version))
    assert offsets_of(fetched(reply, version)) == {(topic, 0): 99}


@pytest.mark.parametrize("version", [5, 7, 8, 10])
def test_4_3_without_require_stable_it_reads_what_is_committed_already(
    client: RawClient, committed: bytes, version: int
) -> None:
    topic: str | bytes = committed if version >= WITH_IDS else "t"
    fetch = requests.fetch({topic: [0]}, version)
    _, reply = call_together(client, (requests.commit({"t": [0]}, offset=99), 9), (fetch, version))
    assert offsets_of(fetched(reply, version)) == {(topic, 0): 10}


# -- 4.4 OffsetDelete


def test_4_4_checks_of_the_handler(deny: Callable[..., RawClient]) -> None:
    client = deny("DELETE GROUP g", "READ TOPIC u")
    assert client.call(requests.delete_offsets({"t": [0]})).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert client.call(requests.delete_offsets({"t": [0]}, "")).error_code == ErrorCode.INVALID_GROUP_ID
    client.call(requests.commit({"t": [0]}, "h"), 9)
    reply = client.call(requests.delete_offsets({"t": [0], "u": [0], "absent": [0]}, "h"))
    assert errors_of(reply.topics) == {
        ("t", 0): OK,
        ("u", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ("absent", 0): UNKNOWN,
    }
    assert offsets_of(fetched(client.call(requests.fetch(None, 9, "h"), 9), 9)) == {}


def test_4_4_a_topic_of_which_only_some_partitions_exist_is_answered_once(client: RawClient) -> None:
    create_topic(client, "t", 1)
    client.call(requests.commit({"t": [0]}), 9)
    reply = client.call(requests.delete_offsets({"t": [0, 5]}))
    assert errors_of(reply.topics) == {("t", 0): OK, ("t", 5): UNKNOWN}


# -- 4.6 a deleted topic


def test_4_6_offsets_of_a_deleted_topic_go_at_once(client: RawClient, committed: bytes) -> None:
    create_topic(client, "u", 1)
    client.call(requests.commit({"u": [0]}, offset=3), 9)
    delete_topic(client, "t")
    found = client.call(requests.fetch(None, 9, require_stable=True), 9)
    assert offsets_of(fetched(found, 9)) == {("u", 0): 3}


def test_4_6_offsets_that_are_being_committed_when_their_topic_is_deleted_go_too(client: RawClient) -> None:
    create_topic(client, "t", 1)
    client.call(requests.commit({"t": [0]}), 9)
    delete = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
    call_together(client, (requests.commit({"t": [0]}, "h"), 9), (delete, 5))
    found = client.call(requests.fetch(None, 9, "g", "h", require_stable=True), 9)
    assert [offsets_of(group.topics) for group in found.groups] == [{}, {}]


# -- 5.2 FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_5_2_ok_is_the_endpoint_the_request_came_in_on(broker: Broker, client: RawClient, version: int) -> None:
    host, port = broker.bootstrap_servers.split(":")
    reply = client.call(requests.find(version, "g"), version)
    one = reply if version < 4 else reply.coordinators[0]
    assert (one.error_code, one.node_id, one.host, one.port) == (OK, 1, host, int(port))
    if version in (1, 2, 3):
        assert one.error_message == "NONE"
    if version >= 4:
        assert (one.key, one.error_message) == ("g", "")


@pytest.mark.parametrize("version", [4, 5, 6])
def test_5_2_errors_are_per_key(deny: Callable[..., RawClient], version: int) -> None:
    client = deny("DESCRIBE GROUP secret")
    reply = client.call(requests.find(version, "g", "secret", ""), version)
    rows = [(row.key, row.error_code, row.node_id) for row in reply.coordinators]
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert rows == [("g", OK, 1), ("secret", denied, -1), ("", OK, 1)]  # the empty group id is not rejected
    assert (reply.coordinators[1].host, reply.coordinators[1].port) == ("", -1)


@pytest.mark.parametrize("version", [0, 1, 3])
def test_5_2_without_describe_on_the_group_is_30(deny: Callable[..., RawClient], version: int) -> None:
    reply = deny("DESCRIBE GROUP g").call(requests.find(version, "g"), version)
    assert (reply.error_code, reply.node_id, reply.host, reply.port) == (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        -1,
        "",
        -1,
    )


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize("key_type", [2, 3, -1, 127])
def test_5_2_an_unknown_key_type_is_42_also_share_groups_which_are_not_served(
    client: RawClient, version: int, key_type: int
) -> None:
    reply = client.call(requests.find(version, "g", key_type=key_type), version)
    one = reply if version < 4 else reply.coordinators[0]
    assert (one.error_code, one.node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_5_2_the_offsets_topic_is_created_by_the_first_question(broker: Broker, client: RawClient) -> None:
    """On Kafka that takes a while and is 15 meanwhile; here it is done before the answer."""
    assert broker.call(lambda server: server.topics.get(OFFSETS_TOPIC)) is None
    assert client.call(requests.find(6, "g"), 6).coordinators[0].error_code == OK
    topic = broker.call(lambda server: server.topics.get(OFFSETS_TOPIC))
    assert topic is not None
    assert len(topic.partitions) == 50


# -- 5.4 while loading, and where the coordinator is not: every request, on the wire

ANSWERS: dict[str, tuple[Message, int, int, int]] = {
    # request, version, loading, elsewhere
    "JoinGroup": (requests.join("m"), 9, 14, 16),
    "SyncGroup": (requests.sync(), 5, 27, 16),  # 27 as rule 5.4 says
    "Heartbeat": (requests.heartbeat(), 4, 0, 16),
    "LeaveGroup": (requests.leave(), 5, 14, 16),
    "OffsetCommit": (requests.commit({"t": [0]}), 9, 14, 16),
    "OffsetFetch": (requests.fetch({"t": [0]}, 9), 9, 14, 16),
    "OffsetFetch, stable": (requests.fetch({"t": [0]}, 9, require_stable=True), 9, 14, 16),
    "OffsetDelete": (requests.delete_offsets({"t": [0]}), 0, 14, 16),
    "DescribeGroups": (requests.describe(), 6, 14, 16),
    "DeleteGroups": (requests.delete_groups(), 3, 14, 16),
}


def set_status(broker: Broker, status: Status) -> None:
    """Of all shards, as if they were being loaded, or led by another broker."""

    def do(server: Server) -> None:
        for shard in server.group_coordinator.shards:
            shard.core.status = status

    broker.call(do)


@pytest.mark.parametrize("name", ANSWERS)
def test_5_4_answers_while_loading_and_elsewhere(broker: Broker, client: RawClient, name: str) -> None:
    """The second column is the Dead one of rule 1.3 too: after an unload the shard is asked first, and says 16."""
    request, version, loading, elsewhere = ANSWERS[name]
    create_topic(client, "t", 1)
    set_status(broker, Status.LOADING)
    assert top_error(request, client.call(request, version)) == loading
    set_status(broker, Status.CLOSED)
    assert top_error(request, client.call(request, version)) == elsewhere


def test_5_4_list_groups_is_14_while_any_shard_is_loading_and_skips_those_elsewhere(
    broker: Broker, client: RawClient
) -> None:
    create_topic(client, "t", 1)
    for group in ("g", "test"):  # partitions 3 and 48
        client.call(requests.commit({"t": [0]}, group), 9)

    def load_one(server: Server) -> None:
        server.group_coordinator.shards[7].core.status = Status.LOADING

    broker.call(load_one)
    assert client.call(requests.list_groups()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def unload_one(server: Server) -> None:
        server.group_coordinator.shards[7].core.status = Status.ACTIVE
        server.group_coordinator.shards[48].close()

    broker.call(unload_one)
    reply = client.call(requests.list_groups())
    assert (reply.error_code, [row.group_id for row in reply.groups]) == (OK, ["g"])


def test_5_3_a_shard_that_cannot_be_loaded_answers_16_and_the_others_serve(
    start: Start, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    create_topic(client, "t", 1)
    client.call(requests.commit({"t": [0]}, "g", offset=4), 9)
    client.call(requests.commit({"t": [0]}, "test", offset=5), 9)

    def spoil(server: Server) -> None:
        """A group's record in a version nobody knows."""
        shard = server.group_coordinator.shard_of("g")
        batch = memoryview(build_batch([Record(0, 0, b"\x00\x02\x00\x01g", b"\x00\x63", ())]))
        server.append(shard.partition, batch, [(0, read_header(batch))], server.clock.now())

    broker.call(spoil)
    broker.stop()
    again = connect(start(data=tmp_path))
    eventually(lambda: again.call(requests.fetch(None, 9), 9).groups[0].error_code != 14, "the shard is done")
    assert again.call(requests.fetch(None, 9), 9).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert again.call(requests.join("m"), 9).error_code == ErrorCode.NOT_COORDINATOR
    stored = eventually(
        lambda: [*again.call(requests.fetch(None, 9, "test"), 9).groups[0].topics], "the other is loaded"
    )
    assert offsets_of(stored) == {("t", 0): 5}
    assert "could not be loaded" in caplog.text
    caplog.clear()


# -- 1.4, as the handlers say it


def test_1_4_describe_says_the_clients_address_as_java_does(
    broker: Broker, client: RawClient, connect: Connect
) -> None:
    member_id = client.call(requests.join()).member_id
    client.send(requests.join(member_id))
    other = connect(broker)
    (member,) = eventually(lambda: other.call(requests.describe()).groups[0].members, "the member has joined")
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "raw", "/127.0.0.1")


def test_1_4_authorized_operations_only_if_asked_for(client: RawClient) -> None:
    create_topic(client, "t", 1)
    client.call(requests.commit({"t": [0]}), 9)
    assert client.call(requests.describe()).groups[0].authorized_operations == -(2**31)
    asked = client.call(requests.describe(include_authorized_operations=True)).groups[0]
    assert asked.authorized_operations == 3400  # read, delete, describe, describe and alter configs


def test_1_4_list_has_the_groups_of_all_shards(client: RawClient) -> None:
    create_topic(client, "t", 1)
    names = ["g", "test", "my-group", "group-0", "console-consumer-12345"]
    for name in names:
        client.call(requests.commit({"t": [0]}, name), 9)
    assert sorted(row.group_id for row in client.call(requests.list_groups()).groups) == sorted(names)


def test_1_4_a_name_given_twice_is_deleted_once(client: RawClient) -> None:
    create_topic(client, "t", 1)
    client.call(requests.commit({"t": [0]}), 9)
    results = client.call(requests.delete_groups("g", "unheard", "g")).results
    codes = {row.group_id: row.error_code for row in results}
    assert (len(results), codes) == (2, {"g": OK, "unheard": ErrorCode.GROUP_ID_NOT_FOUND})


def test_1_4_delete_waits_for_commits_under_way_whose_offsets_must_go_too(client: RawClient) -> None:
    create_topic(client, "t", 1)
    _, deleted = call_together(client, (requests.commit({"t": [0]}), 9), (requests.delete_groups(), 3))
    assert [row.error_code for row in deleted.results] == [OK]
    assert list(fetched(client.call(requests.fetch(None, 9), 9), 9)) == []


@pytest.mark.parametrize("request_", [requests.describe(), requests.delete_groups()])
def test_1_4_without_the_right_is_30(deny: Callable[..., RawClient], request_: Message) -> None:
    client = deny("DESCRIBE GROUP g", "DELETE GROUP g")
    assert top_error(request_, client.call(request_)) == ErrorCode.GROUP_AUTHORIZATION_FAILED


# -- generated ids


def test_2_2_a_generated_member_id_is_the_client_id_and_a_random_uuid(client: RawClient) -> None:
    member_id = client.call(requests.join()).member_id
    prefix, _, rest = member_id.partition("-")
    assert prefix == "raw"
    assert len(rest) == 36
    assert rest[14] == "4"
