"""The settings that every client has, under the names that the Java client and librdkafka share: brokers, connections,
time limits, pauses. Consumers and producers add their own rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from equipoise.client.net.errors import error_from
from equipoise.client.security.config import PLAINTEXT, SecurityConfig
from equipoise.client.security.parsing import parse_security
from equipoise.client.security.settings import known_names, split
from equipoise.security.acls import AclOperation
from equipoise.security.denials import on_topic
from equipoise.settings import INT_MAX, Rows, kafka_name, parse_values, rows_of, setting
from equipoise.wire.errors import KafkaError, UsageError

_FIRST_ROWS = ("bootstrap.servers", "client.id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(ABC):
    """What metadata and connections need to know."""

    bootstrap_servers: str = setting("", "Brokers for the first connection: HOST:PORT, separated by commas. Required.")
    client_id: str = setting(
        "equipoise", "The client's name in the broker's log, and in descriptions of the group.", is_sent=True
    )
    metadata_max_age_ms: int = setting(300_000, "Age at which the client refreshes its metadata.", 0)
    request_timeout_ms: int = setting(30_000, "Time limit of a request; after it the client closes the connection.", 1)
    socket_connection_setup_timeout_ms: int = setting(10_000, "Time limit of connecting.", 1)
    retry_backoff_ms: int = setting(100, "Pause after the first failure of a request; it doubles each time.", 0)
    retry_backoff_max_ms: int = setting(1_000, "Longest pause between two attempts of a request.", 0)
    reconnect_backoff_ms: int = setting(50, "Pause after the first failure to connect; it doubles each time.", 0)
    reconnect_backoff_max_ms: int = setting(1_000, "Longest pause between two attempts to connect.", 0)
    connections_max_idle_ms: int = setting(
        540_000, "Idle time after which the client closes a connection; -1: never.", -1
    )
    receive_buffer_bytes: int = setting(-1, "Size of a socket's receive buffer; -1: the system's default.", -1, INT_MAX)

    security: SecurityConfig = PLAINTEXT  # made from rows of its own: docs/security.md

    @property
    def may_create_topics(self) -> bool:
        """Whether a question about a topic may create it, if the broker allows it."""
        return True

    @property
    def topic_operation(self) -> AclOperation:
        """What the client does to its topics, in the words of ACLs."""
        return AclOperation.READ

    def topic_error(self, code: int, topic: str, what: str) -> KafkaError:
        """A broker's error about a topic. A denial names the operation that the client's principal needs."""
        return error_from(code, what, on_topic(self.topic_operation, topic), principal=self.security.principal)

    @classmethod
    @abstractmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Settings by name, as text or values. UsageError names the one at fault, and the nearest match."""

    @classmethod
    def from_keywords(cls, **settings: object) -> Self:
        """The same with underscores for dots: `client_id="billing"`."""
        return cls.parse({kafka_name(name): value for name, value in settings.items()})


def named_settings(settings: Mapping[str, object], aliases: Mapping[str, str]) -> dict[str, object]:
    """Settings under Java's names. Servers may be given as a list."""
    given = {aliases.get(name, name): value for name, value in settings.items()}
    servers = given.get("bootstrap.servers")
    if isinstance(servers, list | tuple):
        given["bootstrap.servers"] = ",".join(map(str, servers))
    return given


def parse_client(given: Mapping[str, object], rows: Rows, aliases: Iterable[str], document: str) -> dict[str, Any]:
    """Attributes and values of a client's table, `security` too. UsageError names the setting at fault."""
    secured, rest = split(given)
    values = parse_values(rest, rows, [*aliases, *known_names()], document)
    return {**values, "security": parse_security(secured, str(given.get("bootstrap.servers", "")), rows)}


def check_servers(config: ClientConfig) -> None:
    """UsageError: no broker is named."""
    if not config.bootstrap_servers:
        raise UsageError("bootstrap.servers is missing: name one or more brokers, for instance 127.0.0.1:9092")


def shared_settings(config: ClientConfig) -> dict[str, Any]:
    """What one client's settings say of brokers and connections, for another client."""
    return {row.name: getattr(config, row.name) for row in fields(ClientConfig)}


def client_rows(table: type[ClientConfig]) -> Rows:
    """Every setting by its name, in the order of the document: the client's own rows stand before those of all."""
    rows, shared = rows_of(table), rows_of(ClientConfig)
    del rows["security"], shared["security"]
    order = [*_FIRST_ROWS, *(name for name in rows if name not in shared), *shared]
    return {name: rows[name] for name in order}
