"""Listeners: names, protocols, addresses, settings of their own; and what clients are told by which listener."""

from __future__ import annotations

import pytest

from equipoise.broker.config import BrokerConfig
from equipoise.broker.net.listener_config import ConfiguredListener
from equipoise.security.secrets import Secret
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k60_describe_cluster import DescribeClusterRequest
from equipoise.wire.errors import UsageError
from tests.broker.conftest import Connect, Start
from tests.broker.rawclient import RawClient


def parse(**settings: object) -> tuple[ConfiguredListener, ...]:
    return BrokerConfig.parse({name.replace("_", "."): value for name, value in settings.items()}).configured_listeners


def test_without_listeners_there_is_a_plain_one() -> None:
    (only,) = parse()
    assert (only.name, only.protocol, only.advertised) == ("PLAINTEXT", "PLAINTEXT", None)


def test_names_are_in_capitals_and_have_protocols() -> None:
    inside, outside, v6 = BrokerConfig.parse(
        {
            "listeners": "inside://:9092, OUTSIDE://0.0.0.0:9093,V6://[::1]:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,outside:sasl_ssl,V6:SSL",
            "advertised.listeners": "OUTSIDE://kafka.example.com:443",
            "sasl.enabled.mechanisms": "PLAIN",
        }
    ).configured_listeners
    assert (inside.name, inside.protocol, inside.host, inside.port) == ("INSIDE", "PLAINTEXT", "", 9092)
    assert (outside.protocol, outside.advertised) == ("SASL_SSL", ("kafka.example.com", 443))
    assert (v6.host, v6.port, v6.advertised) == ("::1", 9093, None)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"listeners": "localhost:9092"}, "is no listener"),
        ({"listeners": "PLAINTEXT://a:99999"}, "is no listener"),
        ({"listeners": "A://:1"}, "A has no protocol"),
        ({"listeners": "SSL://:1,ssl://:2"}, "a name of its own"),
        ({"listeners": "SSL://:1,PLAINTEXT://:1"}, "1 stands twice"),
        ({"listener.security.protocol.map": "A:TLS"}, "A:TLS"),
        ({"listeners": "PLAINTEXT://:1", "advertised.listeners": "SSL://a:1"}, "there is no listener SSL"),
        ({"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "cannot connect"),
        ({"listeners": "SASL_PLAINTEXT://:1"}, "say sasl.enabled.mechanisms"),
        ({"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "GSSAPI"}, "must be one or more of PLAIN"),
        ({"listener.name.other.ssl.client.auth": "none"}, "there is no such listener"),
        ({"listener.name.plaintext.ssl.client.auht": "none"}, "did you mean 'ssl.client.auth'"),
        ({"listener.name.plaintext.ssl.client.auth": "maybe"}, "must be one of none, requested, required"),
        ({"ssl.client.auht": "none"}, "did you mean 'ssl.client.auth'"),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_start(settings: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        BrokerConfig.parse(settings)


def test_a_listeners_own_setting_goes_before_the_common_one() -> None:
    a, b = BrokerConfig.parse(
        {
            "listeners": "SASL_PLAINTEXT://:1,B://:2",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "connections.max.reauth.ms": 1000,
            "listener.name.b.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.b.connections.max.reauth.ms": "2000",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": 3000,
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'PlainLoginModule required user_a="pw";',
        }
    ).configured_listeners
    assert (a.mechanisms, b.mechanisms) == (["PLAIN", "SCRAM-SHA-256"], ["SCRAM-SHA-512"])
    assert a.of_mechanism("PLAIN").connections_max_reauth_ms == 3000
    assert a.of_mechanism("SCRAM-SHA-256").connections_max_reauth_ms == 1000
    assert b.of_mechanism("SCRAM-SHA-512").connections_max_reauth_ms == 2000
    assert a.of_mechanism("PLAIN").sasl_jaas_config == Secret('PlainLoginModule required user_a="pw";')
    assert "pw" not in repr(a)


def test_client_certificates_on_a_sasl_listener_need_its_prefix(caplog: pytest.LogCaptureFixture) -> None:
    common = {"listeners": "SASL_SSL://:1", "sasl.enabled.mechanisms": "PLAIN", "ssl.client.auth": "required"}
    (only,) = BrokerConfig.parse(common).configured_listeners
    assert only.config.ssl_client_auth == "none"
    assert "with the listener's prefix only" in caplog.text
    (own,) = BrokerConfig.parse({**common, "listener.name.sasl_ssl.ssl.client.auth": "required"}).configured_listeners
    assert own.config.ssl_client_auth == "required"


# -- what clients are told


def told(client: RawClient) -> set[tuple[str, int]]:
    metadata, cluster = client.call(MetadataRequest(topics=[])), client.call(DescribeClusterRequest())
    coordinator = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])).coordinators[0]
    return {(one.host, one.port) for one in (*metadata.brokers, *cluster.brokers, coordinator)}


def test_an_answer_names_the_listener_by_which_the_request_came(start: Start) -> None:
    broker = start(
        {
            "listeners": "A://127.0.0.1:0,B://127.0.0.1:0,C://localhost:0",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
            "advertised.listeners": "B://elsewhere.example.com:7",
        }
    )
    first, second, third = broker.server.listeners.all
    assert broker.bootstrap_servers == first.address
    with RawClient(first.address) as client:
        assert told(client) == {("127.0.0.1", first.port)}
    with RawClient(second.address) as client:
        assert told(client) == {("elsewhere.example.com", 7)}
    with RawClient(f"127.0.0.1:{third.port}") as client:
        assert told(client) == {("127.0.0.1", third.port)}


def test_the_session_knows_its_listener(start: Start, connect: Connect) -> None:
    broker = start({"listeners": "INSIDE://127.0.0.1:0", "listener.security.protocol.map": "INSIDE:PLAINTEXT"})
    connect(broker).call(MetadataRequest(topics=[]))
    (session,) = broker.call(lambda server: [one.session for one in server.connections])
    assert (session.listener, session.host, session.principal) == ("INSIDE", "127.0.0.1", "User:ANONYMOUS")


def test_one_address_may_have_so_many_connections(start: Start, connect: Connect) -> None:
    broker = start({"max.connections.per.ip": 2})
    kept = [connect(broker) for _ in range(2)]
    for client in kept:
        client.call(MetadataRequest(topics=[]))
    connect(broker).wait_closed()
    kept[0].close()
    kept[1].call(MetadataRequest(topics=[]))

    def is_served() -> bool:
        try:
            connect(broker).call(MetadataRequest(topics=[]))
        except ConnectionError:
            return False
        return True

    from tests.broker.conftest import eventually

    eventually(is_served, "the place of the one that has gone is free")


def test_a_port_in_use_is_a_start_error_and_leaves_nothing_open(start: Start) -> None:
    taken = start().bootstrap_servers
    with pytest.raises(UsageError, match="cannot listen"):
        start(
            {
                "listeners": f"A://127.0.0.1:0,PLAINTEXT://{taken}",
                "listener.security.protocol.map": "A:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            }
        )


_BOTH_PLAIN = "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"
