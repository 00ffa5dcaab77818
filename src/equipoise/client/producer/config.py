"""The producer's settings, under the names that the Java client and librdkafka share.

docs/producer.md lists them all; its table is made from the rows below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.settings import INT_MAX, Rows, kafka_name, parse_values, rows_of, security_protocol, setting
from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import Codec

DOCUMENT = "docs/producer.md"
CODECS = {codec.name.lower(): codec for codec in Codec}
ACKS = {"all": -1, "1": 1, "0": 0}
# librdkafka's names for what Java calls otherwise.
_ALIASES = {
    "compression.codec": "compression.type",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
}
_REFUSED = {
    "key.serializer": "send() takes keys as bytes or text",
    "value.serializer": "send() takes values as bytes or text",
    "partitioner.class": "send(partition=...) says where a record goes",
    "transactional.id": "there are no transactions yet; an idempotent producer stores each record once",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Made by `parse` or `from_keywords`, which check it."""

    bootstrap_servers: str = setting("", "Brokers for the first connection: HOST:PORT, separated by commas. Required.")
    client_id: str = setting("equipoise", "The client's name in the broker's log, and in descriptions of the group.")
    security_protocol: str = security_protocol()
    acks: str = setting(
        "all",
        "When a record counts as stored: on all replicas, on the leader (1), when it is sent (0).",
        choices=tuple(ACKS),
    )
    enable_idempotence: bool = setting(True, "Whether a broker stores a repeated batch once. Off unless acks is all.")
    compression_type: str = setting("none", "Compression of batches.", choices=tuple(CODECS))
    linger_ms: int = setting(5, "How long a batch waits for more records.", 0, INT_MAX)
    batch_size: int = setting(1_000_000, "Most bytes of a batch, before compression.", 1, INT_MAX)
    max_request_size: int = setting(1_048_576, "Most bytes of a request, and of one record.", 1, INT_MAX)
    max_in_flight_requests_per_connection: int = setting(
        5, "Requests sent to a broker before it answers the first.", 1, 5
    )
    buffer_memory: int = setting(67_108_864, "Bytes of records that are not stored yet; send() waits for room.", 1)
    max_block_ms: int = setting(60_000, "Longest time that send() waits for room, or for a topic's metadata.", 0)
    delivery_timeout_ms: int = setting(120_000, "Time limit from send() until the record is stored.", 0, INT_MAX)
    request_timeout_ms: int = setting(30_000, "Time limit of a request; after it the client closes the connection.", 1)
    retry_backoff_ms: int = setting(100, "Pause after the first failure of a request; it doubles each time.", 0)
    retry_backoff_max_ms: int = setting(1_000, "Longest pause between two attempts of a request.", 0)
    reconnect_backoff_ms: int = setting(50, "Pause after the first failure to connect; it doubles each time.", 0)
    reconnect_backoff_max_ms: int = setting(1_000, "Longest pause between two attempts to connect.", 0)
    metadata_max_age_ms: int = setting(300_000, "Age at which the client refreshes its metadata.", 0)
    connections_max_idle_ms: int = setting(
        540_000, "Idle time after which the client closes a connection; -1: never.", -1
    )
    socket_connection_setup_timeout_ms: int = setting(10_000, "Time limit of connecting.", 1)

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Settings by name, as text or values. UsageError names the one at fault, and the nearest match."""
        given = {_ALIASES.get(name, name): value for name, value in settings.items()}
        for name, instead in _REFUSED.items():
            if name in given:
                raise UsageError(f"{name} cannot be set: {instead}")
        servers = given.get("bootstrap.servers")
        if isinstance(servers, list | tuple):
            given["bootstrap.servers"] = ",".join(map(str, servers))
        if str(given.get("acks")) == "-1":
            given["acks"] = "all"
        config = cls(**parse_values(given, rows(), _ALIASES, DOCUMENT))
        if not config.bootstrap_servers:
            raise UsageError("bootstrap.servers is missing: name one or more brokers, for instance 127.0.0.1:9092")
        return config._with_idempotence_settled("enable.idempotence" in given)

    @classmethod
    def from_keywords(cls, **settings: object) -> Self:
        """The same with underscores for dots: `linger_ms=20`."""
        return cls.parse({kafka_name(name): value for name, value in settings.items()})

    def _with_idempotence_settled(self, is_given: bool) -> Self:
        """A broker numbers what all replicas have: without acks=all there is nothing to number (KIP-679)."""
        if self.acks == "all" or not self.enable_idempotence:
            return self
        if is_given:
            raise UsageError(f"enable.idempotence=true needs acks=all, and acks is {self.acks}")
        return replace(self, enable_idempotence=False)

    @property
    def client(self) -> ConsumerConfig:
        """What metadata and connections need to know. The broker may create a topic that is sent to."""
        return ConsumerConfig(
            bootstrap_servers=self.bootstrap_servers,
            client_id=self.client_id,
            security_protocol=self.security_protocol,
            request_timeout_ms=self.request_timeout_ms,
            retry_backoff_ms=self.retry_backoff_ms,
            retry_backoff_max_ms=self.retry_backoff_max_ms,
            reconnect_backoff_ms=self.reconnect_backoff_ms,
            reconnect_backoff_max_ms=self.reconnect_backoff_max_ms,
            metadata_max_age_ms=self.metadata_max_age_ms,
            connections_max_idle_ms=self.connections_max_idle_ms,
            socket_connection_setup_timeout_ms=self.socket_connection_setup_timeout_ms,
            allow_auto_create_topics=True,
        )

    @property
    def codec(self) -> Codec:
        return CODECS[self.compression_type]


def rows() -> Rows:
    """Every setting by its name, in the order of the table."""
    return rows_of(ProducerConfig)
