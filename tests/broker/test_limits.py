"""What keeps one client from harming the others: sizes, counts, silence, and back-pressure."""

from __future__ import annotations

import contextlib
import logging

import pytest

from equipoise.broker import Broker
from equipoise.broker.net.connection import Connection
from equipoise.broker.topics.topics import MAX_ELEMENTS
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import (
    BY_NAME,
    append,
    batch_of,
    create_topic,
    fetch_request,
    fetched,
    produce,
    served_apis,
    stored,
)
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient, request_frame, sized
from tests.broker.test_fetch import LONG_WAIT, send_delayed

ONE_REQUEST = request_frame(ApiVersionsRequest(), 0)


def connection_of(broker: Broker, client: RawClient) -> Connection:
    """The broker's end of a client's connection."""
    port = client.port

    def find(server: object) -> Connection | None:
        ends = broker.server.connections
        return next((c for c in ends if c._transport.get_extra_info("peername")[1] == port), None)

    found = eventually(lambda: broker.call(find), "the connection is accepted")
    assert isinstance(found, Connection)
    return found


# -- frames


def frame_of_size(size: int) -> bytes:
    """A request whose body has exactly `size` bytes."""
    spare = size - len(request_frame(ApiVersionsRequest(client_software_version="v" * 200), 3)) + 4
    frame = request_frame(ApiVersionsRequest(client_software_version="v" * (200 + spare)), 3)
    assert len(frame) == 4 + size
    return frame


