"""The server's side of PLAIN, SCRAM and OAUTHBEARER: what Kafka's classes accept and refuse."""

from __future__ import annotations

from time import process_time

import pytest

from equipoise.security.sasl import scram
from equipoise.security.sasl.mechanisms import (
    Challenge,
    Claims,
    Failure,
    OAuthBearer,
    PasswordQuestion,
    Plain,
    Scram,
    Success,
    TokenQuestion,
    TokenRefusal,
)
from equipoise.security.secrets import Secret

SALT = b"salt of alice"


def kept(mechanism: str, password: str = "pencil") -> scram.ScramCredential:
    return scram.credential(mechanism, scram.salted_password(mechanism, password.encode(), SALT, 4096), SALT, 4096)


KEPT = {name: kept(name) for name in scram.HASHES}


def look_up(user: str, mechanism: str) -> scram.ScramCredential | None:
    return KEPT[mechanism] if user == "alice" else None


def server(mechanism: str = "SCRAM-SHA-256", nonce: str = "server") -> Scram:
    return Scram(mechanism, look_up, nonce, b"secret")


def client_final(mechanism: str, first: scram.ClientFirst, challenge: bytes, password: str = "pencil") -> bytes:
    said = scram.ServerFirst.parse(challenge)
    keys = scram.client_keys(mechanism, scram.salted_password(mechanism, password.encode(), said.salt, said.iterations))
    bare = scram.without_proof(said.nonce)
    auth = scram.auth_message(first.bare, challenge, bare)
    return scram.ClientFinal(b"n,,", said.nonce, scram.client_proof(mechanism, keys, auth), bare).encode()


# -- PLAIN


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_plain_asks_for_the_password_and_takes_the_answer(authorization_id: str) -> None:
    plain = Plain()
    assert plain.evaluate(f"{authorization_id}\0alice\0pw".encode()) == PasswordQuestion("alice", Secret("pw"))
    assert plain.answered(True) == Success("alice")


def test_plain_says_the_same_of_an_unknown_user_and_of_a_wrong_password() -> None:
    plain = Plain()
    plain.evaluate(b"\0alice\0pw")
    answer = plain.answered(False)
    assert isinstance(answer, Failure)
    assert answer.message == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0\0pw", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0", "Authentication failed: username not specified"),
        (b"alice\0pw", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0pw\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0" * 524_288, "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"admin\0alice\0pw",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\0\xff\0pw", None),
    ],
)
def test_plain_refuses_what_plain_sasl_server_refuses(token: bytes, message: str | None) -> None:
    answer = Plain().evaluate(token)
    assert isinstance(answer, Failure)
    assert answer.message == message


def test_plain_refuses_the_largest_token_at_once() -> None:
    began = process_time()
    for _ in range(10):
        Plain().evaluate(b"\0" * 524_288)
    assert process_time() - began < 10 * 0.05


@pytest.mark.parametrize("name", ["=", ",", "=2C", "a=3Db", "x" * 300, "Zoë", "User:x", "*", "ANONYMOUS", "a:b", " "])
def test_plain_takes_a_name_as_it_is(name: str) -> None:
    plain = Plain()
    plain.evaluate(f"\0{name}\0pw".encode())
    assert plain.answered(True) == Success(name)


# -- SCRAM


@pytest.mark.parametrize("mechanism", scram.HASHES)
def test_scram_believes_who_knows_the_password_and_proves_itself(mechanism: str) -> None:
    first = scram.ClientFirst.make("alice", "client")
    side = server(mechanism)
    challenge = side.evaluate(first.encode())
    assert isinstance(challenge, Challenge)
    success = side.evaluate(client_final(mechanism, first, challenge.data))
    assert isinstance(success, Success)
    assert success.username == "alice"
    assert scram.ServerFinal.parse(success.data).signature


@pytest.mark.parametrize("user", ["bob", "", "alice "])
def test_scram_answers_an_unknown_user_as_a_known_one_until_the_proof(user: str) -> None:
    first = scram.ClientFirst.make(user or "nobody", "client")
    side = server()
    challenge = side.evaluate(first.encode())
    assert isinstance(challenge, Challenge)
    again = server(nonce="other").evaluate(first.encode())
    assert isinstance(again, Challenge)
    assert scram.ServerFirst.parse(again.data).salt == scram.ServerFirst.parse(challenge.data).salt
    failure = side.evaluate(client_final("SCRAM-SHA-256", first, challenge.data))
    assert isinstance(failure, Failure)
    assert failure.message is None


