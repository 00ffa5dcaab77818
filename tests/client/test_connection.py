"""A connection against our broker, and against peers that are too old, too slow, or no brokers at all."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from equipoise.broker import Broker
from equipoise.client import Connection, KafkaConnectionError
from equipoise.client.net.blocking import error_from
from equipoise.client.net.errors import TlsError
from equipoise.server_process import free_port
from equipoise.wire.apis.headers import decode_request_header
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError, UsageError
from tests.client.scripted import Answer, ScriptedBroker, answering, framed, refusing_version, serving

METADATA = (3, 0, 12)
NO_TOPICS = MetadataRequest(topics=[])
EMPTY = MetadataResponse(brokers=[], topics=[], cluster_id="tiny")


def connect(broker: ScriptedBroker, timeout: float = 20.0) -> Connection:
    return Connection("127.0.0.1", broker.port, timeout=timeout)


def test_requests_travel_in_the_newest_version_both_sides_know(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with Connection(host, int(port)) as connection:
        assert connection.version(MetadataRequest) == MetadataRequest.versions.last
        answer = connection.send(NO_TOPICS, MetadataResponse)
        assert [one.port for one in answer.brokers] == [int(port)]


def test_requests_may_be_under_way_before_the_first_is_answered(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with Connection(host, int(port)) as connection:
        asked = [connection.ask(NO_TOPICS) for _ in range(5)]
        assert [len(connection.answer(one, MetadataResponse).brokers) for one in asked] == [1] * 5


def test_answers_are_received_in_the_order_of_their_requests(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with Connection(host, int(port)) as connection:
        _, second = (connection.ask(NO_TOPICS) for _ in range(2))
        with pytest.raises(ProtocolError, match="was the one to be answered"):
            connection.answer(second, MetadataResponse)


def test_the_broker_learns_who_the_client_is(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with Connection(host, int(port)):
        names = broker.call(lambda server: [one.client_software[0] for one in server.connections])
        assert names == ["equipoise"]


def test_an_older_broker_limits_the_version() -> None:
    with ScriptedBroker(serving((3, 0, 5)), answering(EMPTY)) as old, connect(old) as connection:
        assert connection.send(NO_TOPICS, MetadataResponse).cluster_id == "tiny"
    assert old.asked == [(18, 4), (3, 5)]


@pytest.mark.parametrize("refusals", [1, 2])
def test_the_handshake_falls_back_as_far_as_needed(refusals: int) -> None:
    script: list[Answer] = [refusing_version] * refusals
    with ScriptedBroker(*script, serving(METADATA), answering(EMPTY)) as old, connect(old) as connection:
        connection.send(NO_TOPICS, MetadataResponse)
    assert old.asked == [(18, version) for version in (4, 3, 0)[: refusals + 1]] + [(3, 12)]


def test_a_refusal_that_cannot_be_read_is_still_a_refusal() -> None:
    def garbled(frame: bytes) -> bytes:
        return refusing_version(frame)[:-4].replace(b"\0\0\0\x0a", b"\0\0\0\x06", 1)

    with ScriptedBroker(garbled, serving(METADATA)) as mock, connect(mock):
        pass
    assert mock.asked == [(18, 4), (18, 3)]


def test_a_handshake_that_is_refused_for_good_is_an_error() -> None:
    refusal = answering(ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, api_keys=[]))
    with ScriptedBroker(refusal) as broker, pytest.raises(KafkaError, match="refuses to say what it serves") as caught:
        connect(broker)
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_an_api_the_broker_lacks_is_named() -> None:
    with (
        ScriptedBroker(serving(METADATA)) as broker,
        connect(broker) as connection,
        pytest.raises(UsageError, match=r"127\.0\.0\.1:\d+ does not serve Heartbeat"),
    ):
        connection.version(HeartbeatRequest)


def test_versions_without_overlap_name_both_ranges() -> None:
    with (
        ScriptedBroker(serving((3, 90, 99))) as broker,
        connect(broker) as connection,
        pytest.raises(UsageError, match=r"serves Metadata in versions 90-99, this client speaks 0-13"),
    ):
        connection.send(NO_TOPICS, MetadataResponse)


def test_bytes_behind_an_answer_are_ignored() -> None:
    script = serving(METADATA), answering(EMPTY, tail=b"\0")
    with ScriptedBroker(*script) as mock, connect(mock) as connection:
        assert connection.send(NO_TOPICS, MetadataResponse).cluster_id == "tiny"


def test_an_answer_to_another_request_ends_the_connection() -> None:
    with ScriptedBroker(serving(METADATA), answering(EMPTY, shift=7)) as broker, connect(broker) as connection:
        with pytest.raises(ProtocolError, match="answered request 9 when Metadata, request 2, was the one"):
            connection.send(NO_TOPICS, MetadataResponse)
        with pytest.raises(KafkaConnectionError):
            connection.send(NO_TOPICS, MetadataResponse)


def test_an_answer_cut_short_names_the_field() -> None:
    def cut(frame: bytes) -> bytes:
        return framed(answering(EMPTY)(frame)[4:-6])

    with (
        ScriptedBroker(serving(METADATA), cut) as broker,
        connect(broker) as connection,
        pytest.raises(ProtocolError, match=r"MetadataResponse v12: \w+"),
    ):
        connection.send(NO_TOPICS, MetadataResponse)


def test_silence_ends_at_the_timeout() -> None:
    with ScriptedBroker() as silent, pytest.raises(KafkaConnectionError, match=r"ApiVersions within 0\.2 s; the conn"):
        connect(silent, timeout=0.2)


def test_an_answer_that_drips_does_not_stretch_the_timeout() -> None:
    """The timeout bounds the answer as a whole, not each piece of it."""

    def drip(frame: bytes) -> Iterator[bytes]:
        yield b"\0\x10\0\0"
        while True:
            time.sleep(0.02)
            yield b"\0"

    with (
        ScriptedBroker(drip) as broker,
        pytest.raises(KafkaConnectionError, match=r"did not answer ApiVersions within 0\.2 s"),
    ):
        connect(broker, timeout=0.2)


def test_a_broker_that_goes_away_is_named() -> None:
    with (
        ScriptedBroker(serving(METADATA), lambda frame: None) as broker,
        connect(broker) as connection,
        pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1:\d+: the broker closed the connection while Meta"),
    ):
        connection.send(NO_TOPICS, MetadataResponse)


@pytest.mark.parametrize("greeting", [b"\x15\x03\x03\0\x02\x02\x32", b"\x16\x03\x03\0\x02\x02\x32"])
def test_a_port_that_speaks_tls_is_recognised(greeting: bytes) -> None:
    with (
        ScriptedBroker(lambda frame: greeting) as stranger,
        pytest.raises(TlsError, match=r"127\.0\.0\.1:\d+ speaks TLS, and this client speaks plain text: set security"),
    ):
        connect(stranger)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 8])
def test_what_is_no_broker_is_recognised(greeting: bytes) -> None:
    with (
        ScriptedBroker(lambda frame: greeting) as stranger,
        pytest.raises(ProtocolError, match=r"a frame of -?\d+ bytes.*TLS or is no Kafka broker"),
    ):
        connect(stranger)


def test_nobody_listening_is_said_in_one_line() -> None:
    port = free_port()
    with pytest.raises(
        KafkaConnectionError, match=rf"^cannot connect to 127\.0\.0\.1:{port}: Connection refused; is a"
    ):
        Connection("127.0.0.1", port)


def test_an_ipv6_address_is_written_with_brackets() -> None:
    with pytest.raises(KafkaConnectionError, match=re.escape("cannot connect to [::1]:1: ")):
        Connection("::1", 1)


def test_error_codes_without_a_name_keep_their_number() -> None:
    known, unknown = error_from(36, "no"), error_from(999, "no")
    assert (known.code, str(known)) == (ErrorCode.TOPIC_ALREADY_EXISTS, "no (TOPIC_ALREADY_EXISTS)")
    assert (unknown.code, str(unknown)) == (ErrorCode.UNKNOWN_SERVER_ERROR, "no (Kafka's error code 999)")


def test_the_client_names_itself_in_the_form_kafka_demands() -> None:
    seen: list[ApiVersionsRequest] = []

    def spy(frame: bytes) -> bytes:
        seen.append(ApiVersionsRequest.decode(frame, 4, decode_request_header(frame)[4]))
        return serving(METADATA)(frame)

    with ScriptedBroker(spy) as broker, connect(broker):
        pass
    legal = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
    assert legal.fullmatch(seen[0].client_software_name)
    assert legal.fullmatch(seen[0].client_software_version)