def test_a_frame_may_have_the_largest_size_and_not_a_byte_more(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start({"socket.request.max.bytes": 1000})
    good, bad = connect(broker), connect(broker)
    good.send_bytes(frame_of_size(1000))
    good.receive_frame()
    bad.send_bytes(frame_of_size(1001))
    bad.wait_closed()
    assert "a frame of 1001 bytes; socket.request.max.bytes is 1000" in caplog.text
    assert served_apis(good)


def test_a_frame_larger_than_the_receive_buffer_arrives_whole(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    create_topic(client, configs={"max.message.bytes": "10000000"})
    value = bytes(range(256)) * 12_000
    append(client, value)
    answer = fetched(client.call(fetch_request(max_bytes=1, partition_max_bytes=1), BY_NAME))
    assert stored(answer).endswith(value + b"\0")


UNKNOWN_API = sized(b"\x7f\xff\0\0\0\0\0\1\xff\xff")


def test_the_replies_to_what_came_before_a_refused_request_still_arrive(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    client.send_bytes(ONE_REQUEST * 3 + UNKNOWN_API + ONE_REQUEST)
    for _ in range(3):
        client.receive_frame()
    client.wait_closed()


def test_more_array_elements_than_allowed_end_the_connection_before_they_take_memory(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = connect(broker), connect(broker)
    client.send(DeleteTopicsRequest(topic_names=[""] * (MAX_ELEMENTS + 1), timeout_ms=1), 5)
    client.wait_closed()
    assert "1 elements too many" in caplog.text
    assert served_apis(other)


# -- connections


def test_no_more_connections_than_allowed(start: Start, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    broker = start({"max.connections": 2})
    first, second = connect(broker), connect(broker)
    assert served_apis(first)
    assert served_apis(second)
    connect(broker).wait_closed()
    assert "max.connections is 2" in caplog.text
    first.close()
    eventually(lambda: broker.call(lambda s: len(s.connections)) == 1, "the place is free again")
    assert served_apis(connect(broker))


def test_a_silent_connection_is_closed(start: Start, connect: Connect) -> None:
    client = connect(start({"connections.max.idle.ms": 2000}))
    assert served_apis(client)
    client.wait_closed()


def test_silence_is_counted_from_the_last_byte(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({"connections.max.idle.ms": 10_000}, clock=clock)
    talking, silent = connect(broker), connect(broker)
    for client in (talking, silent):
        served_apis(client)
    advance(broker, clock, 9_000)
    served_apis(talking)
    advance(broker, clock, 3_500)
    silent.wait_closed()
    assert served_apis(talking)
    advance(broker, clock, 12_500)
    talking.wait_closed()


def test_a_client_that_waits_for_its_reply_is_not_idle(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({"connections.max.idle.ms": 1000}, clock=clock)
    reader = connect(broker)
    create_topic(reader)
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    advance(broker, clock, 5000)
    append(connect(broker), b"late")
    assert fetched(reader.receive()).high_watermark == 1


def test_no_connection_is_idle_where_the_limit_is_minus_1(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({"connections.max.idle.ms": -1}, clock=clock)
    client = connect(broker)
    served_apis(client)
    advance(broker, clock, 86_400_000)
    assert served_apis(client)


HALVES = [ONE_REQUEST[:2], ONE_REQUEST[:4], ONE_REQUEST[:-1], ONE_REQUEST + ONE_REQUEST[:9]]


@pytest.mark.parametrize("half", HALVES, ids=["half a size", "only a size", "all but a byte", "one and a half"])
def test_a_half_sent_frame_times_out(
    start: Start, connect: Connect, half: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StandingClock()
    broker = start({"request.receive.timeout.ms": 1000}, clock=clock)
    slow, whole = connect(broker), connect(broker)
    served_apis(whole)
    slow.send_bytes(half)
    eventually(lambda: broker.call(lambda s: any(c.has_partial_frame for c in s.connections)), "half a frame is there")
    advance(broker, clock, 999)
    assert broker.call(lambda s: len(s.connections)) == 2
    advance(broker, clock, 251)
    slow.wait_closed()
    assert "half a frame" in caplog.text
    assert served_apis(whole), "a silence between frames is not one within a frame"


def test_a_half_sent_frame_times_out_by_the_real_clock_too(start: Start, connect: Connect) -> None:
    client = connect(start({"request.receive.timeout.ms": 100}))
    client.send_bytes(ONE_REQUEST[:-1])
    client.wait_closed()


def test_a_client_that_stops_sending_still_gets_its_replies_or_an_end(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    client.send_bytes(ONE_REQUEST[:7])
    client.finish_sending()
    client.wait_closed()
    eventually(lambda: broker.call(lambda s: not s.connections), "the broker has forgotten the connection")


# -- back-pressure

BATCHES = 64
BATCH = batch_of(bytes(900_000))


@pytest.fixture
def full_topic(client: RawClient) -> None:
    create_topic(client)
    for _ in range(BATCHES):
        assert produce(client, BATCH).error_code == ErrorCode.NONE


@pytest.mark.usefixtures("full_topic")
def test_a_client_that_does_not_read_is_not_read_from_and_costs_little(broker: Broker, connect: Connect) -> None:
    slow, other = connect(broker, receive_buffer=4096), connect(broker)
    one_batch = fetch_request(partition_max_bytes=1, max_bytes=1)
    requests = 2000
    frames = b"".join(request_frame(one_batch, BY_NAME, number) for number in range(requests))
    slow.send_bytes(frames)
    end = connection_of(broker, slow)
    eventually(lambda: broker.call(lambda _: end._read_paused), "the slow client is no longer read from")
    assert broker.call(lambda _: end._transport.get_write_buffer_size()) < 4 * len(BATCH)
    assert broker.call(lambda _: len(end._calls)) == 0
    assert served_apis(other)
    for number in range(50):
        reply = slow.receive_frame()
        assert (int.from_bytes(reply[:4], "big"), len(reply) > len(BATCH)) == (number, True)
        assert broker.call(lambda _: end._transport.get_write_buffer_size()) < 4 * len(BATCH)


@pytest.mark.usefixtures("full_topic")
def test_a_slow_client_gets_everything_in_the_end(broker: Broker, connect: Connect) -> None:
    slow = connect(broker, receive_buffer=4096)
    for offset in range(BATCHES):
        slow.send(fetch_request(offset, partition_max_bytes=1, max_bytes=1), BY_NAME)
    end = connection_of(broker, slow)
    eventually(lambda: broker.call(lambda _: end._read_paused), "the slow client is no longer read from")
    for offset in range(BATCHES):
        records = fetched(slow.receive()).records
        assert isinstance(records, memoryview)
        assert int.from_bytes(records[:8], "big") == offset
    eventually(lambda: not broker.call(lambda _: end._read_paused), "it is read from again")
    assert served_apis(slow)


@pytest.mark.usefixtures("full_topic")
def test_replies_that_wait_behind_a_parked_fetch_are_bounded_too(broker: Broker, connect: Connect) -> None:
    client, other = connect(broker), connect(broker)
    create_topic(other, "quiet")
    send_delayed(broker, client, fetch_request({("quiet", 0): 0}, max_wait_ms=LONG_WAIT))
    for _ in range(40):
        client.send(fetch_request(partition_max_bytes=1, max_bytes=1), BY_NAME)
    end = connection_of(broker, client)
    eventually(lambda: broker.call(lambda _: end._read_paused), "the client is no longer read from")
    assert broker.call(lambda _: end.held_bytes) < 4 * len(BATCH)
    append(other, b"go", topic="quiet")
    assert fetched(client.receive()).high_watermark == 1
    for _ in range(40):
        assert fetched(client.receive()).high_watermark == BATCHES
    assert broker.call(lambda _: (end.held_bytes, end._read_paused)) == (0, False)


def test_a_client_that_never_reads_its_replies_is_idle_in_the_end(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({"connections.max.idle.ms": 1000}, clock=clock)
    slow, other = connect(broker, receive_buffer=4096), connect(broker)
    create_topic(slow)
    for _ in range(10):
        append(slow, bytes(900_000))
    for _ in range(50):
        slow.send(fetch_request(partition_max_bytes=1, max_bytes=1), BY_NAME)
    end = connection_of(broker, slow)
    eventually(lambda: broker.call(lambda _: end._read_paused), "the slow client is no longer read from")
    served_apis(other)
    advance(broker, clock, 1250)
    eventually(lambda: broker.call(lambda s: end not in s.connections), "the broker has forgotten the connection")


@pytest.mark.usefixtures("full_topic")
def test_a_slow_client_that_leaves_frees_what_it_did_not_read(broker: Broker, connect: Connect) -> None:
    slow, other = connect(broker, receive_buffer=4096), connect(broker)
    for _ in range(50):
        slow.send(fetch_request(partition_max_bytes=1, max_bytes=1), BY_NAME)
    end = connection_of(broker, slow)
    eventually(lambda: broker.call(lambda _: end._read_paused), "the slow client is no longer read from")
    slow.close()
    eventually(lambda: broker.call(lambda s: end not in s.connections), "the broker has forgotten the connection")
    assert (end._backlog, end._out) == (type(end._backlog)(), [])
    assert served_apis(other)


def test_one_client_that_floods_does_not_stop_another(broker: Broker, connect: Connect) -> None:
    flooding, other = connect(broker), connect(broker)
    flooding.send_bytes(ONE_REQUEST * 20_000)
    for _ in range(20):
        assert served_apis(other)
    with contextlib.suppress(OSError):
        flooding.close()


def test_a_refusal_is_logged_as_a_warning_and_not_as_an_error(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(broker)
    client.send_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.wait_closed()
    assert [record.levelno for record in caplog.records if record.name.startswith("equipoise")] == [logging.WARNING]