def exchange(change: bytes, to: bytes, password: str = "pencil", nonce: str = "server") -> object:
    first = scram.ClientFirst.make("alice", "client")
    side = server(nonce=nonce)
    challenge = side.evaluate(first.encode())
    assert isinstance(challenge, Challenge)
    return side.evaluate(client_final("SCRAM-SHA-256", first, challenge.data, password).replace(change, to))


@pytest.mark.parametrize(
    ("change", "to"),
    [
        (b"c=biws", b"c=eSws"),  # y,,
        (b"c=biws", b"c="),
        (b"r=clientserver", b"r=client"),
        (b"r=clientserver", b"r=clientserverx"),
        (b",p=", b",p=AAAA"),
        (b",p=", b",p=!"),
        (b",p=", b",q="),
        (b"c=", b"\xff="),
    ],
)
def test_scram_refuses_a_changed_proof_without_an_exception(change: bytes, to: bytes) -> None:
    assert isinstance(exchange(change, to), Failure)


def test_scram_refuses_a_wrong_password_and_a_short_proof() -> None:
    assert isinstance(exchange(b"", b"", "pen"), Failure)
    first = scram.ClientFirst.make("alice", "client")
    side = server()
    side.evaluate(first.encode())
    assert isinstance(side.evaluate(b"c=biws,r=clientserver,p=AAAA"), Failure)


def test_a_recorded_exchange_is_worth_nothing_later() -> None:
    first = scram.ClientFirst.make("alice", "client")
    challenge = server(nonce="then").evaluate(first.encode())
    assert isinstance(challenge, Challenge)
    recorded = client_final("SCRAM-SHA-256", first, challenge.data)
    later = server(nonce="now")
    later.evaluate(first.encode())
    assert isinstance(later.evaluate(recorded), Failure)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=alice",
        b"n,,n=al=ice,r=x",
        b"n,,n=Zo\xc3\xab,r=x",
        b"n,a=bob,n=alice,r=x",
        b"\0alice\0pw",
        b"n,,n=alice,r=" + b"x" * 500_000 + b"\xff",
    ],
)
def test_scram_refuses_a_first_message_that_kafka_refuses(token: bytes) -> None:
    assert isinstance(server().evaluate(token), Failure)


def test_a_delegation_token_is_nobody_here() -> None:
    first = scram.ClientFirst.make("alice", "client", tokenauth=True)
    side = server()
    challenge = side.evaluate(first.encode())
    assert isinstance(challenge, Challenge)
    assert isinstance(side.evaluate(client_final("SCRAM-SHA-256", first, challenge.data)), Failure)


# -- OAUTHBEARER

FIRST = b"n,,\x01auth=Bearer a.b.c\x01\x01"


def test_a_valid_token_gives_its_principal_and_its_life() -> None:
    bearer = OAuthBearer()
    assert bearer.evaluate(FIRST) == TokenQuestion(Secret("a.b.c"))
    assert bearer.answered(Claims("alice", 1000)) == Success("alice", b"", 1000)


def test_a_refused_token_is_told_in_json_and_then_fails() -> None:
    bearer = OAuthBearer()
    bearer.evaluate(FIRST)
    assert bearer.answered(TokenRefusal("expired")) == Challenge(b'{"status":"invalid_token"}')
    failure = bearer.evaluate(b"\x01")
    assert isinstance(failure, Failure)
    assert failure.message == '{"status":"invalid_token"}'


@pytest.mark.parametrize(
    ("token", "principal", "is_taken"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01", "alice", True),
        (b"n,,\x01auth=bearer   a.b.c\x01\x01", "alice", True),
        (b"n,a=alice,\x01auth=Bearer a.b.c\x01\x01", "alice", True),
        (b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01", "alice", False),
        (b"n,,\x01auth=Basic a.b.c\x01\x01", "alice", False),
        (b"n,,\x01auth=Bearer\x01\x01", "alice", False),
        (b"n,,\x01\x01", "alice", False),
        (b"n,,\x01auth=Bearer a.b.c\x01", "alice", False),
        (b"n,,\x01key1=x\x01auth=Bearer a.b.c\x01\x01", "alice", False),
        (b"\xff" * 100, "alice", False),
    ],
)
def test_the_first_message_is_read_as_kafka_reads_it(token: bytes, principal: str, is_taken: bool) -> None:
    bearer = OAuthBearer()
    step = bearer.evaluate(token)
    if isinstance(step, TokenQuestion):
        step = bearer.answered(Claims(principal, 1000))
    assert isinstance(step, Success) is is_taken


def test_questions_do_not_show_what_they_carry() -> None:
    bearer = OAuthBearer()
    assert "a.b.c" not in repr(bearer.evaluate(FIRST))
    assert "pw-secret" not in repr(Plain().evaluate(b"\0alice\0pw-secret"))
