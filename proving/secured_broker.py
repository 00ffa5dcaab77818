"""A broker behind TLS and SASL: one node with a listener for each way to reach it.

with SecuredEquipoise() as broker:
    Consumer(broker.client("SCRAM-SHA-512") | {"group.id": "billing"})
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from equipoise.client import Acl, AclOperation, AclPermissionType, Admin, PatternType, ResourcePattern, ResourceType
from equipoise.server_process import HOST, free_port
from proving.brokers import BrokerProcess, EquipoiseBroker, Settings
from proving.members.security import Security, with_token

USER, PASSWORD = "alice", "alice-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# Sessions of RENEWED, which Java renews in their last sixth or later; and of ENDING, for clients that cannot renew one:
# between two ends there must be time to log in, to find the coordinator and to commit, on a machine that is slow.
REAUTHENTICATION_MS, ENDING_MS = 4000, 8000
# With `ACLS` the user may do everything with topics and groups whose names begin so, and nothing with others.
OPEN = "open"
ACLS: Settings = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "LOGIN": "SASL_SSL",
    "RENEWED": "SASL_SSL",
    "ENDING": "SASL_SSL",
}
_LOGGED_IN = ("LOGIN", "RENEWED", "ENDING")
_CERTIFIED = "User:CN=client"  # the principal of the client's certificate, as the rule below makes it
_MODULES = "org.apache.kafka.common.security"
_LOGINS = {
    "plain": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}


class SecuredBroker(BrokerProcess):
    """Its plain listener is for preparations. A session of the listener RENEWED lives for four seconds, one of
    ENDING for eight. The certificate of ELSEWHERE names another host."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.ports = {name: free_port() for name in _LISTENERS}
        self.authority, self.other_authority = trustme.CA(), trustme.CA()

    def address_of(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    @property
    def ca_file(self) -> str:
        return str(self.data / "ca.pem")

    def security(self, way: str) -> Security:
        """How a client connects: by a listener without a login, or by a mechanism."""
        listener = way if way in self.ports else "LOGIN"
        reached = (self.address_of(listener), _LISTENERS[listener], self.ca_file)
        if listener in _LOGGED_IN:
            return Security(*reached, "SCRAM-SHA-512" if way == listener else way, USER, PASSWORD)
        return Security(*reached, certificate=str(self.data / "client.pem") if way == "MUTUAL" else None)

    def client(self, way: str) -> dict[str, object]:
        """The same as settings of our clients."""
        return with_token(self.security(way))

    def write_certificates(self) -> None:
        self.authority.cert_pem.write_to_path(self.data / "ca.pem")
        self.other_authority.cert_pem.write_to_path(self.data / "other-ca.pem")
        begin, end = datetime(2019, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
        issue = self.authority.issue_cert
        _write(self.data / "server.pem", issue(HOST))
        _write(self.data / "expired.pem", issue(HOST, not_before=begin, not_after=end))
        _write(self.data / "elsewhere.pem", issue("elsewhere.example.org"))
        _write(self.data / "client.pem", issue("client.example.org", common_name="client"))
        _write(
            self.data / "expired-client.pem",
            issue("client.example.org", common_name="client", not_before=begin, not_after=end),
        )

    def scram_users(self) -> list[str]:
        mechanisms = ("SCRAM-SHA-256", "SCRAM-SHA-512")
        users = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in mechanisms]
        return [word for user in users for word in ("--add-scram", user)]

    def secured_settings(self, listeners: str) -> dict[str, object]:
        """`listeners`: the broker's own, without TLS."""
        own = ",".join(f"{name}://{self.address_of(name)}" for name in self.ports)
        settings: dict[str, object] = {
            "listeners": f"{listeners},{own}",
            "advertised.listeners": f"PLAINTEXT://{self.address},{own}",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "group.initial.rebalance.delay.ms": 0,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.ca_file,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.data / "server.pem",
            "ssl.principal.mapping.rules": "RULE:^(CN=client).*$/$1/",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.renewed.connections.max.reauth.ms": REAUTHENTICATION_MS,
            "listener.name.ending.connections.max.reauth.ms": ENDING_MS,
        }
        for name in ("expired", "elsewhere"):
            settings[f"listener.name.{name}.ssl.keystore.type"] = "PEM"
            settings[f"listener.name.{name}.ssl.keystore.location"] = self.data / f"{name}.pem"
        for name in map(str.lower, _LOGGED_IN):
            settings |= {f"listener.name.{name}.{one}.sasl.jaas.config": text for one, text in _LOGINS.items()}
        return settings

    def protocols(self, *plain: str) -> str:
        """For listener.security.protocol.map."""
        return ",".join(f"{name}:{one}" for name, one in {**dict.fromkeys(plain, "PLAINTEXT"), **_LISTENERS}.items())

    def allow_open(self) -> None:
        """For a broker with `ACLS`, through its plain listener."""
        with Admin(self.bootstrap_servers) as admin:
            admin.create_acls(
                Acl(
                    ResourcePattern(kind, OPEN, PatternType.PREFIXED),
                    principal,
                    "*",
                    AclOperation.ALL,
                    AclPermissionType.ALLOW,
                )
                for kind in (ResourceType.TOPIC, ResourceType.GROUP)
                for principal in (f"User:{USER}", _CERTIFIED)
            )


class SecuredEquipoise(SecuredBroker, EquipoiseBroker):
    name = "secured equipoise"

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.write_certificates()

    def command(self) -> Sequence[str]:
        settings = {
            **self.secured_settings(f"PLAINTEXT://{self.address}"),
            "listener.security.protocol.map": self.protocols("PLAINTEXT"),
            "sasl.oauthbearer.unsecured": "true",
            **self.settings,
        }
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        return [sys.executable, "-m", "equipoise", "serve", *self._storage(), *self.scram_users(), *options]


def _write(path: Path, made: trustme.LeafCert) -> None:
    """Key and chain in one file, the key as PKCS#8: what Kafka reads."""
    key = load_pem_private_key(made.private_key_pem.bytes(), None)
    chain = b"".join(one.bytes() for one in made.cert_chain_pems)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + chain)
