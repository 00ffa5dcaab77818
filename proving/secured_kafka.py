"""Apache Kafka behind TLS and SASL: one node with a listener for each way to reach it.

with SecuredKafka() as kafka:
    Consumer(kafka.client("SCRAM-SHA-512") | {"group.id": "billing"})
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from equipoise.server_process import HOST, free_port
from proving.brokers import KafkaBroker, Settings

USER, PASSWORD = "alice", "alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
REAUTHENTICATION_MS = 2000
_LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "EXPIRED": "SSL", "LOGIN": "SASL_SSL", "RENEWED": "SASL_SSL"}
_MODULES = "org.apache.kafka.common.security"
_LOGINS = {
    "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}


class SecuredKafka(KafkaBroker):
    """Its plain listener is for preparations. A session of the listener RENEWED lives for two seconds."""

    name = "secured kafka"

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.ports = {name: free_port() for name in _LISTENERS}
        self.authority, self.other_authority = trustme.CA(), trustme.CA()

    def address_of(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    @property
    def ca_file(self) -> str:
        return str(self.data / "ca.pem")

    def client(self, way: str) -> dict[str, object]:
        """Settings of a client: by a listener without a login, or by a mechanism."""
        listener = way if way in self.ports else "LOGIN"
        given: dict[str, object] = {
            "bootstrap.servers": self.address_of(listener),
            "security.protocol": _LISTENERS[listener],
            "ssl.ca.location": self.ca_file,
        }
        if way == "MUTUAL":
            given |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), str(self.data / "client.pem"))
        return given | (
            self.login("SCRAM-SHA-512" if way == "RENEWED" else way) if "SASL" in _LISTENERS[listener] else {}
        )

    def login(self, mechanism: str) -> dict[str, object]:
        if mechanism == "OAUTHBEARER":
            return {"sasl.mechanism": mechanism, "oauth_cb": unsecured}
        return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}

    def format_log(self) -> list[str]:
        command = super().format_log()
        self.authority.cert_pem.write_to_path(self.data / "ca.pem")
        self.other_authority.cert_pem.write_to_path(self.data / "other-ca.pem")
        begin, end = datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
        self._write(self.data / "server.pem", self.authority.issue_cert(HOST))
        self._write(self.data / "expired.pem", self.authority.issue_cert(HOST, not_before=begin, not_after=end))
        self._write(self.data / "client.pem", self.authority.issue_cert("client.example.org", common_name="client"))
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            command += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
        return command

    def _write(self, path: Path, made: trustme.LeafCert) -> None:
        """Key and chain in one file, the key as PKCS#8: what Kafka reads."""
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        chain = b"".join(one.bytes() for one in made.cert_chain_pems)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain)

    def _all_settings(self) -> dict[str, object]:
        settings = super()._all_settings()
        own = ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items())
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **_LISTENERS}
        settings |= {
            "listeners": f"{settings['listeners']},{own}",
            "advertised.listeners": f"{settings['advertised.listeners']},{own}",
            "listener.security.protocol.map": ",".join(f"{name}:{one}" for name, one in protocols.items()),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "group.initial.rebalance.delay.ms": 0,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca_file,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.data / "server.pem",
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": self.data / "expired.pem",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.renewed.connections.max.reauth.ms": REAUTHENTICATION_MS,
        }
        for name in ("login", "renewed"):
            settings |= {f"listener.name.{name}.{one}.sasl.jaas.config": text for one, text in _LOGINS.items()}
        return settings


def unsecured(config: str) -> tuple[str, float]:
    """A token without a signature, which a Kafka without a validator of its own accepts."""
    from time import time

    from equipoise.security.bearer_tokens import unsecured_token

    now = time()
    return unsecured_token({"sub": USER, "iat": now, "exp": now + 3600}), now + 3600
