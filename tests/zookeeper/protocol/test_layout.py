"""Paths and JSON as Kafka's own consumers and brokers of that time wrote them."""

from __future__ import annotations

import json
import re

import pytest

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.zookeeper.protocol.assignment import Strategy
from equipoise.zookeeper.protocol.layout import (
    BrokerAddress,
    GroupPaths,
    Registration,
    TopicFilter,
    blacklist,
    broker_address,
    broker_json,
    stored_offset,
    topic_json,
    topic_replicas,
    whitelist,
)
from equipoise.zookeeper.session import unique_name


def test_the_paths_of_a_group() -> None:
    paths, partition = GroupPaths("billing"), TopicPartition("orders", 3)
    assert paths.registration("billing_c") == "/consumers/billing/ids/billing_c"
    assert paths.owner(partition) == "/consumers/billing/owners/orders/3"
    assert paths.offset(partition) == "/consumers/billing/offsets/orders/3"


def test_a_registration_of_the_old_consumer_is_its_json_and_nothing_more() -> None:
    written = Registration({"orders": 2}, "static", 1700000000000).to_json()
    assert json.loads(written) == {
        "version": 1,
        "subscription": {"orders": 2},
        "pattern": "static",
        "timestamp": "1700000000000",
    }


def test_a_registration_comes_back() -> None:
    registered = Registration({"a.*": 1}, "white_list", 5, Strategy("roundrobin", "[t,p]"), False)
    assert Registration.from_json("c", registered.to_json()) == registered


def test_an_old_registration_says_nothing_of_its_strategy() -> None:
    read = Registration.from_json("c", b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"7"}')
    assert (read.strategy, read.exclude_internal, read.timestamp_ms) == (None, None, 7)


def test_a_pattern_is_applied_with_the_readers_view_unless_the_member_has_told_its_own() -> None:
    known = ["__consumer_offsets", "a", "b"]
    old = Registration({".*": 2}, "white_list")
    assert old.topics(known, exclude_internal=True) == {"a": 2, "b": 2}
    assert old.topics(known, exclude_internal=False) == {"__consumer_offsets": 2, "a": 2, "b": 2}
    told = Registration({".*": 2}, "white_list", exclude_internal=False)
    assert told.topics(known, exclude_internal=True) == {"__consumer_offsets": 2, "a": 2, "b": 2}


@pytest.mark.parametrize(
    ("chosen", "allowed"),
    [
        (whitelist("a,b.*"), {"a", "bc"}),
        (whitelist(" 'a | bc' "), {"a", "bc"}),
        (blacklist("a"), {"ab", "bc"}),
        (whitelist("a"), {"a"}),
    ],
)
def test_filters(chosen: TopicFilter, allowed: set[str]) -> None:
    assert {topic for topic in ("a", "ab", "bc") if chosen.allows(topic, exclude_internal=True)} == allowed


def test_a_filter_that_asks_for_too_much_is_refused() -> None:
    with pytest.raises(UsageError, match="is no regular expression: the repetition number is too large"):
        whitelist("a{99999999999}")


def test_a_filter_that_is_no_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        whitelist("a(")


def test_brokers() -> None:
    written = broker_json("host", 9092, 5, "r1")
    assert json.loads(written) == {
        "version": 4,
        "host": "host",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "5",
        "endpoints": ["PLAINTEXT://host:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "rack": "r1",
    }
    assert broker_address("0", written) == BrokerAddress("host", 9092)
    assert broker_address("0", b'{"version":1,"host":"h","port":1,"jmx_port":-1}') == BrokerAddress("h", 1)
    other = b'{"version":3,"host":null,"port":-1,"endpoints":["SSL://x:1","PLAINTEXT://[::1]:2"]}'
    assert broker_address("0", other) == BrokerAddress("::1", 2)


def test_a_broker_without_a_plaintext_listener_is_named() -> None:
    data = b'{"version":4,"host":null,"port":-1,"endpoints":["SSL://a:9093"]}'
    for written in (data, broker_json("a", 9093, 5, protocol="SASL_SSL")):
        with pytest.raises(ProtocolError, match=r"the registration of broker 1 .* has no PLAINTEXT listener"):
            broker_address("1", written)


def test_topics() -> None:
    written = topic_json({10: [0], 2: [0]})
    assert written == b'{"version":1,"partitions":{"2":[0],"10":[0]}}'
    assert topic_replicas("t", written) == {2: [0], 10: [0]}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"partitions":[]}', b'{"partitions":{"x":[0]}}'])
def test_what_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="the node of topic orders in ZooKeeper cannot be read"):
        topic_replicas("orders", data)


@pytest.mark.parametrize("names", ["{}", '{"a":1,"b":1}'])
def test_a_filter_that_is_not_one_is_named(names: str) -> None:
    data = f'{{"version":1,"subscription":{names},"pattern":"white_list","timestamp":"7"}}'.encode()
    with pytest.raises(ProtocolError, match="the registration of consumer c in ZooKeeper cannot be read"):
        Registration.from_json("c", data)


@pytest.mark.parametrize(
    ("data", "offset"), [(b"0", 0), (b" 41\n", 41), (b"9223372036854775807", 2**63 - 1), (b"-1", None), (b"", None)]
)
def test_offsets(data: bytes, offset: int | None) -> None:
    assert stored_offset("/offset", data) == offset


@pytest.mark.parametrize("data", [b"x", b"\xff", b"1_0", b"9223372036854775808", b"1.5"])
def test_an_offset_that_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="/offset in ZooKeeper is no offset"):
        stored_offset("/offset", data)


def test_a_consumer_id_is_group_host_time_and_chance() -> None:
    assert re.fullmatch(r".+-1700000000000-[0-9a-f]{8}", unique_name(1700000000000))
