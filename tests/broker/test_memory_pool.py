"""Frames that do not fit into one read: what they may cost, and how long they may take."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable

import pytest

from equipoise.broker import Broker
from equipoise.broker.net.connection import Connection
from equipoise.broker.net.memory_pool import FREE_ROOM
from equipoise.broker.net.turns import Turns
from equipoise.wire.apis.headers import decode_response_header
from equipoise.wire.apis.k00_produce import PartitionProduceResponse, ProduceResponse
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import BY_NAME, SOMEBODY, append, batch_of, create_topic, produce_request, served_apis
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient, request_frame
from tests.broker.test_limits import ONE_REQUEST, connection_of

LARGE = request_frame(produce_request(batch_of(bytes(900_000))), BY_NAME)
FIRST_BYTES_OF_100_MB = struct.pack(">i", 100_000_000) + ONE_REQUEST[4:14]


def received(broker: Broker, client: RawClient) -> int:
    end = connection_of(broker, client)
    return broker.call(lambda _: end._filled if end._frame is not None else 0)


def has_arrived(broker: Broker, client: RawClient, count: int) -> None:
    eventually(lambda: received(broker, client) >= count, f"{count} bytes of the frame are there")


def test_a_declared_size_takes_no_memory(broker: Broker, connect: Connect) -> None:
    clients = [connect(broker) for _ in range(20)]
    for client in clients:
        client.send_bytes(FIRST_BYTES_OF_100_MB)
    for client in clients:
        has_arrived(broker, client, 10)
    assert broker.call(lambda s: sum(len(c._frame or b"") for c in s.connections)) <= 20 * FREE_ROOM
    assert broker.call(lambda s: s.memory_pool.used) == 0


def test_a_buffer_grows_with_what_has_come(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    create_topic(client)
    end = connection_of(broker, client)
    client.send_bytes(LARGE[:100_004])
    has_arrived(broker, client, 100_000)
    assert broker.call(lambda _: len(end._frame or b"")) <= 400_000
    client.send_bytes(LARGE[100_004:])
    assert produced(client).error_code == ErrorCode.NONE
    assert broker.call(lambda s: s.memory_pool.used) == 0


def test_very_large_frames_are_read_in_turns(start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one turn of the loop libuv would read 32 MB of each connection, and others would wait for that."""
    rests: list[int] = []
    rest = Turns.rest

    def noting(self: Turns, read_on: Callable[[], None]) -> None:
        rests.append(self._read)
        rest(self, read_on)

    monkeypatch.setattr(Turns, "rest", noting)
    broker = start({"message.max.bytes": 30_000_000})
    clients = [connect(broker) for _ in range(6)]
    create_topic(clients[0])
    frame = request_frame(produce_request(batch_of(bytes(20_000_000))), BY_NAME)
    senders = [threading.Thread(target=client.send_bytes, args=(frame,)) for client in clients]
    for sender in senders:
        sender.start()
    assert sorted(produced(client).base_offset for client in clients) == [*range(6)]
    for sender in senders:
        sender.join()
    assert rests, "none of them had to wait for its turn"
    assert max(rests) < 12_000_000, "more was read in one turn"


def produced(client: RawClient) -> PartitionProduceResponse:
    """The answer to a Produce that was sent as bytes."""
    frame = client.receive_frame()
    _, pos = decode_response_header(frame, 0, BY_NAME)
    answer: PartitionProduceResponse = ProduceResponse.decode(frame, BY_NAME, pos).responses[0].partition_responses[0]
    return answer


@pytest.mark.parametrize("begun", [2, 4, 20], ids=["half a size", "a size", "some of the frame"])
def test_a_frame_that_comes_byte_by_byte_has_an_end(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture, begun: int
) -> None:
    clock = StandingClock()
    broker = start({"request.receive.timeout.ms": 1000}, clock=clock)
    slow, other = connect(broker), connect(broker)
    end = connection_of(broker, slow)
    sent = FIRST_BYTES_OF_100_MB + bytes(100)
    slow.send_bytes(sent[:begun])
    for more in range(begun, begun + 4):
        while broker.call(lambda _: _arrived(end)) < more:
            pass
        assert broker.call(lambda s: end in s.connections)
        advance(broker, clock, 240)
        slow.send_bytes(sent[more : more + 1])
    advance(broker, clock, 300)
    slow.wait_closed()
    assert "half a frame" in caplog.text
    assert served_apis(other)


def _arrived(end: Connection) -> int:
    return len(end._splitter.head) if end._frame is None else 4 + end._filled


