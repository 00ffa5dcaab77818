"""A small broker behind TLS and SASL, with a thread for each connection: the client's side is tested against it.

It answers ApiVersions, the login and Metadata. Tests change how it behaves: certificates, mechanisms, lies.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import trustme

from equipoise.security.sasl.scram import (
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
    auth_message,
    credential,
    is_proof,
    salted_password,
    server_signature,
)
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import decode_request_header, encode_response_header
from equipoise.wire.apis.k03_metadata import MetadataResponse, MetadataResponseBroker
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeResponse
from equipoise.wire.apis.k18_api_versions import ApiVersion, ApiVersionsResponse
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from equipoise.wire.schema import Message
from tests.client.scripted import _read_frame, framed

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SERVED = {3: (0, 12), 17: (0, 1), 18: (0, 4), 36: (0, 2)}

Tamper = Callable[[bytes], bytes]


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def other_authority() -> trustme.CA:
    return trustme.CA()


def server_context(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """With `clients`, a client needs a certificate of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@cache
def ca_file(directory: Path, ca: trustme.CA) -> str:
    path = directory / f"ca-{id(ca)}.pem"
    ca.cert_pem.write_to_path(path)
    return str(path)


@dataclass
class SecuredBroker:
    """`log` has the API key of each request, connection by connection."""

    context: ssl.SSLContext | None = None
    mechanisms: tuple[str, ...] = ()
    users: dict[str, str] = field(default_factory=lambda: {"alice": "alice-secret"})
    tokens: set[str] = field(default_factory=lambda: {"good-token"})
    lifetime_ms: int = 0
    iterations: int = 4096
    tamper_first: Tamper = bytes  # SCRAM's server-first message
    tamper_final: Tamper = bytes
    silent_at: int | None = None  # the API key that is never answered
    closes_at: int | None = None  # the API key at which the connection is closed
    delay_s: float = 0.0  # before Metadata is answered
    newest: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log: list[list[int]] = []
        self.principals: list[str] = []
        self.extensions: dict[str, str] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._open: list[socket.socket] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(peer)
            thread = threading.Thread(target=self._serve, args=(peer,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        try:
            peer.settimeout(20)
            if self.context is not None:
                peer = self.context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
                self._open.append(peer)
                self._begin_tls(peer)
            elif peer.recv(1, socket.MSG_PEEK) == b"\x16":  # a ClientHello: as a size it is beyond all bounds
                return
            _Session(self, peer).run()
        except (OSError, ConnectionError):  # TLS failed, or the client has gone
            pass
        finally:
            peer.close()

    def _begin_tls(self, peer: ssl.SSLSocket) -> None:
        try:
            peer.do_handshake()
        except ssl.SSLError:  # closed with unread bytes, the alert would not arrive
            socket.socket.shutdown(peer, socket.SHUT_WR)
            while socket.socket.recv(peer, 4096):
                pass
            raise


class _Session:
    def __init__(self, broker: SecuredBroker, peer: socket.socket) -> None:
        self._broker, self._peer = broker, peer
        self._log: list[int] = []
        broker.log.append(self._log)
        self._mechanism = ""
        self._first: tuple[ClientFirst, ServerFirst, bytes] | None = None
        self._is_ready = not broker.mechanisms

    def run(self) -> None:
        while True:
            frame = _read_frame(self._peer)
            key, version, correlation_id, *_, pos = decode_request_header(frame)
            self._log.append(key)
            if key == self._broker.closes_at:
                return
            if key == self._broker.silent_at:
                continue
            if key not in (17, 18, 36) and not self._is_ready:
                return
            request = APIS[key].request.decode(frame, version, pos) if key != 3 else None
            answer = self._answer(key, request)
            head = encode_response_header(key, version, correlation_id)
            self._peer.sendall(framed(head + answer.encode(version)))
            if key in (17, 36) and answer.error_code:  # type: ignore[attr-defined]
                return

    def _answer(self, key: int, request: Any) -> Message:
        match key:
            case 18:
                served = {one: (first, self._broker.newest.get(one, last)) for one, (first, last) in _SERVED.items()}
                return ApiVersionsResponse(
                    error_code=0,
                    api_keys=[ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in served.items()],
                )
            case 17:
                return self._choose(request.mechanism)
            case 36:
                return self._authenticate(bytes(request.auth_bytes))
        time.sleep(self._broker.delay_s)
        me = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._broker.port)
        return MetadataResponse(brokers=[me], topics=[], cluster_id="secured")

    def _choose(self, mechanism: str) -> SaslHandshakeResponse:
        offered = list(self._broker.mechanisms)
        if not offered:
            return SaslHandshakeResponse(error_code=34, mechanisms=[])
        self._mechanism = mechanism
        return SaslHandshakeResponse(error_code=0 if mechanism in offered else 33, mechanisms=offered)

    def _authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        try:
            answer, name = getattr(self, "_" + self._mechanism.partition("-")[0].lower())(token)
        except ValueError as error:
            return SaslAuthenticateResponse(error_code=58, error_message=str(error))
        if name:
            self._broker.principals.append(name)
            self._is_ready = True
        lifetime = self._broker.lifetime_ms if name else 0
        return SaslAuthenticateResponse(error_code=0, auth_bytes=answer, session_lifetime_ms=lifetime)

    def _plain(self, token: bytes) -> tuple[bytes, str]:
        _, name, password = token.decode().split("\0")
        if self._broker.users.get(name) != password:
            raise ValueError("Authentication failed: Invalid username or password")
        return b"", name

    def _scram(self, token: bytes) -> tuple[bytes, str]:
        broker = self._broker
        if self._first is None:
            first = ClientFirst.parse(token)
            server = ServerFirst(
                first.nonce + secrets.token_hex(8), b"salt of " + first.username.encode(), broker.iterations
            )
            sent = broker.tamper_first(server.encode())
            self._first = first, server, sent
            return sent, ""
        (first, server, sent), self._first = self._first, None
        final = ClientFinal.parse(token)
        password = broker.users.get(first.username, "no such user").encode()
        salted = salted_password(self._mechanism, password, server.salt, server.iterations)
        known = credential(self._mechanism, salted, server.salt, server.iterations)
        auth = auth_message(first.bare, sent, final.without_proof)
        if not is_proof(self._mechanism, known.stored_key, final.proof, auth):
            raise ValueError(
                "Authentication failed during authentication due to invalid credentials with SASL mechanism"
            )
        signature = server_signature(self._mechanism, known.server_key, auth)
        return broker.tamper_final(ServerFinal(signature).encode()), first.username

    def _oauthbearer(self, token: bytes) -> tuple[bytes, str]:
        if token == b"\x01":
            raise ValueError('{"status":"invalid_token"}')
        head, *pairs = token.decode().strip("\x01").split("\x01")
        assert head == "n,,"
        values = dict(pair.split("=", 1) for pair in pairs)
        kind, _, value = values.pop("auth").partition(" ")
        assert kind == "Bearer"
        self._broker.extensions = values
        if value not in self._broker.tokens:
            return b'{"status":"invalid_token"}', ""
        return b"", "bearer"
