"""The sink's options: the topic, and under `kafka.` the names of the Java producer, with its defaults and bounds.

docs/spark.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from equipoise.client.config import ConsumerConfig
from equipoise.settings import INT_MAX, Rows, parse_values, rows_of, security_protocol, setting
from equipoise.spark.options import DOCUMENT, by_known_names, kafka_settings
from equipoise.wire.errors import UsageError
from equipoise.wire.records.batch import Codec

CODECS = {codec.name.lower(): codec for codec in Codec}
# Java's settings that mean nothing to a task that sends what it has and waits until it is stored.
PRODUCER_WITHOUT_EFFECT = (
    "buffer.memory",
    "connections.max.idle.ms",
    "linger.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)
# The source's, and Spark's own: options of the query come along.
OPTIONS_WITHOUT_EFFECT = "includeHeaders", "checkpointLocation", "path", "queryName"
_REFUSED = {
    "key.serializer": "the column key is written as it is: make it binary or string",
    "value.serializer": "the column value is written as it is: make it binary or string",
    "partitioner.class": "the column partition says where a row goes",
    "transactional.id": "the sink has no transactions; without them no row is lost, but a retried task writes again",
    "interceptor.classes": "interceptors could change what is written",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Made by `parse`, which checks it."""

    bootstrap_servers: str = setting("", "Brokers to begin with: HOST:PORT, several with commas. Required.")
    client_id: str = setting("equipoise", "The name that brokers see and log.")
    security_protocol: str = security_protocol()
    acks: str = setting("all", "Answered by the leader alone (1), or when all replicas have it.", choices=("all", "1"))
    enable_idempotence: bool = setting(True, "Whether what is sent again is stored once. Off if acks is 1.")
    compression_type: str = setting("none", "Compression of batches.", choices=tuple(CODECS))
    batch_size: int = setting(1_000_000, "Most bytes of a batch, before compression.", 0, INT_MAX)
    max_request_size: int = setting(1_048_576, "Most bytes of a request, and of a record.", 0, INT_MAX)
    max_in_flight_requests_per_connection: int = setting(5, "Requests sent before the first is answered.", 1, 5)
    delivery_timeout_ms: int = setting(120_000, "How long a batch may take in all, with what is repeated.", 0, INT_MAX)
    request_timeout_ms: int = setting(30_000, "How long a request may take before its connection is given up.", 1)
    max_block_ms: int = setting(60_000, "How long the first answer of the cluster may take.", 0)
    retry_backoff_ms: int = setting(100, "Pause after the first failure of a request; it doubles each time.", 0)
    retry_backoff_max_ms: int = setting(1_000, "The longest such pause.", 0)
    metadata_max_age_ms: int = setting(300_000, "Age at which metadata is asked for again.", 0)

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """UsageError names the setting at fault, and the nearest match."""
        given = {name: value for name, value in settings.items() if name not in PRODUCER_WITHOUT_EFFECT}
        if given.get("acks") == "-1":
            given["acks"] = "all"
        for name, instead in _REFUSED.items():
            if name in given:
                raise UsageError(f"{name} is not for Spark: {instead}")
        if given.get("acks") == "0":
            raise UsageError("acks=0: without an answer a task cannot know that its rows are stored: use all or 1")
        config = cls(**parse_values(given, rows(), PRODUCER_WITHOUT_EFFECT, DOCUMENT))
        if config.acks == "all":
            return config
        if "enable.idempotence" in given and config.enable_idempotence:
            raise UsageError(f"enable.idempotence=true needs acks=all, and acks is {config.acks}")
        return replace(config, enable_idempotence=False)

    @property
    def client(self) -> ConsumerConfig:
        """What the way to the leaders needs to know. Topics are created as by any producer, if the broker agrees."""
        return ConsumerConfig(
            bootstrap_servers=self.bootstrap_servers,
            client_id=self.client_id,
            request_timeout_ms=self.request_timeout_ms,
            metadata_max_age_ms=self.metadata_max_age_ms,
            allow_auto_create_topics=True,
        )

    @property
    def codec(self) -> Codec:
        return CODECS[self.compression_type]


def rows() -> Rows:
    """Every setting of the producer by its name, in the order of the table."""
    return rows_of(ProducerConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    producer: ProducerConfig
    topic: str | None = None  # of all rows; it goes before the column

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        given = by_known_names(options, ("topic", *OPTIONS_WITHOUT_EFFECT))
        if given.get("topic") == "":
            raise UsageError("the option topic is empty: name the topic, or leave it out and give a column topic")
        settings = kafka_settings(options)
        try:
            return cls(producer=ProducerConfig.parse(settings), topic=given.get("topic"))
        except UsageError as error:
            raise UsageError(f"among the options kafka.*: {error}") from None