def test_a_large_frame_has_time_for_each_mebibyte(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({"request.receive.timeout.ms": 1000}, clock=clock)
    client = connect(broker)
    client.send_bytes(struct.pack(">i", 100_000_000) + bytes(3 << 20))
    has_arrived(broker, client, 3 << 20)
    end = connection_of(broker, client)
    for _ in range(3):
        advance(broker, clock, 900)
        count = received(broker, client)
        client.send_bytes(b"\0")
        has_arrived(broker, client, count + 1)
    assert broker.call(lambda s: end in s.connections)


def test_who_needs_more_than_the_budget_waits_and_loses_nothing(start: Start, connect: Connect) -> None:
    """All are half sent, which is more than the budget; then all are finished, the last one first."""
    broker = start({"queued.max.request.bytes": 1_000_000})
    clients = [connect(broker) for _ in range(8)]
    create_topic(clients[0])
    for client in clients:
        client.send_bytes(LARGE[:500_000])
    eventually(lambda: broker.call(lambda s: len(s.memory_pool._waiting)) >= 3, "most of them wait")
    assert broker.call(lambda s: s.memory_pool.used) <= 1_000_000 + len(LARGE)
    assert broker.call(lambda s: sum(len(c._frame or b"") for c in s.connections)) <= 8 * (1 << 18) + 2_000_000
    append(connect(broker), b"small requests never wait")
    for client in reversed(clients):
        client.send_bytes(LARGE[500_000:])
    offsets = {produced(client).base_offset for client in clients}
    assert offsets == set(range(1, 9))
    assert broker.call(lambda s: (s.memory_pool.used, s.memory_pool._waiting)) == (0, {})


def test_while_others_wait_whoever_is_slow_is_closed_sooner(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StandingClock()
    broker = start({"queued.max.request.bytes": 100_000, "request.receive.timeout.ms": 600_000}, clock=clock)
    slow = [connect(broker) for _ in range(3)]
    honest = connect(broker)
    create_topic(honest)
    for client in slow:
        client.send_bytes(LARGE[:200_000])
    eventually(lambda: broker.call(lambda s: len(s.memory_pool._waiting)) == 2, "one holds it all, two wait")
    honest.send_bytes(LARGE)
    eventually(lambda: broker.call(lambda s: len(s.memory_pool._waiting)) == 3, "an honest client waits, too")
    for _ in range(3):
        advance(broker, clock, 3000)
    assert produced(honest).error_code == ErrorCode.NONE
    assert "others wait for room" in caplog.text
    assert "queued.max.request.bytes" in caplog.text


def test_who_leaves_gives_its_room_back(start: Start, connect: Connect) -> None:
    broker = start({"queued.max.request.bytes": 100_000})
    leaving, honest = connect(broker), connect(broker)
    create_topic(honest)
    leaving.send_bytes(LARGE[:700_000])
    has_arrived(broker, leaving, 600_000)
    honest.send_bytes(LARGE)
    eventually(lambda: broker.call(lambda s: len(s.memory_pool._waiting)) == 1, "the other waits")
    leaving.close()
    assert produced(honest).error_code == ErrorCode.NONE
    assert broker.call(lambda s: s.memory_pool.used) == 0


# -- what leaves


def test_an_answer_of_very_many_pieces_arrives(broker: Broker, connect: Connect) -> None:
    """uvloop drops a write of more than 2^20 buffers."""
    client = connect(broker)
    end = connection_of(broker, client)
    count = (1 << 20) + 10

    def answer(_: object) -> None:
        end._out = [struct.pack(">i", count), *[b"x"] * count]
        end.held_bytes += count + 4
        end._flush()

    broker.call(answer)
    assert len(client.receive_frame()) == count


def test_an_answer_that_cannot_be_sent_is_told_in_the_log(
    broker: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(broker)
    end = connection_of(broker, client)
    broker.call(lambda _: end.connection_lost(OSError(22, "Invalid argument")))
    assert "Invalid argument" in caplog.text
    client.close()


# -- turns

COSTLY = request_frame(
    DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=["none"])]
    ),
    4,
)


def test_while_one_client_floods_with_costly_requests_others_have_their_turn(
    broker: Broker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They arrive in one read, and were served in one go. All is done and seen on the broker's own thread: the test's
    may have to wait for a core until all are served."""
    flooding, other = connect(broker), connect(broker)
    end, other_end = connection_of(broker, flooding), connection_of(broker, other)
    count, deadline, left = 1000, time.monotonic() + 30, list[int]()
    flush = Connection._flush

    def noting(self: Connection) -> None:
        if self is other_end and self._out:
            left.append(len(end._backlog))
        flush(self)

    def ask_once_they_are_there(_: object) -> None:
        if end._backlog or time.monotonic() > deadline:
            other.send(SOMEBODY, 4)
        else:
            asyncio.get_running_loop().call_soon(ask_once_they_are_there, None)

    def flood(_: object) -> None:
        flooding.send_bytes(COSTLY * count)
        ask_once_they_are_there(None)

    monkeypatch.setattr(Connection, "_flush", noting)
    broker.call(flood)
    assert other.receive().api_keys
    assert left[0] > 0
    for _ in range(count):
        flooding.receive_frame()


def test_whoever_has_cost_much_waits_for_its_turn(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    assert served_apis(client)
    end = connection_of(broker, client)
    broker.call(lambda _: setattr(end, "_next_slice", float("inf")))
    assert served_apis(client), "its turn comes"
    assert broker.call(lambda _: end._next_slice) == 0
