"""SASL on the wire: states, limits, delays, re-authentication, users. Attacks before authentication are among them."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.security.sasl import scram
from equipoise.security.users import line_of
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import encode_request_header
from equipoise.wire.apis.k01_fetch import FetchRequest
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from equipoise.wire.errors import ErrorCode, UsageError
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient, request_frame, sized
from tests.broker.secured import ALICE, SASL, WRONG, ScramClient, principals

METADATA = MetadataRequest(topics=[])


@pytest.fixture
def secured(start: Start) -> Broker:
    return start(SASL)


@pytest.fixture
def guest(secured: Broker, connect: Connect) -> RawClient:
    return connect(secured)


# -- the way in


@pytest.mark.parametrize("asks_versions", [True, False])
def test_plain_lets_a_known_user_in(secured: Broker, guest: RawClient, asks_versions: bool) -> None:
    if asks_versions:
        answer = guest.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"))
        assert {17, 36} <= {one.api_key for one in answer.api_keys}
    answer = guest.authenticate("PLAIN", ALICE)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.NONE, b"", 0)
    assert guest.call(METADATA).brokers
    assert principals(secured) == ["User:alice"]


@pytest.mark.parametrize("mechanism", scram.HASHES)
def test_scram_lets_a_known_user_in(secured: Broker, guest: RawClient, mechanism: str) -> None:
    assert ScramClient(mechanism=mechanism).run(guest).error_code == ErrorCode.NONE
    assert guest.call(METADATA).brokers
    assert principals(secured) == ["User:alice"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_the_token_request_works(guest: RawClient, version: int) -> None:
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert guest.call(SaslAuthenticateRequest(auth_bytes=ALICE), version).error_code == ErrorCode.NONE
    assert guest.call(METADATA).brokers


def test_after_handshake_v0_tokens_are_bare_frames(secured: Broker, guest: RawClient) -> None:
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    guest.send_bytes(sized(ALICE))
    assert guest.receive_frame() == b""
    assert guest.call(METADATA).brokers
    assert principals(secured) == ["User:alice"]


def test_bare_frames_of_scram(guest: RawClient) -> None:
    side = ScramClient()
    guest.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0)
    guest.send_bytes(sized(side.first))
    guest.send_bytes(sized(side.final(guest.receive_frame())))
    assert guest.receive_frame().startswith(b"v=")
    assert guest.call(METADATA).brokers


@pytest.mark.parametrize("token", [WRONG, b"", b"\0\0", b"x"])
def test_a_bare_token_that_fails_has_no_answer(guest: RawClient, token: bytes) -> None:
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 0)
    guest.send_bytes(sized(token))
    with pytest.raises(ConnectionResetError):
        guest.receive_frame()


def test_a_request_behind_the_last_token_is_served_after_success(guest: RawClient) -> None:
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    guest.send_bytes(request_frame(SaslAuthenticateRequest(auth_bytes=ALICE), 2, 7) + request_frame(METADATA, 12, 8))
    assert [guest.receive_frame()[:4] for _ in range(2)] == [struct.pack(">i", 7), struct.pack(">i", 8)]


def test_a_request_behind_the_last_token_is_dropped_after_failure(guest: RawClient) -> None:
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    guest.send_bytes(request_frame(SaslAuthenticateRequest(auth_bytes=WRONG), 2, 7) + request_frame(METADATA, 12, 8))
    assert guest.receive_frame()[:4] == struct.pack(">i", 7)
    with pytest.raises(ConnectionResetError):
        guest.receive_frame()


# -- what is refused


@pytest.mark.parametrize("api_key", sorted({*APIS, 9999, -1} - {17, 18}))
def test_nothing_else_is_answered_before_authentication(guest: RawClient, api_key: int) -> None:
    """Not even decoded: the body is nonsense, and no error of it is in the log."""
    guest.send_bytes(sized(struct.pack(">hhih", api_key, 0, 1, -1) + b"\xff" * 20))
    with pytest.raises(ConnectionResetError):
        guest.receive_frame()


def test_the_log_says_it_once(
    guest: RawClient, secured: Broker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    for client in (guest, connect(secured), connect(secured)):
        client.send_bytes(request_frame(METADATA, 12))
        client.wait_closed()
    assert caplog.text.count("a request with API key 3 before authentication") == 1


def test_versions_are_told_once(guest: RawClient) -> None:
    versions = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    refused = guest.call(ApiVersionsRequest(client_software_name="", client_software_version="1"))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert guest.call(versions).error_code == ErrorCode.NONE
    guest.send(versions)
    with pytest.raises(ConnectionResetError):
        guest.receive()


@pytest.mark.parametrize("request_", [ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")])
def test_in_the_middle_of_an_exchange_the_answer_is_an_error_and_the_end(
    guest: RawClient, request_: ApiVersionsRequest | SaslHandshakeRequest
) -> None:
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert guest.call(request_, 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    guest.wait_closed()


@pytest.mark.parametrize("mechanism", ["", "plain", "GSSAPI", "OAUTHBEARER", "x" * 30_000])
def test_a_mechanism_that_is_not_offered_is_refused_with_the_list(guest: RawClient, mechanism: str) -> None:
    answer = guest.authenticate(mechanism)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    guest.wait_closed()


@pytest.mark.parametrize("token", [WRONG, b"\0carol\0pw", b"\0\0", b"\0" * 500_000, os.urandom(1000), b""])
def test_a_wrong_token_is_answered_and_ends_the_connection(guest: RawClient, token: bytes) -> None:
    answer = guest.authenticate("PLAIN", token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    guest.wait_closed()


@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("carol", "pw"), ("User:alice", "alice-secret")])
def test_scram_tells_neither_user_nor_reason(guest: RawClient, user: str, password: str) -> None:
    answer = ScramClient(user, password).run(guest)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_a_scram_exchange_cannot_be_replayed(secured: Broker, connect: Connect) -> None:
    side = ScramClient()
    first = connect(secured)
    final = side.final(first.authenticate("SCRAM-SHA-256", side.first).auth_bytes)
    replayed = connect(secured).authenticate("SCRAM-SHA-256", side.first, final)
    assert replayed.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("size", [524_289, 2**31 - 1, -1, -(2**31)])
def test_a_frame_may_have_half_a_mebibyte_before_authentication(
    secured: Broker, guest: RawClient, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    guest.send_bytes(struct.pack(">i", size) + b"x" * 100)
    guest.wait_closed()
    assert f"a frame of {size} bytes" in caplog.text
    assert secured.call(lambda server: server.memory_pool.used) == 0


def test_larger_frames_come_after_authentication(guest: RawClient) -> None:
    guest.authenticate("PLAIN", ALICE)
    guest.send_bytes(struct.pack(">i", 600_000) + encode_request_header(3, 1, 5, "x" * 30_000))
    guest.send_bytes(b"\0" * 600_000)
    guest.wait_closed()  # it was read whole, and its body was nonsense


def test_nothing_but_an_error_is_told_on_a_listener_without_sasl(client: RawClient) -> None:
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = client.call(SaslAuthenticateRequest(auth_bytes=ALICE))
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.call(METADATA).brokers


def test_after_authentication_a_second_one_is_refused_and_the_connection_goes_on(guest: RawClient) -> None:
    guest.authenticate("PLAIN", ALICE)
    assert guest.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    answer = guest.call(SaslAuthenticateRequest(auth_bytes=ALICE))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )
    assert guest.call(METADATA).brokers


def test_neither_client_id_nor_authorization_id_changes_the_principal(secured: Broker, connect: Connect) -> None:
    client = connect(secured)
    assert client.authenticate("PLAIN", b"admin" + ALICE).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    client = connect(secured)
    client.authenticate("PLAIN", ALICE)
    client.send_bytes(request_frame(METADATA, 12, 1, "User:admin"))
    client.receive_frame()
    eventually(lambda: principals(secured) == ["User:alice"], "one connection is left")


# -- time


def test_a_failure_is_answered_later_and_nothing_is_read_meanwhile(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start({**SASL, "connection.failed.authentication.delay.ms": 5000}, clock=clock)
    guest = connect(broker)
    guest.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    guest.send(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
    other = connect(broker)
    other.authenticate("PLAIN", ALICE)
    eventually(lambda: broker.call(lambda _: 5000 in clock.pauses()), "the failure waits")
    advance(broker, clock, 4999)
    assert not guest.has_reply()
    assert other.call(METADATA).brokers
    advance(broker, clock, 1)
    assert guest.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    guest.wait_closed()


def test_the_whole_authentication_has_one_deadline_however_it_trickles(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start(SASL, clock=clock)
    idle, slow, done = connect(broker), connect(broker), connect(broker)
    done.authenticate("PLAIN", ALICE)
    slow.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    for byte in struct.pack(">i", 100) + b"x" * 25:
        slow.send_bytes(bytes([byte]))
        eventually(lambda: broker.call(lambda server: len(server.connections)) == 3, "all are connected")
        advance(broker, clock, 1000)
    advance(broker, clock, 1000)
    idle.wait_closed()
    slow.wait_closed()
    assert done.call(METADATA).brokers


def test_guessing_passwords_does_not_hold_up_others(secured: Broker, connect: Connect) -> None:
    guessing = [connect(secured) for _ in range(100)]
    for client in guessing:
        client.send_bytes(request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1))
        client.send_bytes(request_frame(SaslAuthenticateRequest(auth_bytes=WRONG), 2, 2))
    honest = connect(secured)
    honest.authenticate("PLAIN", ALICE)
    assert honest.call(METADATA).brokers
    for client in guessing:
        client.wait_closed()
    assert principals(secured) == ["User:alice"]


# -- re-authentication

REAUTH = {**SASL, "connections.max.reauth.ms": 2000}


@pytest.fixture
def renewing(start: Start, connect: Connect) -> tuple[Broker, StandingClock, RawClient]:
    clock = StandingClock()
    broker = start(REAUTH, clock=clock)
    client = connect(broker)
    assert client.authenticate("PLAIN", ALICE).session_lifetime_ms == 2000
    return broker, clock, client


def advance_until_reply(broker: Broker, clock: StandingClock, client: RawClient) -> None:
    def has_reply() -> bool:
        advance(broker, clock, 100)
        return client.has_reply()

    eventually(has_reply, "the answer comes when its time has come")


def test_a_session_is_renewed_and_goes_on(renewing: tuple[Broker, StandingClock, RawClient]) -> None:
    broker, clock, client = renewing
    for _ in range(3):
        advance(broker, clock, 1500)
        assert client.call(METADATA).brokers
        assert client.authenticate("PLAIN", ALICE).session_lifetime_ms == 2000
    assert client.call(METADATA).brokers


def test_a_token_of_a_renewal_is_bounded_too(renewing: tuple[Broker, StandingClock, RawClient]) -> None:
    """sasl.server.max.receive.size is for every token (SaslServerAuthenticator.authenticate)."""
    broker, clock, client = renewing
    advance(broker, clock, 1500)
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.NONE
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + b"x" * 600_000))
    client.wait_closed()


def test_an_expired_session_ends_at_the_next_request(renewing: tuple[Broker, StandingClock, RawClient]) -> None:
    broker, clock, client = renewing
    advance(broker, clock, 2000)
    assert principals(broker) == ["User:alice"]  # until it asks for something
    client.send(METADATA)
    with pytest.raises(ConnectionResetError):
        client.receive()
    assert broker.call(lambda server: server.expired_connections_killed) == 1


def test_an_expired_session_can_still_be_renewed(renewing: tuple[Broker, StandingClock, RawClient]) -> None:
    broker, clock, client = renewing
    advance(broker, clock, 60_000)
    assert client.authenticate("PLAIN", ALICE).error_code == ErrorCode.NONE
    assert client.call(METADATA).brokers


def test_twice_in_a_second_is_refused(renewing: tuple[Broker, StandingClock, RawClient]) -> None:
    broker, clock, client = renewing
    advance(broker, clock, 999)
    assert client.call(SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.call(METADATA).brokers


def test_another_user_cannot_take_a_connection_over(renewing: tuple[Broker, StandingClock, RawClient]) -> None:
    broker, clock, client = renewing
    advance(broker, clock, 1500)
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bob-secret"), 2)
    advance_until_reply(broker, clock, client)
    answer = client.receive()
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    client.wait_closed()


def test_a_request_in_the_middle_of_a_renewal_ends_the_connection(
    renewing: tuple[Broker, StandingClock, RawClient],
) -> None:
    broker, clock, client = renewing
    advance(broker, clock, 1500)
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(METADATA)
    with pytest.raises(ConnectionResetError):
        client.receive()


def test_the_answer_to_a_parked_request_leaves_before_that_of_the_renewal(
    renewing: tuple[Broker, StandingClock, RawClient],
) -> None:
    broker, clock, client = renewing
    advance(broker, clock, 1500)
    client.send(FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=1000, topics=[]), 12)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    advance_until_reply(broker, clock, client)
    assert client.receive().error_code == ErrorCode.NONE
    assert client.receive().mechanisms


# -- users


def write_users(path: Path, *lines: str) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
    unfinished.chmod(0o600)
    unfinished.replace(path)


def verifier(name: str, password: str) -> str:
    salted = scram.salted_password("SCRAM-SHA-256", password.encode(), b"salt", 4096)
    return line_of(name, "SCRAM-SHA-256", scram.credential("SCRAM-SHA-256", salted, b"salt", 4096))


def file_settings(path: Path) -> dict[str, object]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.users.file": path,
    }


def can(broker: Broker, connect: Connect, user: str, password: str, mechanism: str = "PLAIN") -> bool:
    client = connect(broker)
    if mechanism == "PLAIN":
        answer = client.authenticate("PLAIN", f"\0{user}\0{password}".encode())
    else:
        answer = ScramClient(user, password, mechanism).run(client)
    return bool(answer.error_code == ErrorCode.NONE)


def test_the_users_file_serves_plain_and_scram_in_both_notations(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    write_users(tmp_path / "users", "alice:plain:one", verifier("bob", "two"))
    broker = start(file_settings(tmp_path / "users"))
    for user, password in (("alice", "one"), ("bob", "two")):
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            assert can(broker, connect, user, password, mechanism)
            assert not can(broker, connect, user, password + "x", mechanism)
    assert can(broker, connect, "bob", "two")  # the second time from memory
    assert not can(broker, connect, "carol", "one")


def test_many_slow_logins_at_once(start: Start, connect: Connect, tmp_path: Path) -> None:
    write_users(tmp_path / "users", *(verifier(f"user{number}", "pw") for number in range(5)))
    broker = start(file_settings(tmp_path / "users"))
    clients = [connect(broker) for _ in range(20)]
    for number, client in enumerate(clients):
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        right = b"pw" if number % 2 else b"no"
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0user%d\0%s" % (number % 5, right)), 2)
        client.send(METADATA)
    for number, client in enumerate(clients):
        expected = ErrorCode.NONE if number % 2 else ErrorCode.SASL_AUTHENTICATION_FAILED
        assert client.receive().error_code == expected
        if number % 2:
            assert client.receive().brokers


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(
    start: Start, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, path = StandingClock(), tmp_path / "users"
    write_users(path, "alice:plain:one")
    broker = start({**file_settings(path), "connection.failed.authentication.delay.ms": 0}, clock=clock)
    assert can(broker, connect, "alice", "one")
    write_users(path, "alice:plain:two")
    advance(broker, clock, 1000)
    assert can(broker, connect, "alice", "two")
    write_users(path, "alice:plain:three", "half a li")
    advance(broker, clock, 1000)
    assert can(broker, connect, "alice", "two")
    path.unlink()
    advance(broker, clock, 1000)
    assert can(broker, connect, "alice", "two")
    assert "line 2" in caplog.text
    assert "the users stay as they were" in caplog.text
    assert "three" not in caplog.text


def test_a_missing_file_is_a_start_error(start: Start, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sasl\.users\.file.*cannot be read"):
        start(file_settings(tmp_path / "nobody"))


def test_a_file_that_everybody_can_read_is_warned_of(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_users(tmp_path / "users", "alice:plain:one")
    (tmp_path / "users").chmod(0o644)
    start(file_settings(tmp_path / "users"))
    assert "chmod 600" in caplog.text


def test_no_password_is_in_the_log(secured: Broker, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    can(secured, connect, "alice", "alice-secret")
    can(secured, connect, "alice", "guess-secret")
    can(secured, connect, "alice", "alice-secret", "SCRAM-SHA-256")
    assert "authentication failed" in caplog.text
    assert "-secret" not in caplog.text
    assert "-secret" not in repr(secured.call(lambda server: server.config))


# -- any bytes


@pytest.mark.parametrize("seed", range(8))
def test_no_bytes_before_authentication_lead_anywhere(secured: Broker, connect: Connect, seed: int) -> None:
    """Random frames, and whole exchanges with changed bytes: the broker answers or closes, and fails nowhere."""
    rng = random.Random(seed)
    side = ScramClient()
    whole = [
        request_frame(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3),
        request_frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),
        request_frame(SaslAuthenticateRequest(auth_bytes=side.first), rng.randrange(3)),
        request_frame(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=fyko,p=AAAA"), 2),
        request_frame(METADATA, 12),
    ]
    for _ in range(30):
        data = bytearray(b"".join(rng.sample(whole, rng.randint(1, len(whole)))))
        for _ in range(rng.randint(0, 8)):
            place = rng.randrange(len(data))
            data[place : place + rng.choice((0, 1, 1, 4))] = rng.randbytes(rng.choice((0, 1, 1, 3)))
        client = connect(secured)
        try:
            client.send_bytes(bytes(data))
            client.finish_sending()
        except OSError:
            continue
        client.wait_closed()
    eventually(lambda: principals(secured) == [], "all are gone")
    honest = connect(secured)
    honest.authenticate("PLAIN", ALICE)
    assert honest.call(METADATA).brokers
