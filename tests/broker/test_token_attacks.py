"""Attacks by OAUTHBEARER on the wire: forged tokens, floods of unknown keys, large tokens, an issuer that fails."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from equipoise.broker import Broker
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.broker.secured import principals
from tests.security.tokens import Issuer, claims, encoded, unsigned

NOW_S = 1_700_000_000
INVALID = b'{"status":"invalid_token"}'
GOOD_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


class KeyServer(ThreadingHTTPServer):
    """The issuer's keys, and how often they were asked for. `answer` is the whole answer, head and all."""

    def __init__(self, issuer: Issuer) -> None:
        self.asked = 0
        self.good = self.answer = GOOD_HEAD + issuer.key_set().encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                self.asked += 1
                handler.wfile.write(self.answer)

            def log_message(handler, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/keys"


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def keys(issuer: Issuer) -> Iterator[KeyServer]:
    with KeyServer(issuer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock(NOW_S * 1000)


@pytest.fixture
def secured(start: Start, keys: KeyServer, clock: StandingClock) -> Broker:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.url,
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "kafka",
        "connection.failed.authentication.delay.ms": 0,
    }
    return start(settings, clock=clock)


def first_message(token: str) -> bytes:
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


def is_let_in(client: RawClient, token: str, clock: StandingClock, broker: Broker) -> bool:
    """A refusal is a document, and then an error."""
    answer = client.authenticate("OAUTHBEARER", first_message(token))
    assert answer.error_code == ErrorCode.NONE
    if not answer.auth_bytes:
        return bool(client.call(MetadataRequest(topics=[])).brokers)
    assert answer.auth_bytes == INVALID
    client.send(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
    while not client.has_reply():
        advance(broker, clock, 0)
    refused = client.receive()
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.error_message == INVALID.decode()
    client.wait_closed()
    return False


def signed_with_the_public_key(issuer: Issuer) -> str:
    head = encoded(json.dumps({"alg": "HS256", "kid": "rsa"}).encode())
    signed = f"{head}.{encoded(json.dumps(claims(NOW_S)).encode())}"
    return f"{signed}.{encoded(hmac.digest(issuer.key_set().encode(), signed.encode(), hashlib.sha256))}"


def test_forged_and_expired_tokens_are_refused(
    secured: Broker, issuer: Issuer, connect: Connect, clock: StandingClock
) -> None:
    head, _, signature = issuer.token(claims(NOW_S)).split(".")
    forged = {
        "alg none": unsigned(claims(NOW_S)),
        "HS256": signed_with_the_public_key(issuer),
        "another's claims": f"{head}.{encoded(json.dumps(claims(NOW_S, sub='admin')).encode())}.{signature}",
        "of another key": Issuer().token(claims(NOW_S)),
        "expired": issuer.token(claims(NOW_S, exp=NOW_S - 60)),
        "no exp": issuer.token(claims(NOW_S, exp=None)),
        "not yet": issuer.token(claims(NOW_S, nbf=NOW_S + 60)),
        "audience": issuer.token(claims(NOW_S, aud="web")),
        "issuer": issuer.token(claims(NOW_S, iss="https://other")),
    }
    let_in = [why for why, token in forged.items() if is_let_in(connect(secured), token, clock, secured)]
    assert let_in == []
    assert is_let_in(connect(secured), issuer.token(claims(NOW_S)), clock, secured)
    eventually(lambda: principals(secured) == ["User:alice"], "the others are gone")


def test_unknown_keys_are_asked_for_once_in_ten_seconds(
    secured: Broker, issuer: Issuer, connect: Connect, clock: StandingClock, keys: KeyServer
) -> None:
    def flood() -> None:
        clients = [connect(secured) for _ in range(20)]
        tokens = [issuer.token(claims(NOW_S), kid=f"new{number}") for number in range(20)]
        with ThreadPoolExecutor(20) as threads:
            under_way = [
                threads.submit(is_let_in, client, token, clock, secured)
                for client, token in zip(clients, tokens, strict=True)
            ]
            assert not any(one.result() for one in under_way)

    assert is_let_in(connect(secured), issuer.token(claims(NOW_S)), clock, secured)
    assert keys.asked == 1
    flood()
    advance(secured, clock, 9_999)
    flood()
    assert keys.asked == 1
    advance(secured, clock, 1)
    flood()
    assert keys.asked == 2
    assert is_let_in(connect(secured), issuer.token(claims(NOW_S)), clock, secured)


def test_a_token_of_400_kilobytes_is_refused_by_its_size(
    secured: Broker,
    issuer: Issuer,
    connect: Connect,
    clock: StandingClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert is_let_in(connect(secured), issuer.token(claims(NOW_S)), clock, secured)
    monkeypatch.setattr("equipoise.security.sasl.jwt.json", None)
    monkeypatch.setattr("equipoise.security.sasl.jwt._verify", None)
    for token in (issuer.token(claims(NOW_S, more="x" * 300_000)), "e" * 400_000 + ".e30.AA"):
        assert not is_let_in(connect(secured), token, clock, secured)


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 500 no\r\n\r\n", GOOD_HEAD, GOOD_HEAD + b"[" * 100_000, GOOD_HEAD + b"\xff"],
    ids=["nothing", "no HTTP", "500", "empty", "deep", "no text"],
)
def test_an_issuer_that_fails_keeps_nobody_waiting_and_is_asked_again(
    secured: Broker,
    issuer: Issuer,
    connect: Connect,
    clock: StandingClock,
    keys: KeyServer,
    caplog: pytest.LogCaptureFixture,
    answer: bytes,
) -> None:
    keys.answer = answer
    assert not is_let_in(connect(secured), issuer.token(claims(NOW_S)), clock, secured)
    assert "keys of the tokens' issuer cannot be had" in caplog.text
    keys.answer = keys.good
    advance(secured, clock, 10_000)
    assert is_let_in(connect(secured), issuer.token(claims(NOW_S)), clock, secured)
    assert keys.asked == 2
