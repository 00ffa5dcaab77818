"""What the listeners of a broker need for logins by SASL: users, mechanisms, and the threads that check passwords."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.broker.security.logins import FixedUsers, Logins, PasswordThreads, UsersFile, UsersSource
from equipoise.broker.security.token_keys import TokenValidator
from equipoise.security.sasl.authentication import Mechanisms
from equipoise.security.sasl.jaas import parse_jaas
from equipoise.security.sasl.mechanisms import Mechanism, OAuthBearer, Plain, Scram
from equipoise.security.sasl.scram import HASHES
from equipoise.security.users import users_of_options

if TYPE_CHECKING:
    from equipoise.broker.net.listener_config import ConfiguredListener
    from equipoise.broker.server import Server


class ListenerLogins:
    """What all listeners of a broker share."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._secret = secrets.token_bytes(32)
        self._threads = PasswordThreads(server.clock)
        path = server.config.sasl_users_file
        self._file = UsersFile(Path(path), self._secret, server.clock) if path else None

    def of(self, configured: ConfiguredListener) -> tuple[Logins, Mechanisms | None]:
        """Who may log in at this listener, and how; None: nobody has to."""
        stores = [self._server.security.state]
        logins = Logins(self._sources(configured), stores, self._threads, self._tokens(configured))
        return logins, _mechanisms(configured, logins) if configured.uses_sasl else None

    def look(self) -> None:
        """Takes new users into use, if their file has changed."""
        if self._file is not None:
            self._file.look()

    def close(self) -> None:
        """No password is checked any more."""
        self._threads.close()

    def _sources(self, configured: ConfiguredListener) -> list[UsersSource]:
        sources: list[UsersSource] = [self._file] if self._file is not None else []
        jaas = configured.of_mechanism("PLAIN").sasl_jaas_config
        if jaas:
            module = parse_jaas(jaas.reveal())
            options = {name: value.reveal() for name, value in module.options.items()}
            sources.append(FixedUsers(users_of_options(options, self._secret)))
        return sources

    def _tokens(self, configured: ConfiguredListener) -> TokenValidator | None:
        if not configured.uses_sasl or "OAUTHBEARER" not in configured.mechanisms:
            return None
        return TokenValidator(configured.of_mechanism("OAUTHBEARER"), self._server.clock)


def _mechanisms(configured: ConfiguredListener, logins: Logins) -> Mechanisms:
    secret = secrets.token_bytes(32)
    begin: dict[str, Callable[[], Mechanism]] = {}
    for name in configured.mechanisms:
        begin[name] = partial(_begin, name, logins, secret)
    limits = {name: configured.of_mechanism(name).connections_max_reauth_ms for name in configured.mechanisms}
    return Mechanisms(begin, limits)


def _begin(name: str, logins: Logins, secret: bytes) -> Mechanism:
    if name in HASHES:
        return Scram(name, logins.credentials, secrets.token_hex(16), secret)
    return Plain() if name == "PLAIN" else OAuthBearer()
