"""A secured broker in one line: `equipoise serve --tls --users FILE`, `Broker(security="SASL_SSL", users={...})`."""

from __future__ import annotations

import socket
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.broker.net.listener_config import PROTOCOLS
from equipoise.broker.security.own_authority import OwnAuthority
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.broker.config import BrokerConfig

_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


class _Scratch:
    """A directory that goes with this object, or with the process."""

    def __init__(self) -> None:
        import shutil  # milliseconds of the start of a broker that needs no such directory
        import tempfile

        self.name = tempfile.mkdtemp(prefix="equipoise-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class Security:
    """How the one listener is secured. Files that no data directory keeps are in a scratch directory."""

    protocol: str
    users_file: Path | None = None
    authority: OwnAuthority | None = None
    passwords: Mapping[str, Secret] = field(default_factory=dict)
    scratch: _Scratch | None = None  # it goes with this object

    @classmethod
    def from_command(cls, data: Path | None, *, tls: bool, users: Path | None) -> Security:
        """Of `--tls` and `--users`."""
        scratch = _Scratch() if tls and data is None else None
        authority = OwnAuthority(_place(data, scratch)) if tls else None
        protocol = ("SASL_" if users else "") + ("SSL" if tls else "PLAINTEXT")
        return cls(protocol, users, authority, scratch=scratch)

    @classmethod
    def in_scratch(cls, protocol: str, users: Mapping[str, str], data: str | Path | None) -> Security:
        """Of arguments in a program: the users are given by name and password."""
        if protocol not in PROTOCOLS:
            raise UsageError(f"security={protocol!r}: must be one of {', '.join(PROTOCOLS)}")
        if protocol.startswith("SASL") != bool(users):
            raise UsageError("users={name: password} belongs to security='SASL_SSL' or 'SASL_PLAINTEXT'")
        if protocol == "PLAINTEXT":
            return PLAINTEXT
        scratch = _Scratch()
        authority = OwnAuthority(_place(data, scratch)) if protocol.endswith("SSL") else None
        file = Path(scratch.name) / "users" if users else None
        if file is not None:
            file.touch(mode=0o600)
            file.write_text("".join(f"{name}:plain:{password}\n" for name, password in users.items()), encoding="utf-8")
        passwords = {name: Secret(password) for name, password in users.items()}
        return cls(protocol, file, authority, passwords, scratch)

    def settings(self, given: Mapping[str, object], listen: str | None) -> dict[str, object]:
        """The broker's settings with those of security. UsageError: `listeners` says the same otherwise."""
        if "listeners" in given and (listen not in (None, "127.0.0.1:0") or self.protocol != "PLAINTEXT"):
            raise UsageError("listeners says where to listen and how: leave --listen, --tls and --users out")
        if self.protocol == "PLAINTEXT":
            return dict(given)
        made: dict[str, object] = {"listeners": f"{self.protocol}://{listen or '127.0.0.1:9092'}"}
        if self.users_file is not None:
            made |= {"sasl.users.file": self.users_file, "sasl.enabled.mechanisms": _MECHANISMS}
        if self.authority is not None:
            made["ssl.keystore.location"] = self.authority.keystore
        return made | dict(given)

    def prepare(self, config: BrokerConfig) -> None:
        """Makes the certificates, before the listeners are opened."""
        if self.authority is not None:
            self.authority.prepare(_hosts(config))

    @property
    def ca_file(self) -> Path:
        """UsageError: there is no TLS."""
        if self.authority is None:
            raise UsageError("this broker has no TLS: ask for it with security='SSL' or 'SASL_SSL'")
        return self.authority.ca_file

    @property
    def described(self) -> str:
        """What a client needs to know, behind the address."""
        ca = f", ssl.ca.location={self.authority.ca_file}" if self.authority is not None else ""
        return "" if self.protocol == "PLAINTEXT" else f" (security.protocol={self.protocol}{ca})"

    def client_settings(self, user: str | None, mechanism: str) -> dict[str, str]:
        """By librdkafka's and our names."""
        made = {"security.protocol": self.protocol}
        if self.authority is not None:
            made["ssl.ca.location"] = str(self.authority.ca_file)
        if self.passwords:
            name = user or next(iter(self.passwords))
            if name not in self.passwords:
                raise UsageError(f"there is no user {name!r}; there are {', '.join(self.passwords)}")
            password = self.passwords[name].reveal()
            made |= {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        return made


PLAINTEXT = Security("PLAINTEXT")


def _place(data: str | Path | None, scratch: _Scratch | None) -> Path:
    if data is not None:
        return Path(data) / "tls"
    assert scratch is not None
    return Path(scratch.name) / "tls"


def _hosts(config: BrokerConfig) -> Iterator[str]:
    """All names by which clients may come."""
    for listener in config.configured_listeners:
        if listener.advertised is not None:
            yield listener.advertised[0]
        if listener.host not in ("", "0.0.0.0", "::"):
            yield listener.host
    with suppress(OSError):
        yield socket.gethostname()
