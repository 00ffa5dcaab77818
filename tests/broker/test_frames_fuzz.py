"""Frames of every kind into a broker: whatever comes, it lives, answers the others, and keeps its memory.

The bytes go straight into a connection on the broker's loop, without a socket, so that each input is one
deterministic call; tests/broker has the same over sockets for chosen inputs.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.broker import Broker
from equipoise.broker.config import BrokerConfig
from equipoise.broker.handlers import HANDLERS
from equipoise.broker.net.connection import Connection
from equipoise.broker.server import Server
from equipoise.broker.topics.topics import MAX_ELEMENTS
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from tests.effort import examples
from tests.property.strategies import messages, sample
from tests.versions import in_each_version

FRAME_LIMIT = 1 << 20
EACH_VERSION = [
    (key, version)
    for key, handler in HANDLERS.items()
    for version in range(handler.versions.first, handler.versions.last + 1)
]
PROFILE: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
# Values that make the broker do much lawful work, or wait, are kept small: this is about the bytes.
MODEST = {
    "num_partitions": st.integers(-2, 3),
    "count": st.integers(-2, 3),
    "max_wait_ms": st.sampled_from([-1, 0, 2**31 - 1]),
}


class Errors(logging.Handler):
    """Keeps what is logged as an error: a request that failed otherwise than by a refusal."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(logging.Formatter().format(record))


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Broker]:
    with Broker({"socket.request.max.bytes": FRAME_LIMIT}) as broker:
        yield broker


@pytest.fixture(scope="module")
def roomy() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def _no_request_fails() -> Iterator[None]:
    errors, root = Errors(), logging.getLogger()
    root.addHandler(errors)
    yield
    root.removeHandler(errors)
    assert errors.messages == []


