"""Attacks at the login: guesses, and what their checks do for users that do not exist; words that would spoil a log."""

from __future__ import annotations

import hmac
from pathlib import Path
from types import SimpleNamespace

import pytest

from equipoise.broker import Broker
from equipoise.broker.security import logins
from equipoise.security import users
from equipoise.security.sasl.scram import ScramCredential
from equipoise.security.secrets import Secret
from equipoise.security.users import verifies
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient, request_frame
from tests.broker.secured import ALICE, SASL, ScramClient, principals
from tests.broker.test_sasl import file_settings, verifier, write_users

EVIL = "x\n2026-01-01 ERROR forged\r\x1b[31m\x1b]0;title\x07\u202e"


@pytest.mark.parametrize(("user", "password"), [("alice", "alice-secret"), ("alice", "a"), ("nobody", "alice-secret")])
def test_a_password_is_compared_in_constant_time_whether_or_not_the_user_exists(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, user: str, password: str
) -> None:
    compared: list[tuple[int, int]] = []

    def compare_digest(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(users, "hmac", SimpleNamespace(compare_digest=compare_digest))
    answer = connect(start(SASL)).authenticate("PLAIN", f"\0{user}\0{password}".encode())
    assert (answer.error_code == ErrorCode.NONE) is ((user, password) == ("alice", "alice-secret"))
    assert compared == [(32, 32)]


@pytest.mark.parametrize("user", ["bob", "nobody"])
def test_a_slow_hash_is_made_for_a_user_that_does_not_exist_too(
    start: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    write_users(tmp_path / "users", verifier("bob", "two"))
    hashed: list[int] = []

    def counted(mechanism: str, kept: ScramCredential, password: Secret) -> bool:
        hashed.append(kept.iterations)
        return verifies(mechanism, kept, password)

    monkeypatch.setattr(logins, "verifies", counted)
    answer = connect(start(file_settings(tmp_path / "users"))).authenticate("PLAIN", f"\0{user}\0guess".encode())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert hashed == [4096]


def evil_requests(broker: Broker, connect: Connect) -> None:
    connect(broker).authenticate("PLAIN", f"\0{EVIL}\0guess".encode())
    connect(broker).authenticate("PLAIN", f"{EVIL}\0alice\0alice-secret".encode())
    connect(broker).authenticate("SCRAM-SHA-256", f"n,,n={EVIL},r={EVIL}".encode())
    ScramClient("carol" + "\x1b[31m", "pw").run(connect(broker))
    connect(broker).authenticate(EVIL)
    early = connect(broker)
    early.send_bytes(request_frame(MetadataRequest(topics=[]), 12, 1, EVIL))
    early.wait_closed()
    odd: RawClient = connect(broker)
    odd.send_bytes(request_frame(SaslHandshakeRequest(mechanism=EVIL), 1, 1, EVIL))
    odd.wait_closed()


def test_nothing_that_a_client_sends_spoils_the_log(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    broker = start(SASL)
    evil_requests(broker, connect)
    inside = connect(broker)
    inside.authenticate("PLAIN", ALICE)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=EVIL)])
    inside.send_bytes(request_frame(asked, 12, 1, EVIL))
    inside.receive_frame()
    inside.send_bytes(request_frame(asked, 12, 1, EVIL).replace(b"\x0c", b"\x7f", 1))
    inside.wait_closed()
    assert len(caplog.records) >= 5
    spoilt = [one.getMessage() for one in caplog.records if not one.getMessage().isprintable()]
    assert spoilt == []
    eventually(lambda: principals(broker) == [], "all are gone")
