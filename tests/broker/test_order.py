"""Replies leave in the order of the requests; the requests behind a parked one are served at once all the same."""

from __future__ import annotations

from equipoise.broker import Broker
from equipoise.wire.apis.k01_fetch import FetchResponse
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import (
    BY_NAME,
    append,
    batch_of,
    create_topic,
    fetch_request,
    fetched,
    produce_request,
    produced,
    values_in,
)
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient, request_frame

LONG_WAIT = 600_000
METADATA = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="behind", num_partitions=1, replication_factor=1)])


def test_what_stands_behind_a_parked_fetch_waits_with_its_reply_only(broker: Broker, connect: Connect) -> None:
    client, other = connect(broker), connect(broker)
    create_topic(other)
    client.send(fetch_request(max_wait_ms=LONG_WAIT), BY_NAME)
    client.send(METADATA)
    client.send(CREATE)
    client.send(ApiVersionsRequest())
    eventually(lambda: broker.call(lambda s: s.topics.get("behind")), "the topic is created behind a parked Fetch")
    assert not client.has_reply()
    append(other, b"go")
    replies = [client.receive() for _ in range(4)]
    assert [type(reply) for reply in replies] == [
        FetchResponse,
        MetadataResponse,
        CreateTopicsResponse,
        ApiVersionsResponse,
    ]
    assert values_in(fetched(replies[0])) == [b"go"]


def test_the_parked_fetch_sees_what_its_own_connection_produces_behind_it(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    create_topic(client)
    client.send(fetch_request(max_wait_ms=LONG_WAIT), BY_NAME)
    client.send(produce_request(batch_of(b"self")), BY_NAME)
    assert values_in(fetched(client.receive())) == [b"self"]
    assert produced(client.receive()).error_code == ErrorCode.NONE


def test_fetches_parked_side_by_side_are_answered_in_order_whoever_is_ready_first(
    broker: Broker, connect: Connect
) -> None:
    client, writer = connect(broker), connect(broker)
    create_topic(writer, partitions=3)
    for partition in range(3):
        client.send(fetch_request({("t", partition): 0}, max_wait_ms=LONG_WAIT), BY_NAME)
    for partition in (2, 1, 0):
        assert not client.has_reply()
        append(writer, b"%d" % partition, partition=partition)
    assert [values_in(fetched(client.receive())) for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]


def test_a_hundred_requests_in_one_packet_are_answered_in_order(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    requests = [request_frame(ApiVersionsRequest(), 0, correlation_id) for correlation_id in range(100)]
    client.send_bytes(b"".join(requests))
    replies = [client.receive_frame() for _ in range(100)]
    assert [int.from_bytes(reply[:4], "big") for reply in replies] == list(range(100))


def test_a_request_may_come_byte_by_byte(client: RawClient) -> None:
    frame = request_frame(ApiVersionsRequest(), 0, 7)
    for position in range(len(frame)):
        client.send_bytes(frame[position : position + 1])
    assert client.receive_frame()[:4] == b"\0\0\0\7"


def test_acks_0_gets_no_reply_and_the_next_request_its_own(client: RawClient) -> None:
    create_topic(client)
    client.send(produce_request(batch_of(b"quiet"), acks=0), BY_NAME, answered=False)
    assert values_in(fetched(client.call(fetch_request(max_wait_ms=LONG_WAIT), BY_NAME))) == [b"quiet"]


def test_requests_beyond_the_limit_in_flight_wait_until_others_have_left(start: Start, connect: Connect) -> None:
    broker = start({"max.in.flight.requests.per.connection": 3})
    client, other = connect(broker), connect(broker)
    create_topic(other)
    for _ in range(3):
        client.send(fetch_request(max_wait_ms=LONG_WAIT), BY_NAME)
    client.send(CREATE)
    eventually(lambda: broker.call(lambda s: any(c._read_paused for c in s.connections)), "it is no longer read from")
    assert broker.call(lambda s: s.topics.get("behind")) is None
    append(other, b"go")
    for _ in range(3):
        assert values_in(fetched(client.receive())) == [b"go"]
    assert client.receive().topics[0].error_code == ErrorCode.NONE
