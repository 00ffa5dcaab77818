"""Attacks on a TLS listener: requests behind a refusal, slow handshakes, renegotiation, a client that never reads."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from equipoise.broker import Broker, running
from equipoise.broker.net.connection import _WRITE_HIGH_WATER
from equipoise.broker.net.tls_connection import PIECE
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.calls import append, create_topic, fetch_request
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import TIMEOUT, request_frame
from tests.broker.secured import authority, context, principals, tls_settings

METADATA = MetadataRequest(topics=[])
CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="stolen", num_partitions=1, replication_factor=1)])


class HandMadeTls:
    """A client's TLS without a socket of its own: its bytes are sent when the test wants it."""

    def __init__(self, broker: Broker, made: ssl.SSLContext) -> None:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = made.wrap_bio(self._in, self._out, server_hostname=host)

    def finish_handshake(self) -> None:
        """All but the client's last message, which stays to be taken with what is written behind it."""
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.socket.sendall(self._out.read())
                self._in.write(self.socket.recv(65536))

    def unsent(self) -> bytes:
        return self._out.read()

    def wait_closed(self) -> None:
        with contextlib.suppress(ConnectionResetError):
            while self.socket.recv(65536):
                pass
        self.socket.close()


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_a_request_behind_the_handshake_of_a_refused_certificate_is_not_served(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """In one packet with the client's last message: it would be served as ANONYMOUS."""
    monkeypatch.setattr(running, "new_event_loop", loop)
    rules = "RULE:^CN=(app.*?),.*$/$1/"
    broker = start(tls_settings(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules))
    client = HandMadeTls(broker, context(authority().issue_cert("x", common_name="other")))
    client.finish_handshake()
    for _ in range(3):
        client.tls.write(request_frame(CREATE, 5))
    client.socket.sendall(client.unsent())
    client.wait_closed()
    eventually(lambda: principals(broker) == [], "the connection is gone")
    assert list(broker.topics) == []


def test_a_handshake_that_trickles_ends_at_the_deadline(start: Start, connect: Connect, tmp_path: Path) -> None:
    """Each byte comes in time, and the whole does not."""
    broker = start(tls_settings(tmp_path, request_receive_timeout_ms=2500))
    slow = HandMadeTls(broker, context())
    with pytest.raises(ssl.SSLWantReadError):
        slow.tls.do_handshake()
    hello = slow.unsent()
    assert connect(broker, tls=context()).call(METADATA).brokers
    slow.socket.settimeout(0.02)
    with contextlib.suppress(ConnectionError):
        for place in range(len(hello) - 1):
            slow.socket.sendall(hello[place : place + 1])
            with contextlib.suppress(TimeoutError):
                assert slow.socket.recv(1) == b""
                break
        else:
            pytest.fail("all of the ClientHello was waited for")
    slow.socket.close()
    eventually(lambda: broker.call(lambda server: not server.listeners.all[0].handshakes), "no handshake is left")
    assert connect(broker, tls=context()).call(METADATA).brokers


def test_a_client_cannot_renegotiate(start: Start, connect: Connect, tmp_path: Path) -> None:
    """`R` makes OpenSSL's own client ask for a new handshake, again and again."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the command openssl is not here")
    broker = start(tls_settings(tmp_path))
    command = [openssl, "s_client", "-tls1_2", "-connect", broker.bootstrap_servers]
    asked = subprocess.run(command, input="R\n" * 50, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert "RENEGOTIATING" in asked.stdout + asked.stderr
    assert "no renegotiation" in asked.stdout + asked.stderr
    assert connect(broker, tls=context()).call(METADATA).brokers


def test_a_client_that_asks_and_never_reads_is_bounded_and_ends(start: Start, connect: Connect, tmp_path: Path) -> None:
    """Replies of 50 MB are asked for; the broker makes no more of them than it can hand over."""
    clock = StandingClock()
    broker = start(tls_settings(tmp_path, connections_max_idle_ms=60_000), clock=clock)
    writer = connect(broker, tls=context())
    create_topic(writer)
    for _ in range(5):
        append(writer, bytes(1_000_000))
    writer.close()
    greedy = connect(broker, tls=context(), receive_buffer=4096)
    for _ in range(10):
        greedy.send(fetch_request({("t", 0): 0}, max_bytes=50_000_000, partition_max_bytes=50_000_000), 12)

    def waiting() -> list[tuple[int, int]]:
        return broker.call(
            lambda server: [
                (one.held_bytes, one._transport.get_write_buffer_size())
                for one in server.connections
                if one._write_paused
            ]
        )

    ((held, handed_over),) = eventually(waiting, "replies wait")
    assert held < 5_200_000, "one reply, and not all that are asked for"
    assert handed_over <= _WRITE_HIGH_WATER + 2 * PIECE
    honest = connect(broker, tls=context())
    advance(broker, clock, 59_000)
    assert honest.call(METADATA).brokers
    advance(broker, clock, 2_000)
    eventually(lambda: broker.call(lambda server: len(server.connections)) == 1, "the greedy client is cut off")
    assert honest.call(METADATA).brokers


def test_a_request_behind_a_refused_one_is_not_served_while_replies_wait(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    """The connection ends when its replies are read; until then it does nothing more."""
    broker = start(tls_settings(tmp_path))
    client = connect(broker, tls=context(), receive_buffer=4096)
    create_topic(client)
    for _ in range(5):
        append(client, bytes(1_000_000))
    client.send(fetch_request({("t", 0): 0}, max_bytes=50_000_000, partition_max_bytes=50_000_000), 12)
    client.send_bytes(b"\xff\xff\xff\xff")
    client.send_bytes(request_frame(CREATE, 5))
    client.wait_closed()
    eventually(lambda: principals(broker) == [], "the connection is gone")
    assert list(broker.topics) == ["t"]


@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_of_a_handshake_lead_anywhere(
    start: Start,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    loop: Callable[[], asyncio.AbstractEventLoop],
    seed: int,
) -> None:
    """A ClientHello with changed bytes, cut off, or with nonsense behind it: an alert or the end, and no traceback."""
    monkeypatch.setattr(running, "new_event_loop", loop)
    broker = start(tls_settings(tmp_path, request_receive_timeout_ms=2000))
    chance = random.Random(seed)
    for _ in range(25):
        client = HandMadeTls(broker, context())
        with contextlib.suppress(ssl.SSLWantReadError):
            client.tls.do_handshake()
        data = bytearray(client.unsent())
        for _ in range(chance.randint(0, 6)):
            place = chance.randrange(1, len(data))
            data[place : place + chance.choice((0, 1, 1, 4))] = chance.randbytes(chance.choice((0, 1, 1, 3)))
        del data[chance.choice((len(data), chance.randrange(1, len(data)))) :]
        client.socket.sendall(bytes(data) + chance.randbytes(chance.choice((0, 0, 5, 300))))
        client.socket.shutdown(socket.SHUT_WR)
        client.wait_closed()
    eventually(lambda: principals(broker) == [], "nobody is connected")
    assert connect(broker, tls=context()).call(METADATA).brokers
    assert [record for record in caplog.records if record.exc_info] == []
