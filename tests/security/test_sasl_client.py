"""The client's SASL mechanisms: what they send, and servers that cheat."""

from __future__ import annotations

import pytest

from equipoise.security.sasl.client import (
    OAuthBearerClient,
    PlainClient,
    SaslServerError,
    ScramClient,
    check_extensions,
)
from equipoise.security.sasl.scram import ClientKeys, client_keys, salted_password
from equipoise.wire.errors import UsageError
from tests.security.test_scram import CLIENT_FINAL, NONCE, SERVER_FINAL, SERVER_FIRST


class Keys:
    """Counts how often the password is salted."""

    def __init__(self, password: str = "pencil") -> None:
        self.asked: list[int] = []
        self._password = password.encode()

    def __call__(self, mechanism: str, salt: bytes, iterations: int) -> ClientKeys:
        self.asked.append(iterations)
        return client_keys(mechanism, salted_password(mechanism, self._password, salt, iterations))


def scram(keys: Keys | None = None) -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", NONCE, keys or Keys())


def test_plain_sends_name_and_password_and_is_done_with_the_answer() -> None:
    client = PlainClient("ännchen", "pass=,\u2168")
    assert client.first() == "\0ännchen\0pass=,\u2168".encode()
    assert not client.is_done
    assert client.step(b"") is None
    assert client.is_done


@pytest.mark.parametrize(("name", "password"), [("a\0b", "c"), ("a", "b\0")])
def test_plain_refuses_nul_without_showing_it(name: str, password: str) -> None:
    with pytest.raises(UsageError, match="NUL"):
        PlainClient(name, password)


def test_scram_follows_rfc_7677() -> None:
    client = scram()
    assert client.first() == b"n,,n=user,r=" + NONCE.encode()
    assert client.step(SERVER_FIRST) == CLIENT_FINAL
    assert not client.is_done
    assert client.step(SERVER_FINAL) is None
    assert client.is_done


def test_scram_with_a_delegation_token() -> None:
    assert ScramClient("SCRAM-SHA-512", "u", "n", Keys(), tokenauth=True).first() == b"n,,n=u,r=n,tokenauth=true"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=" + NONCE.encode() + b"x,s=AAAA,i=1", "could be guessed"),
        (b"r=" + NONCE.encode() + b"x,s=AAAA,i=4095", "could be guessed"),
        (b"r=" + NONCE.encode() + b"x,s=AAAA,i=1000001", "is the most"),
        (b"r=" + NONCE.encode() + b"x,s=AAAA,i=1000000000", "is the most"),
        (b"r=other,s=AAAA,i=4096", "nonce"),
        (b"r=" + NONCE.encode() + b",s=AAAA,i=4096", "nonce"),
        (b"r=" + NONCE.encode() + b"x,s=,i=4096", "salt"),
        (b"m=x,r=" + NONCE.encode() + b"x,s=AAAA,i=4096", "mandatory"),
        (SERVER_FINAL, "server-first"),
        (b"e=unknown-user", "server-first"),
        (b"", "server-first"),
    ],
)
def test_a_hostile_server_first_message_costs_no_hashing_and_gets_no_proof(challenge: bytes, why: str) -> None:
    keys = Keys()
    client = scram(keys)
    client.first()
    with pytest.raises(SaslServerError, match=why):
        client.step(challenge)
    assert keys.asked == []
    assert not client.is_done


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"v=AAAA", "signature is wrong"),
        (b"v=", "signature is wrong"),
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "signature is wrong"),
        (b"e=other-error", "refuses: other-error"),
        (b"", "server-final"),
        (SERVER_FIRST, "server-final"),
    ],
)
def test_a_server_that_does_not_know_the_password(challenge: bytes, why: str) -> None:
    client = scram()
    client.first()
    client.step(SERVER_FIRST)
    with pytest.raises(SaslServerError, match=why):
        client.step(challenge)
    assert not client.is_done


def test_a_wrong_password_of_the_client_makes_the_signature_wrong() -> None:
    client = scram(Keys("pencils"))
    client.first()
    assert client.step(SERVER_FIRST) != CLIENT_FINAL
    with pytest.raises(SaslServerError, match="signature is wrong"):
        client.step(SERVER_FINAL)


def test_a_second_final_message_is_refused() -> None:
    client = scram()
    client.first()
    client.step(SERVER_FIRST)
    client.step(SERVER_FINAL)
    with pytest.raises(SaslServerError):
        client.step(SERVER_FINAL)


def test_oauthbearer_sends_token_and_extensions() -> None:
    client = OAuthBearerClient("a.b.c", {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"})
    assert client.first() == b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01"
    assert OAuthBearerClient("t").first() == b"n,,\x01auth=Bearer t\x01\x01"
    assert client.step(b"") is None
    assert client.is_done


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b'{"status":"invalid_token","scope":"kafka","openid-configuration":"https://idp/x"}',
         "status=invalid_token, scope=kafka, openid-configuration=https://idp/x"),
        (b'{"status":"invalid_token"}', "status=invalid_token"),
        (b"{}", "no reason given"),
        (b"[1]", "no JSON"),
        (b"\xff\xfe", "no JSON"),
    ],
)  # fmt: skip
def test_a_refused_token_is_acknowledged_with_one_byte(answer: bytes, told: str) -> None:
    client = OAuthBearerClient("t")
    client.first()
    assert client.step(answer) == b"\x01"
    assert told in client.refusal
    assert not client.is_done
    with pytest.raises(SaslServerError, match="goes on"):
        client.step(b"")
    assert not client.is_done


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "\x01"}, {"a": "é"}])
def test_extensions_that_kafka_refuses(extensions: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        check_extensions(extensions)
    check_extensions({"traceId": "a b\tc", "x": "~"})
