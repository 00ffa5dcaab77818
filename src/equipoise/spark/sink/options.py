"""The sink's options: the topic, and under `kafka.` the names of the Java producer, with its defaults and bounds.

docs/spark.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.config import rows as producer_rows
from equipoise.settings import Rows
from equipoise.spark.options import by_known_names, kafka_settings
from equipoise.wire.errors import UsageError

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


def rows() -> Rows:
    """Every setting of the producer that has an effect here, in the order of the table."""
    return {name: row for name, row in producer_rows().items() if name not in PRODUCER_WITHOUT_EFFECT}


def _parse_producer(settings: Mapping[str, str]) -> ProducerConfig:
    """The producer's settings. UsageError names the setting at fault, and the nearest match."""
    for name, instead in _REFUSED.items():
        if name in settings:
            raise UsageError(f"{name} is not for Spark: {instead}")
    if settings.get("acks") == "0":
        raise UsageError("acks=0: without an answer a task cannot know that its rows are stored: use all or 1")
    given = {name: value for name, value in settings.items() if name not in PRODUCER_WITHOUT_EFFECT}
    # A task sends what it has and waits until it is stored: to linger would only cost time.
    return ProducerConfig.parse({**given, "linger.ms": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one sink, checked. Spark pickles them to its executors."""

    producer: ProducerConfig
    topic: str | None = None  # of all rows; it goes before the column

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Reads options in any case. UsageError names the option at fault."""
        given = by_known_names(options, ("topic", *OPTIONS_WITHOUT_EFFECT))
        if given.get("topic") == "":
            raise UsageError("the option topic is empty: name the topic, or leave it out and give a column topic")
        settings = kafka_settings(options)
        try:
            return cls(producer=_parse_producer(settings), topic=given.get("topic"))
        except UsageError as error:
            raise UsageError(f"among the options kafka.*: {error}") from None
