"""A client's connection: bytes to frames, frames to handlers, replies back in the order of the requests.

A request behind a delayed one is served at once; only its reply waits for its turn. Memory is bounded. All connections
share one receive buffer. The buffer of a larger frame grows with the bytes that arrive, out of one budget
(`memory_pool.py`). The broker does not read a client that does not read its replies. Time is bounded too: requests of a
costly connection are served in turns (`turns.py`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from struct import pack
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from equipoise.broker.groups.carried import Carried
from equipoise.broker.groups.held_heartbeats import HeldHeartbeat
from equipoise.broker.groups.repeated_heartbeat import RepeatedHeartbeat, repeatable
from equipoise.broker.net.client_warnings import MIN_FRAME, describe_size
from equipoise.broker.net.memory_pool import FREE_ROOM, MAX_GROWTH, grown
from equipoise.broker.net.purgatory import Completion, DelayedOperation
from equipoise.broker.net.throttling import Usage
from equipoise.broker.net.turns import SLICE_S
from equipoise.broker.topics.topics import MAX_ELEMENTS
from equipoise.security.session import Session
from equipoise.security.tls.principals import NoMatchingRule
from equipoise.wire.apis.headers import decode_request_header
from equipoise.wire.errors import ProtocolError
from equipoise.wire.frames import SIZE, FrameSizeError, FrameSplitter, join_small

if TYPE_CHECKING:
    from equipoise.broker.groups.repeated_commit import RepeatedCommits
    from equipoise.broker.handlers import Route
    from equipoise.broker.net.listeners import Listener
    from equipoise.broker.security.authenticator import Authenticator
    from equipoise.broker.server import Server
    from equipoise.wire.schema import Message

log = logging.getLogger(__name__)

_JOIN_BELOW = 65536  # replies up to this size leave as one piece: one copy is cheaper than many buffers
_WRITE_HIGH_WATER = 1 << 20
_PENDING_HIGH_WATER = 1 << 20  # bytes of requests that wait for their replies; a Produce's are in the log by then
_SMALL_PIECE = 4096  # cheaper to copy than to send as a buffer of its own
_UNKNOWN = Session()
_PRODUCE = 0
_HEARTBEAT, _CONSUMER_GROUP_HEARTBEAT = 12, 68
_HEARTBEATS = frozenset({_HEARTBEAT, _CONSUMER_GROUP_HEARTBEAT})
_OF_CROWDS = (b"\0\x0b", b"\0\x0d", b"\0\x0e")  # JoinGroup, LeaveGroup, SyncGroup: thousands may come together
_CONSUMER_HEARTBEAT = b"\0\x44"
_CLASSIC_HEARTBEAT = b"\0\x0c"
_FEW_HEARTBEATS = 8  # of one member that have come while the loop was busy: they do not wait behind a crowd
_RESET = pack("ii", 1, 0)  # SO_LINGER: nothing is sent behind the reset
_WORTH_COUNTING_S = 0.00001  # more than a heartbeat takes


class Call:
    """A request being served, and the place its reply has in the connection's order."""

    __slots__ = (
        "client_id",
        "connection",
        "correlation_id",
        "delayed",
        "now",
        "on_reply",
        "pieces",
        "route",
        "size",
        "usage",
        "version",
    )

    def __init__(self, connection: Connection, route: Route, correlation_id: int, client_id: str) -> None:
        self.connection = connection
        self.route = route
        self.version = route.version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.now = 0  # when it came: the clock is read once for all requests that come together
        self.size = 0  # of the request, as long as it is kept
        self.usage: Usage | None = None  # for quotas, if there are any
        self.delayed: DelayedOperation | None = None
        self.pieces: list[Any] | None = None  # the reply, once it is there; empty: there will be none
        self.on_reply: Callable[[Message | bytes], object] | None = None  # a fault that the reply meets, `control.py`

    def reply(self, response: Message | bytes) -> None:
        """The one way out for every reply; it leaves when those before it have left."""
        if self.on_reply is not None:
            met, self.on_reply = self.on_reply, None
            met(response)
            return
        try:
            self.pieces = self._encode(response)
        except Exception:  # noqa: BLE001  not the fault of the caller, often another client's request
            self.connection.fail()
        else:
            self.connection.drain()

    def no_reply(self) -> None:
        """For a Produce with acks=0, to which the protocol has no answer."""
        if self.usage is not None:
            self.connection.server.throttling.charge_unanswered(self, self.usage)
        self.pieces = []
        self.connection.drain()

    def _encode(self, response: Message | bytes) -> list[Any]:
        if self.usage is not None:
            response = self.connection.server.throttling.charge(self, self.usage, response)
        head = self.route.reply_head
        if isinstance(response, bytes):
            size = len(response) + head.size
            pieces = [head.pack(size - SIZE.size, self.correlation_id) + response]
        else:
            pieces = [b""]
            self.route.encode(response, pieces)
            size = sum(map(len, pieces)) + head.size
            pieces[0] = head.pack(size - SIZE.size, self.correlation_id)
        self.connection.held_bytes += size
        return pieces


