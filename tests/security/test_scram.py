"""SCRAM's messages, keys and proofs: the vector of RFC 7677, escaping, and messages that are none."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.security.sasl.scram import (
    HASHES,
    ClientFinal,
    ClientFirst,
    ScramMessageError,
    ServerFinal,
    ServerFirst,
    auth_message,
    client_keys,
    client_proof,
    credential,
    escaped,
    is_proof,
    salted_password,
    server_signature,
    unescaped,
    without_proof,
)

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_rfc_7677_on_both_sides() -> None:
    mechanism = "SCRAM-SHA-256"
    first = ClientFirst.make("user", NONCE)
    assert first.encode() == b"n,,n=user,r=" + NONCE.encode()
    server = ServerFirst.parse(SERVER_FIRST)
    assert (server.iterations, server.encode()) == (4096, SERVER_FIRST)

    salted = salted_password(mechanism, b"pencil", server.salt, server.iterations)
    auth = auth_message(first.bare, SERVER_FIRST, without_proof(server.nonce))
    keys = client_keys(mechanism, salted)
    final = ClientFinal(b"n,,", server.nonce, client_proof(mechanism, keys, auth), without_proof(server.nonce))
    assert final.encode() == CLIENT_FINAL

    known = credential(mechanism, salted, server.salt, server.iterations)
    received = ClientFinal.parse(CLIENT_FINAL)
    assert received == final
    assert is_proof(mechanism, known.stored_key, received.proof, auth)
    assert ServerFinal(server_signature(mechanism, known.server_key, auth)).encode() == SERVER_FINAL
    assert ServerFinal.parse(SERVER_FINAL).signature == server_signature(mechanism, keys.server_key, auth)


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("change", [b"", b"\0" * 32, b"\0" * 64, b"short", b"x" * 100])
def test_wrong_proofs_are_refused_whatever_their_length(mechanism: str, change: bytes) -> None:
    known = credential(mechanism, salted_password(mechanism, b"right", b"salt", 4096), b"salt", 4096)
    assert not is_proof(mechanism, known.stored_key, change, b"auth")
    right = client_proof(
        mechanism, client_keys(mechanism, salted_password(mechanism, b"right", b"salt", 4096)), b"auth"
    )
    assert is_proof(mechanism, known.stored_key, right, b"auth")
    assert not is_proof(mechanism, known.stored_key, right[:-1], b"auth")
    assert not is_proof(mechanism, known.stored_key, right + b"\0", b"auth")
    assert not is_proof(mechanism, known.stored_key, right, b"other")


@pytest.mark.parametrize(
    ("name", "saslname"),
    [("a=b", "a=3Db"), ("a,b", "a=2Cb"), ("=2C", "=3D2C"), (",=", "=2C=3D"), ("=3D", "=3D3D"), ("plain", "plain")],
)
def test_equals_signs_and_commas_are_escaped(name: str, saslname: str) -> None:
    assert (escaped(name), unescaped(saslname)) == (saslname, name)
    assert ClientFirst.parse(ClientFirst.make(name, "nonce").encode()).username == name


@given(st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1))
def test_any_ascii_name_survives(name: str) -> None:
    made = ClientFirst.make(name, "nonce", tokenauth=True)
    read = ClientFirst.parse(made.encode())
    assert read == made
    assert read.is_tokenauth


def test_a_name_outside_ascii_is_sent_and_refused_as_kafka_refuses_it() -> None:
    message = ClientFirst.make("Zoë", "nonce").encode()
    assert message == "n,,n=Zoë,r=nonce".encode()
    with pytest.raises(ScramMessageError):
        ClientFirst.parse(message)


def test_an_authorization_id_and_extensions_are_read() -> None:
    read = ClientFirst.parse(b"n,a=ad=2Cmin,n=user,r=abc,tokenauth=true,x=y")
    assert (read.authorization_id, read.username, read.nonce) == ("ad,min", "user", "abc")
    assert read.bare == b"n=user,r=abc,tokenauth=true,x=y"
    assert not ClientFirst.parse(b"n,,n=user,r=abc,x=tokenauth").is_tokenauth
    final = ClientFinal.parse(b"c=biws,r=abc,x=y,p=AAAA")
    assert final.without_proof == b"c=biws,r=abc,x=y"
    assert final.channel_binding == b"n,,"


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,n=,r=a", b"n,,n=user", b"n,,n=us=er,r=a", b"y,,n=user,r=a", b"p=tls,,n=u,r=a", b"n,,n=u,r=a b", b"\xff"],
)
def test_what_is_no_client_first_message(message: bytes) -> None:
    with pytest.raises(ScramMessageError, match="client-first"):
        ClientFirst.parse(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"r=abc", b"r=abc,s=!!,i=1", b"r=abc,s=AAAA,i=-1", b"r=abc,s=AAAA,i=", b"r=abc,s=AAAA,i=" + b"9" * 5000,
     b"r=abc,s=AAA,i=4096", b"e=other-error", b"\0"],
)  # fmt: skip
def test_what_is_no_server_first_message(message: bytes) -> None:
    with pytest.raises(ScramMessageError, match="server-first"):
        ServerFirst.parse(message)


def test_a_mandatory_extension_is_refused_and_others_are_ignored() -> None:
    with pytest.raises(ScramMessageError, match="mandatory"):
        ServerFirst.parse(b"m=must,r=abc,s=AAAA,i=4096")
    assert ServerFirst.parse(b"r=abc,s=AAAA,i=4096,x=y").iterations == 4096


@pytest.mark.parametrize("message", [b"", b"v=", b"x=y", b"e=", b"v=AAA", b"v=AAAA,"])
def test_what_is_no_server_final_message(message: bytes) -> None:
    if message == b"v=":  # an empty signature is well formed, and never right
        assert ServerFinal.parse(message) == ServerFinal(b"")
        return
    with pytest.raises(ScramMessageError, match="server-final"):
        ServerFinal.parse(message)


def test_a_servers_error() -> None:
    assert ServerFinal.parse(b"e=invalid-proof") == ServerFinal(b"", "invalid-proof")
    assert ServerFinal(b"", "invalid-proof").encode() == b"e=invalid-proof"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    for kind in (ClientFirst, ServerFirst, ClientFinal, ServerFinal):
        with suppress(ScramMessageError):
            kind.parse(message)