class FakeTransport(asyncio.Transport):
    """Takes all that is written to it, at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("fuzz", 1), "sockname": ("127.0.0.1", 2)})
        self.written = bytearray()
        self.closing = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, pieces: Any) -> None:
        self.written += b"".join(pieces)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close


class Outcome:
    """What came of some bytes: the replies, and whether the broker ended the connection."""

    def __init__(self, written: bytes, closed: bool) -> None:
        self.closed = closed
        self.replies: list[bytes] = []
        while written:
            (size,) = struct.unpack_from(">i", written)
            assert len(written) >= 4 + size, "a reply is a whole frame"
            self.replies.append(bytes(written[4 : 4 + size]))
            written = written[4 + size :]


def feed(broker: Broker, data: bytes, cuts: tuple[int, ...] = ()) -> Outcome:
    """The bytes as a client would send them, in pieces cut at the given places; then the client leaves."""
    return broker.call(lambda server: _feed(server, data, cuts))


def _feed(server: Server, data: bytes, cuts: tuple[int, ...]) -> Outcome:
    connection, transport = Connection(server, server.listeners.all[0]), FakeTransport()
    connection.connection_made(transport)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        _receive(connection, transport, data[start:end])
    outcome = Outcome(bytes(transport.written), transport.closing)
    transport.closing = True
    connection.connection_lost(None)
    assert connection not in server.connections
    return outcome


def _receive(connection: Connection, transport: FakeTransport, piece: bytes) -> None:
    while piece and transport.reading and not transport.closing:
        room = connection.get_buffer(-1)
        count = min(len(room), len(piece))
        room[:count] = piece[:count]
        connection.buffer_updated(count)
        while connection._is_queued:  # nobody else is there to have a turn
            connection._take_turn()
        piece = piece[count:]


def sized(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def head(key: int, version: int, correlation_id: int = 7) -> bytes:
    return encode_request_header(key, version, correlation_id, "fuzz")


def assert_alive(broker: Broker) -> None:
    (reply,) = feed(broker, sized(head(18, 0, 99) + ApiVersionsRequest().encode(0))).replies
    assert reply[:4] == struct.pack(">i", 99)


# -- lawful requests


@in_each_version("key", EACH_VERSION, lambda key: APIS[key].name)
def test_whatever_the_tables_allow_is_answered_in_the_form_of_its_version(
    fuzzed: Broker, key: int, version: int
) -> None:
    api = APIS[key]

    @settings(max_examples=examples(24), **PROFILE)
    @given(messages(api.request, version, MODEST))
    def check(request: Any) -> None:
        outcome = feed(fuzzed, sized(head(key, version) + request.encode(version)))
        assert len(outcome.replies) <= 1
        for reply in outcome.replies:
            correlation_id, pos = decode_response_header(reply, key, version)
            assert correlation_id == 7
            api.response.decode(reply, version, pos)
        assert not outcome.closed or getattr(request, "acks", None) == 0, "nothing lawful ends a connection"

    check()
    assert_alive(fuzzed)


LONG = "x" * 32767


@in_each_version("key", EACH_VERSION, lambda key: APIS[key].name)
def test_the_longest_names_are_answered_too(fuzzed: Broker, key: int, version: int) -> None:
    """Names are told back, in errors with words around them: those must not grow beyond what a string can hold."""
    request = sample(APIS[key].request, version)
    _lengthen(request)
    outcome = feed(fuzzed, sized(head(key, version) + request.encode(version)))
    for reply in outcome.replies:
        _, pos = decode_response_header(reply, key, version)
        APIS[key].response.decode(reply, version, pos)
    assert_alive(fuzzed)


def _lengthen(value: Any) -> None:
    for name, row in value.fields.items():
        found = getattr(value, name)
        if row.type == "string":
            setattr(value, name, LONG)
        elif row.type == ["string"]:
            setattr(value, name, [LONG, LONG[:-1]])
        elif isinstance(found, list):
            for item in found:
                if hasattr(item, "fields"):
                    _lengthen(item)


# -- damaged requests

Edit = tuple[str, int, bytes]
EDITS: st.SearchStrategy[Edit] = st.tuples(
    st.sampled_from(["flip", "write", "insert", "cut", "add"]),
    st.integers(0, 10_000),
    st.sampled_from(
        [
            b"\x00",
            b"\x01",
            b"\x7f",
            b"\x80",
            b"\xff",
            b"\x7f\xff\xff\xff",
            b"\x80\x00\x00\x00",
            b"\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\x0f",
            b"\xff" * 12,
        ]
    )
    | st.binary(max_size=8),
)


def edited(body: bytes, edits: list[Edit]) -> bytes:
    for what, place, data in edits:
        at = place % (len(body) + 1)
        if what == "flip" and body:
            at = place % len(body)
            body = body[:at] + bytes([body[at] ^ (1 << place % 8)]) + body[at + 1 :]
        elif what == "write":
            body = body[:at] + data + body[at + len(data) :]
        elif what == "insert":
            body = body[:at] + data + body[at:]
        elif what == "cut":
            body = body[:at]
        elif what == "add":
            body += data
    return body


@in_each_version("key", EACH_VERSION, lambda key: APIS[key].name)
def test_damaged_requests_are_refused_or_answered_and_harm_nobody(fuzzed: Broker, key: int, version: int) -> None:
    @settings(max_examples=examples(48), **PROFILE)
    @given(messages(APIS[key].request, version, MODEST), st.lists(EDITS, min_size=1, max_size=4))
    def check(request: Any, edits: list[Edit]) -> None:
        intact = request.encode(version)
        feed(fuzzed, sized(head(key, version) + edited(intact, edits)))
        feed(fuzzed, sized(edited(head(key, version) + intact, edits)))
        feed(fuzzed, edited(sized(head(key, version) + intact), edits))

    check()
    assert_alive(fuzzed)


@settings(max_examples=examples(600), **PROFILE)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_at_all(fuzzed: Broker, data: bytes, cuts: list[int]) -> None:
    feed(fuzzed, data, tuple(cuts))
    feed(fuzzed, sized(data), tuple(cuts))


@settings(max_examples=examples(1000), **PROFILE)
@given(st.sampled_from(EACH_VERSION), st.binary(max_size=300))
def test_any_body_behind_a_good_header(fuzzed: Broker, api: tuple[int, int], body: bytes) -> None:
    key, version = api
    feed(fuzzed, sized(head(key, version) + body))


@settings(max_examples=examples(300), **PROFILE)
@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=1, max_size=8), st.lists(st.integers(0, 10_000), max_size=12)
)
def test_frames_may_be_cut_anywhere(fuzzed: Broker, versions: list[int], cuts: list[int]) -> None:
    frames = [sized(head(18, v, number) + sample(ApiVersionsRequest, v).encode(v)) for number, v in enumerate(versions)]
    whole, cut = feed(fuzzed, b"".join(frames)), feed(fuzzed, b"".join(frames), tuple(cuts))
    assert cut.replies == whole.replies
    assert [reply[:4] for reply in cut.replies] == [struct.pack(">i", number) for number in range(len(frames))]
    assert not cut.closed


# -- memory


def peak_of(broker: Broker, *frames: bytes) -> int:
    """The most memory that was taken while the broker had the bytes of one of these frames before it."""

    def measured(server: Server) -> int:
        tracemalloc.start(1)
        try:
            return max(one(server, data) for data in frames)
        finally:
            tracemalloc.stop()

    def one(server: Server, data: bytes) -> int:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        _feed(server, data, ())
        return tracemalloc.get_traced_memory()[1] - before

    return broker.call(measured)


GIANT = [struct.pack(">i", 2**31 - 1), b"\xff\xff\xff\xff\x0f", b"\x7f\xff", b"\xfe\xff\xff\x7f"]


@pytest.mark.parametrize("key", HANDLERS)
def test_a_giant_count_in_a_small_frame_takes_no_memory(fuzzed: Broker, key: int) -> None:
    for version in (HANDLERS[key].versions.first, HANDLERS[key].versions.last):
        body = sample(APIS[key].request, version).encode(version)
        feed(fuzzed, sized(head(key, version) + body))
        for at in range(len(body)):
            frames = [sized(head(key, version) + body[:at] + giant + body[at + len(giant) :]) for giant in GIANT]
            assert peak_of(fuzzed, *frames) < FRAME_LIMIT
    assert_alive(fuzzed)


def crowded(key: int, version: int, count: int) -> bytes | None:
    """A request whose first array has `count` elements, as small as they can be; None if it has no array."""
    request = sample(APIS[key].request, version)
    for name, row in request.fields.items():
        if isinstance(row.type, list) and version in row.versions:
            setattr(request, name, [_smallest(row.type[0], version)] * count)
            return sized(head(key, version) + request.encode(version))
    return None


def _smallest(of: Any, version: int) -> Any:
    if isinstance(of, str):
        return "" if of == "string" else 0
    element = sample(of, version)
    for name, row in of.fields.items():
        if isinstance(row.type, list):
            setattr(element, name, [])
        elif row.type == "string":
            setattr(element, name, "")
    return element


@pytest.mark.parametrize("key", HANDLERS)
def test_more_elements_than_allowed_are_refused_before_they_are_made(roomy: Broker, key: int) -> None:
    frame = crowded(key, HANDLERS[key].versions.last, MAX_ELEMENTS + 1)
    if frame is None:
        return
    assert peak_of(roomy, frame) < 3 * len(frame) + FRAME_LIMIT
    assert feed(roomy, frame).closed


@pytest.mark.parametrize("name", ["Metadata", "DescribeGroups"])
def test_as_many_elements_as_allowed_take_no_more_than_the_largest_frame_would(roomy: Broker, name: str) -> None:
    """Those whose answers are the largest for what was asked."""
    handler = next(handler for handler in HANDLERS.values() if handler.api.name == name)
    frame = crowded(handler.api.key, handler.versions.last, MAX_ELEMENTS - 10)
    assert frame is not None
    assert peak_of(roomy, frame) < BrokerConfig().socket_request_max_bytes
    assert_alive(roomy)


def test_the_announcement_of_a_large_frame_is_all_that_is_kept_of_it(fuzzed: Broker) -> None:
    assert peak_of(fuzzed, struct.pack(">i", FRAME_LIMIT) + bytes(10)) < 2 * FRAME_LIMIT
    assert peak_of(fuzzed, struct.pack(">i", FRAME_LIMIT + 1) + bytes(10)) < 100_000
    assert feed(fuzzed, struct.pack(">i", FRAME_LIMIT + 1)).closed