class Connection(asyncio.BufferedProtocol):
    """A client's connection, which the loop calls."""

    # More than 30 attributes are slow without slots: CPython then shares no keys between instances.
    __slots__ = (
        "_backlog",
        "_calls",
        "_corked",
        "_filled",
        "_frame",
        "_frame_size",
        "_is_queued",
        "_is_resting",
        "_is_starved",
        "_muted",
        "_next_slice",
        "_out",
        "_pending_bytes",
        "_read_paused",
        "_reserved",
        "_reserved_behind",
        "_room",
        "_splitter",
        "_transport",
        "_write_paused",
        "authenticator",
        "carried",
        "client_host",
        "client_software",
        "frame_began",
        "held_bytes",
        "held_heartbeat",
        "last_active",
        "listener",
        "local_host",
        "peer",
        "repeated_commits",
        "repeated_heartbeat",
        "server",
        "session",
    )

    def __init__(self, server: Server, listener: Listener) -> None:
        self.server = server
        self.listener = listener
        self.authenticator: Authenticator | None = None  # as long as requests are not served as they come
        self.client_software = ("", "")  # name and version, if the client's ApiVersions told
        self.carried = Carried()
        self.held_heartbeat = HeldHeartbeat()
        self.repeated_commits: RepeatedCommits | None = None  # with the first commit
        self.repeated_heartbeat: RepeatedHeartbeat | None = None  # the last heartbeat, if the next may be like it
        self.peer = "?"
        self.client_host = self.local_host = ""  # the peer as Java prints an address that has no name, and ours
        self.session = _UNKNOWN  # as whom it is served
        self.last_active: int = server.clock.now()
        self._transport = cast(asyncio.Transport, None)
        self._splitter = FrameSplitter(
            server.config.socket_request_max_bytes, min_size=MIN_FRAME, writable_produce=True
        )
        self._muted = 0  # as often as `mute` was called: nothing more is served
        self._frame: bytearray | None = None  # a frame partly received; it grows up to `_room`
        self._filled = 0
        self._frame_size = 0
        self._room = 0
        self._reserved = 0  # what the budget of all connections has given to `_frame`
        self._reserved_behind = 0  # and to frames in `_backlog`
        self.frame_began: int | None = None  # when the first byte of the unfinished frame came
        self._backlog: deque[bytes | bytearray] = deque()  # frames received and not yet served
        self._calls: deque[Call] = deque()  # calls without reply, and those behind them
        self._pending_bytes = 0  # of the requests in `_calls`
        self._out: list[Any] = []
        self.held_bytes = 0  # of replies that are made, in `_calls` and `_out`
        self._corked = False
        self._write_paused = False
        self._read_paused = False
        self._is_starved = False  # the budget has no room for `_frame`
        self._is_resting = False  # others are served before more of `_frame` is read
        self._is_queued = False  # its next turn is in `server.turns`
        self._next_slice = 0.0  # after a long slice others go first until then

    # -- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.peer = peer[0] if peer else "?"
        self.client_host = "/" + self.peer
        self.local_host = local[0] if local else ""
        if self.server.connected(self):
            self._begin_session()

    def _begin_session(self) -> None:
        """As whom the connection is served from the start: by its certificate, or until it is authenticated."""
        listener = self.listener
        self.session = Session(host=self.peer, listener=listener.name)
        if listener.uses_sasl:
            from equipoise.broker.security.authenticator import Authenticator  # most brokers are without

            self._splitter.limit(listener.config.sasl_server_max_receive_size)
            self.authenticator = Authenticator(self, listener, self.last_active)
        elif listener.tls is not None:
            try:
                self.session = replace(self.session, principal=listener.principal_of(self._transport))
            except NoMatchingRule as error:
                self.refuse(str(error))

    def authenticated(self, session: Session) -> None:
        """From now on it is served as this, with frames of any size."""
        self.session = session
        self._splitter.limit(self.server.config.socket_request_max_bytes, min_size=MIN_FRAME)
        if session.expires_at is None and self.authenticator is not None:
            self.authenticator.stop()
            self.authenticator = None

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not isinstance(exc, ConnectionError | TimeoutError):  # those are a peer that is gone
            log.warning("%s: connection lost, and %d replies with it: %s", self.peer, len(self._calls), exc)
        self.server.disconnected(self)
        if self.authenticator is not None:
            self.authenticator.stop()
        self._backlog.clear()
        self.server.memory_pool.forget(self, self._reserved + self._reserved_behind)
        self._frame, self._reserved, self._reserved_behind = None, 0, 0
        self.held_heartbeat.cut_off(self.server.clock.now())
        self.complete_delayed(Completion.DISCONNECTED)

    def get_buffer(self, sizehint: int) -> memoryview:
        frame = self._frame
        if frame is None:
            return self.server.receive_buffer
        if len(frame) < self._room:
            self._frame = frame = grown(frame, self._room)
        return memoryview(frame)[self._filled :]

    def buffer_updated(self, count: int) -> None:
        if self._frame is None:
            self._split(count)
        else:
            self._filled += count
            self._make_room()
            if self._frame is not None and self.server.turns.read(count):
                self._rest()
        self.last_active = self._serve_backlog()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.last_active = self._serve_backlog()

    # -- frames

    def _split(self, count: int) -> None:
        """Whole frames go to `_backlog`; the beginning of one more stays in the splitter's head or in `_frame`."""
        began, self.frame_began = self.frame_began, None
        before, splitter = len(self._backlog), self._splitter
        try:
            unfinished = splitter.split(self.server.receive_buffer[:count], self._backlog)
        except FrameSizeError as error:
            self.refuse(describe_size(error, self.authenticator is not None))
            return
        if unfinished is None and not splitter.head:
            return
        is_same_frame = began is not None and len(self._backlog) == before
        self.frame_began = began if is_same_frame else self.server.clock.now()
        if unfinished is not None:
            self._frame_size, self._frame = unfinished.size, bytearray(unfinished.received)
            self._filled = self._room = len(self._frame)
            self._make_room()

    def _make_room(self) -> None:
        """For some times what has come: a size that is only declared takes no memory."""
        frame, filled = self._frame, self._filled
        assert frame is not None
        if filled == self._frame_size:
            self._backlog.append(frame)
            self._frame = self.frame_began = None
            self._reserved_behind, self._reserved = self._reserved_behind + self._reserved, 0
        elif filled == self._room:
            room = min(self._frame_size, max(filled + min(3 * filled, MAX_GROWTH), FREE_ROOM))
            wanted = max(room - FREE_ROOM - self._reserved, 0)
            if wanted and not self.server.memory_pool.try_allocate(self, wanted):
                self._is_starved = True
                self._regulate_reading()
                return
            self._reserved += wanted
            self._room = room

    def _rest(self) -> None:
        self._is_resting = True
        self._regulate_reading()
        self.server.turns.rest(self._read_on)

    def _read_on(self) -> None:
        self._is_resting = False
        self._regulate_reading()

    def feed(self) -> None:
        """The budget may have room again: reading goes on, and so does the time for the frame."""
        self._is_starved = False
        if self._frame is not None and not self._transport.is_closing():
            self.frame_began = self.last_active = self.server.clock.now()
            self._make_room()
            self._regulate_reading()

    @property
    def has_partial_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self.frame_began is not None

    def is_overdue(self, now: int, patience: int) -> bool:
        """Whether half a frame is there and nothing for `patience`, or the frame takes more than that for each MiB."""
        if self.frame_began is None or self._read_paused:  # then the wait is ours
            return False
        received = self._filled if self._frame is not None else 0
        return now - self.last_active >= patience or now - self.frame_began >= patience * (1 + received // (1 << 20))

    @property
    def is_waiting(self) -> bool:
        """Whether a request is in the works, so that silence is not idleness."""
        return bool(self._calls)

    # -- calls

    def _serve_backlog(self) -> int:
        """Returns the time for which it served."""
        now = self.server.clock.now()
        if self._backlog and not self._is_queued:
            if (self._next_slice and monotonic() < self._next_slice) or (
                self.server.turns.is_busy and self._can_wait()
            ):
                self._queue()
            else:
                self._serve_slice(now)
        else:
            self._flush()
        self._check_fullness()
        return now

    def _check_fullness(self) -> None:
        if len(self._calls) > 1 or self._backlog or self._write_paused or self._read_paused:  # one call fills nothing
            self._regulate_reading()

    def _can_wait(self) -> bool:
        """When much has come in this turn of the loop, a single request of another kind goes first. Among heartbeats of
        `consumer` groups that is one like the last, which had nothing to tell."""
        kind = self._backlog[0][:2]
        is_of_crowd = kind in _OF_CROWDS or (kind == _CONSUMER_HEARTBEAT and self.repeated_heartbeat is None)
        return is_of_crowd or len(self._backlog) > (_FEW_HEARTBEATS if kind == _CLASSIC_HEARTBEAT else 1)

    def _serve_slice(self, now: int) -> None:
        """All that has come; but when it takes long, the rest when others have had their turn."""
        began = ends = monotonic()
        self._corked = True
        while self._backlog and not self._is_full() and ends - began < SLICE_S:
            if self._serve(self._backlog.popleft(), now):
                ends = monotonic()
            if self.held_bytes >= _WRITE_HIGH_WATER:
                self._flush()
        self._corked = False
        if self._out:
            self._flush()
        if ends - began >= _WORTH_COUNTING_S:
            self.server.turns.spend(ends - began)
        if ends - began >= SLICE_S:
            self._next_slice = ends + (ends - began)
            if self._backlog:
                self._queue()
        else:
            self._next_slice = 0.0
        if self._reserved_behind and not self._backlog:
            freed, self._reserved_behind = self._reserved_behind, 0
            self.server.memory_pool.release(self, freed)

    def _queue(self) -> None:
        self._is_queued = True
        self.server.turns.add(self._take_turn)

    def _take_turn(self) -> None:
        self._is_queued = False
        if not self._transport.is_closing():
            self._next_slice = 0.0
            if self._backlog:
                self._serve_slice(self.server.clock.now())
            self._check_fullness()

    def _is_full(self) -> bool:
        if self._write_paused or self._muted or self.held_bytes >= _WRITE_HIGH_WATER:
            return True
        return bool(self._calls) and (
            self._pending_bytes >= _PENDING_HIGH_WATER
            or len(self._calls) >= self.server.config.max_in_flight_requests_per_connection
        )

    def mute(self) -> None:
        """Nothing more is read or served, until `unmute` was called as often."""
        self._muted += 1
        self._regulate_reading()

    def unmute(self) -> None:
        """What has waited is served."""
        self._muted -= 1
        if not self._transport.is_closing():
            self._serve_backlog()

    def _regulate_reading(self) -> None:
        # Of a crowd each has one request in the queue: to stop reading and begin again would cost more than to read on.
        full = len(self._backlog) > 1 or self._is_starved or self._is_resting or self._is_full()
        if full is self._read_paused or self._transport.is_closing():
            return
        self._read_paused = full
        if full:
            self._transport.pause_reading()
        else:
            if self.frame_began is not None:  # the wait was ours
                self.frame_began = self.server.clock.now()
            self._transport.resume_reading()

    def _serve(self, frame: bytes | bytearray, now: int) -> bool:
        """Whether it took time worth measuring."""
        if self.authenticator is not None and not self.authenticator.admits(frame, now):
            return True
        known = self.repeated_heartbeat
        if known is not None and not self._calls and (reply := known.answer(frame, now)) is not None:
            self._out.append(reply)
            self.held_bytes += len(reply)
            return False
        commit = self.repeated_commits and self.repeated_commits.known
        try:
            call = (commit and commit.serve(self, frame, now)) or self._call(frame, now)
        except ProtocolError as error:
            self.refuse(str(error))
        except Exception:  # noqa: BLE001  one request must not end the loop
            self.fail()
        else:
            self._settle(call)
        return True

    def _call(self, frame: bytes | bytearray, now: int) -> Call:
        """Decodes a request and has it served."""
        api_key, version, correlation_id, client_id, pos = decode_request_header(frame)
        route = self.server.route(api_key, version)
        call = self.begin_call(route, correlation_id, client_id or "", len(frame), now=now)
        if self.server.throttling.is_enabled:
            call.usage = Usage(len(frame))
        elements = self.server.topics.elements if route.names_partitions else MAX_ELEMENTS
        request = route.decode(frame, pos, elements)
        response = route.handle(self.server, request, call)
        if response is not None:
            call.pieces = call._encode(response)
        elif call.usage is not None:
            call.usage.pause()
        if api_key in _HEARTBEATS:
            self.repeated_heartbeat = repeatable(request, frame, call, response) if response is not None else None
        return call

    def begin_call(self, route: Route, correlation_id: int, client_id: str, size: int, *, now: int) -> Call:
        """A request of so many bytes, which ends a hold."""
        if self.held_heartbeat.held is not None:
            self.held_heartbeat.interrupt(route.api_key in _HEARTBEATS, now)
        call = Call(self, route, correlation_id, client_id)
        call.now = now
        if route.api_key != _PRODUCE:
            call.size = size
        return call

    def decode_all(self) -> None:
        """No request is recognised by its bytes: each is counted, or may meet a fault."""
        self.repeated_heartbeat = self.repeated_commits = None

    def _settle(self, call: Call) -> None:
        if not self._calls and call.pieces is not None:
            self._out += call.pieces
        else:
            self._calls.append(call)
            self._pending_bytes += call.size

    def drain(self) -> None:
        """Sends the replies that are there and whose turn it is."""
        calls = self._calls
        while calls and calls[0].pieces is not None:
            call = calls.popleft()
            self._pending_bytes -= call.size
            self._out += call.pieces or ()
        if self._corked:
            return
        if (gathered := self.server.gathered) is None:
            self.send()
        else:
            gathered[self] = None

    def send(self) -> None:
        """Sends what is made, and serves what has waited for that."""
        self._flush()
        if self._backlog or self._read_paused:
            self._serve_backlog()

    def send_bytes(self, data: bytes) -> None:
        """Sends what is no reply to a request of Kafka's: a token of SASL without a header."""
        self._out.append(data)
        self.held_bytes += len(data)
        if not self._corked:
            self._flush()

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        size = sum(map(len, out))
        self.held_bytes -= size
        if self._transport.is_closing():
            return
        if size <= _JOIN_BELOW:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(join_small(out, _SMALL_PIECE))

    # -- the end

    def complete_delayed(self, reason: Completion) -> None:
        """Completes every delayed operation of this connection."""
        for call in list(self._calls):
            if call.delayed is not None:
                call.delayed.complete(reason)

    def refuse(self, why: str) -> None:
        """Ends the connection because of what the client has sent."""
        self.warn(f"connection closed: {why}")
        self._backlog.clear()
        self.close()

    def warn(self, what: str) -> None:
        """A line in the log, unless this client has had it lately."""
        told = self.server.client_warnings.about(self.peer, what)
        if told is not None:
            log.warning("%s: %s", self.peer, told)

    def fail(self) -> None:
        """Handles an unexpected exception: logs it, and closes the connection."""
        log.exception("%s: a request failed; its connection is closed", self.peer)
        self.close()

    @property
    def is_closing(self) -> bool:
        """Whether its end has begun."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Ends the connection when the replies that are there have left."""
        self._flush()
        self.carried.by_us = True
        self._transport.close()

    def abort(self) -> None:
        """Ends the connection at once."""
        self.carried.by_us = True
        self._transport.abort()

    def reset(self) -> None:
        """Ends the connection at once, and the client is told that it was reset."""
        if (connected := self._transport.get_extra_info("socket")) is not None and not self._transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort()
