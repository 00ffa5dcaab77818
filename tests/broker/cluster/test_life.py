"""Brokers that are stopped, killed, cut off and back; what is asked of them wrongly."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import suppress

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.client import Producer
from equipoise.errors import UsageError
from equipoise.server_process import free_port
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import BY_NAME, append, create_topic, fetch_request, fetched
from tests.broker.cluster.conftest import At
from tests.broker.conftest import eventually, waiting_calls
from tests.broker.rawclient import RawClient

BROKER = 4


def is_refused(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_killed_broker_resets_its_connections(three: Broker, at: At) -> None:
    client = at(1)
    client.call(ApiVersionsRequest())
    three.brokers[1].kill()
    with pytest.raises(ConnectionResetError) as raised:
        client.receive_frame()
    assert raised.value.errno == errno.ECONNRESET
    assert is_refused(three.brokers[1].address)
    assert not three.brokers[1].is_running
    assert at(2).call(MetadataRequest(topics=[])).controller_id == 2


def test_a_connection_that_was_accepted_at_the_last_moment_is_reset(three: Broker) -> None:
    """The loop accepts it in the turn in which the broker is killed."""
    host, _, port = three.brokers[2].address.rpartition(":")

    async def kill(server: Server) -> socket.socket:
        found = socket.create_connection((host, int(port)), timeout=10)
        await asyncio.sleep(0)
        server.cluster.kill(2)
        return found

    with three.call_async(kill) as late, pytest.raises(ConnectionResetError):
        late.recv(1)
    assert three.call(lambda server: server.cluster.nodes[2].connections) == []


def test_a_stopped_broker_answers_what_it_has_taken(three: Broker, at: At) -> None:
    client = at(1)
    client.send(fetch_request(max_wait_ms=60_000), BY_NAME)
    eventually(lambda: waiting_calls(three), "it waits for records")
    three.brokers[1].stop()
    assert fetched(client.receive()).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ConnectionResetError, match="connection closed"):
        client.receive_frame()
    assert is_refused(three.brokers[1].address)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_others_lead_until_it_is_preferred_again(three: Broker, at: At, how: str) -> None:
    before, address = three.brokers[1].leads, three.brokers[1].address
    getattr(three.brokers[1], how)()
    assert three.brokers[1].leads == set()
    assert append(at(2), b"v") == 0  # the next replica leads
    three.brokers[1].start()
    assert (three.brokers[1].address, three.brokers[1].leads) == (address, set())
    three.elect_leaders()
    assert three.brokers[1].leads == before
    assert append(at(1), b"w") == 1


def test_a_broker_that_is_cut_off_leads_on(three: Broker, at: At) -> None:
    client, before = at(3), three.brokers[3].leads
    client.call(ApiVersionsRequest())
    with three.brokers[3].cut():
        with pytest.raises(ConnectionResetError, match="by peer"):
            client.receive_frame()
        assert is_refused(three.brokers[3].address)
        assert three.brokers[3].leads == before
        assert {one.node_id for one in at(1).call(MetadataRequest(topics=[])).brokers} == {1, 2, 3}
    assert append(at(3), b"v", partition=2) == 0


def test_a_partition_without_replicas_that_run(three: Broker, at: At) -> None:
    """Replication factor 1, as on Kafka: nobody leads it until its broker is back."""
    create_topic(at(1), "single", 3)
    with at(2) as client:
        three.brokers[1].kill()
        (topic,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="single")])).topics
        found = {(one.error_code, one.leader_id) for one in topic.partitions if one.replica_nodes == [1]}
        assert found == {(ErrorCode.LEADER_NOT_AVAILABLE, -1)}
        three.brokers[1].start()
        (topic,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="single")])).topics
        found = {(one.error_code, one.leader_id) for one in topic.partitions if one.replica_nodes == [1]}
        assert found == {(ErrorCode.NONE, 1)}


def test_a_topic_that_is_made_while_a_broker_is_down(three: Broker, at: At) -> None:
    three.brokers[2].kill()
    topic = CreatableTopic(name="late", num_partitions=3, replication_factor=3)
    at(1).call(CreateTopicsRequest(topics=[topic]))
    (found,) = at(1).call(MetadataRequest(topics=[MetadataRequestTopic(name="late")])).topics
    assert {one.leader_id for one in found.partitions} == {1, 3}
    three.brokers[2].start()
    three.elect_leaders()
    (found,) = at(1).call(MetadataRequest(topics=[MetadataRequestTopic(name="late")])).topics
    assert {one.leader_id for one in found.partitions} == {1, 2, 3}


def test_each_broker_has_a_port_above_the_last() -> None:
    for _ in range(20):
        port = free_port()
        with (
            suppress(UsageError),  # another process has one of the two ports above it
            Broker(brokers=3, listen=f"127.0.0.1:{port}") as broker,
        ):
            found = [one.address for one in broker.brokers.values()]
            assert found == [f"127.0.0.1:{port + shift}" for shift in range(3)]
            return
    pytest.fail("no three ports in a row were free")


def test_several_listeners_and_advertised_addresses() -> None:
    settings = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "advertised.listeners": "OUT://kafka.example.com:9000",
    }
    with Broker(settings, brokers=2) as broker:
        inside, outside = broker.call(lambda server: [one.address for one in server.cluster.nodes[2].listeners.all])
        with RawClient(inside) as one, RawClient(outside) as other:
            told = [client.call(MetadataRequest(topics=[])).brokers for client in (one, other)]
        addresses = [[f"{row.host}:{row.port}" for row in rows] for rows in told]
        assert addresses[0][1] == inside
        assert addresses[1] == ["kafka.example.com:9000", "kafka.example.com:9001"]


def test_each_broker_describes_itself(three: Broker, at: At) -> None:
    def described(node_id: int, name: str) -> dict[str, str]:
        asked = DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=["node.id"])
        (row,) = at(node_id).call(DescribeConfigsRequest(resources=[asked])).results
        return {one.name: one.value for one in row.configs}

    assert described(2, "2") == {"node.id": "2"}
    assert described(2, "1") == {}


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (lambda broker: broker.brokers[1].start(), "broker 1 is running already"),
        (lambda broker: broker.brokers[1].heal(), "broker 1 is not cut off"),
        (lambda broker: broker.move_leader("t", 0, to=9), "there is no broker 9: 1, 2, 3"),
        (lambda broker: broker.move_leader("t", 7, to=1), "t has partitions 0 to 2"),
        (lambda broker: broker.move_leader("absent", 0, to=1), "there is no topic 'absent'"),
        (lambda broker: broker.elect_unclean("t", 0, to=1, lose=-1), "lose=-1"),
    ],
)
def test_what_cannot_be_done_is_said(three: Broker, deed: object, told: str) -> None:
    assert callable(deed)
    with pytest.raises(UsageError, match=told):
        deed(three)


def test_a_dead_broker_cannot_do_anything(three: Broker) -> None:
    three.brokers[2].kill()
    for deed in (three.brokers[2].kill, three.brokers[2].stop, three.brokers[2].cut):
        with pytest.raises(UsageError, match="broker 2 is not running"):
            deed()
    with pytest.raises(UsageError, match="broker 2 is not running"):
        three.move_leader("t", 0, to=2)
    with pytest.raises(KeyError):
        three.brokers[4]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"broker.rack": "a,b"}, "name one rack, or one for each of the 3 brokers"),
        ({"default.replication.factor": 4}, "must be between 1 and 3"),
        ({"node.id": 2**31 - 1}, "too large for 3 brokers"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Broker(settings, brokers=3)


def test_behind_tls_and_sasl() -> None:
    users = {"alice": "alice-secret"}
    with Broker(brokers=3, topics={"t": 3}, security="SASL_SSL", users=users) as broker:
        with Producer(broker.client_settings("alice")) as producer:
            for node_id in (1, 2, 3):
                broker.brokers[node_id].kill()
                for partition in range(3):
                    producer.send("t", b"v", partition=partition).result(60)
                broker.brokers[node_id].start()
        assert broker.topics["t"].end_offsets == [3, 3, 3]


def test_one_broker_is_a_cluster_too() -> None:
    """Killed, it is gone; started, it is back with what it had."""
    with Broker(topics={"t": 1}) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            append(client, b"v")
        broker.brokers[1].kill()
        assert broker.brokers[1].leads == set()
        broker.brokers[1].start()
        with RawClient(broker.bootstrap_servers) as client:
            assert append(client, b"w") == 1
