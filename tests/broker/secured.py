"""Secured brokers for tests: settings, contexts of clients, tokens."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path
from typing import Any

import trustme

from equipoise.broker import Broker
from equipoise.security.sasl import scram
from equipoise.security.sasl.mechanisms import MECHANISMS
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from tests.broker.rawclient import RawClient

PASSWORD = "alice-secret"
ALICE = f"\0alice\0{PASSWORD}".encode()
WRONG = b"\0alice\0guess"
SASL: dict[str, object] = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_alice="{PASSWORD}" user_bob="bob-secret";'
    ),
}


@cache
def authority() -> trustme.CA:
    """Made once: a key takes time."""
    return trustme.CA()


@cache
def stranger() -> trustme.CA:
    """An authority that nobody trusts."""
    return trustme.CA()


def tls_settings(place: Path, protocol: str = "SSL", **more: object) -> dict[str, object]:
    """A broker with a certificate of `authority`, which also signs those of clients."""
    leaf = authority().issue_cert("localhost", "127.0.0.1")
    leaf.private_key_and_cert_chain_pem.write_to_path(place / "broker.pem")
    authority().cert_pem.write_to_path(place / "ca.pem")
    settings: dict[str, object] = {
        "listeners": f"{protocol}://127.0.0.1:0",
        "ssl.keystore.location": str(place / "broker.pem"),
        "ssl.truststore.location": str(place / "ca.pem"),
    }
    if protocol.startswith("SASL"):
        jaas = SASL["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
        settings |= {"sasl.enabled.mechanisms": ",".join(MECHANISMS), "sasl.jaas.config": jaas}
        settings["sasl.oauthbearer.unsecured"] = "true"
    return settings | {name.replace("_", "."): value for name, value in more.items()}


def context(leaf: trustme.LeafCert | None = None, trusted: trustme.CA | None = None) -> ssl.SSLContext:
    """A client's, with a certificate of its own or without."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    (trusted or authority()).configure_trust(made)
    if leaf is not None:
        leaf.configure_cert(made)
    return made


class ScramClient:
    """The client's side of one exchange."""

    def __init__(self, user: str = "alice", password: str = PASSWORD, mechanism: str = "SCRAM-SHA-256") -> None:
        self.mechanism = mechanism
        self._password = password
        self._first = scram.ClientFirst.make(user, "fyko+d2lbbFgONRv9qkxdawL")
        self.first = self._first.encode()

    def final(self, challenge: bytes) -> bytes:
        said = scram.ServerFirst.parse(challenge)
        salted = scram.salted_password(self.mechanism, self._password.encode(), said.salt, said.iterations)
        bare = scram.without_proof(said.nonce)
        auth = scram.auth_message(self._first.bare, challenge, bare)
        proof = scram.client_proof(self.mechanism, scram.client_keys(self.mechanism, salted), auth)
        return scram.ClientFinal(b"n,,", said.nonce, proof, bare).encode()

    def run(self, client: RawClient) -> Any:
        challenge = client.authenticate(self.mechanism, self.first)
        return client.call(SaslAuthenticateRequest(auth_bytes=self.final(challenge.auth_bytes)), 2)


def principals(broker: Broker) -> list[str]:
    """As whom the connections are served."""
    return broker.call(lambda server: sorted(one.session.principal for one in server.connections))
