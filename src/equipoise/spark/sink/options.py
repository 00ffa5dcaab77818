"""The sink's options: the topic, and under `kafka.` the names of the Java producer, with its defaults and bounds.

docs/spark.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.config import rows as producer_rows
from equipoise.member.partitions import TopicPartition
from equipoise.settings import Rows
from equipoise.spark.options import AT_LEAST_ONCE, EXACTLY_ONCE, by_known_names, checked_delivery, kafka_settings
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
OPTIONS_WITHOUT_EFFECT = "includeHeaders", "path", "queryName"
FAIL, REWRITE = "fail", "rewrite"
SINK_OPTIONS = "topic", "delivery", "decision.topic", "group.id", "checkpointLocation", "on.lost.transaction"
TIMEOUT_MS = 900_000  # the most that brokers allow by default: a batch and a restart of the query must fit into it
_REFUSED = {
    "key.serializer": "the column key is written as it is: make it binary or string",
    "value.serializer": "the column value is written as it is: make it binary or string",
    "partitioner.class": "the column partition says where a row goes",
    "interceptor.classes": "interceptors could change what is written",
}


_PREFIX = "equipoise"


def rows() -> Rows:
    """Every setting of the producer that has an effect here, in the order of the table."""
    return {name: row for name, row in producer_rows().items() if name not in PRODUCER_WITHOUT_EFFECT}


def _parse_producer(settings: Mapping[str, str], delivery: str) -> ProducerConfig:
    """The producer's settings. UsageError names the setting at fault, and the nearest match."""
    for name, instead in _REFUSED.items():
        if name in settings:
            raise UsageError(f"{name} is not for Spark: {instead}")
    if settings.get("acks") == "0":
        raise UsageError("acks=0: without an answer a task cannot know that its rows are stored: use all or 1")
    given = {name: value for name, value in settings.items() if name not in PRODUCER_WITHOUT_EFFECT}
    if delivery == EXACTLY_ONCE:
        given = {"transactional.id": _PREFIX, "transaction.timeout.ms": str(TIMEOUT_MS), **given}
    elif "transactional.id" in given or "transaction.timeout.ms" in given:
        raise UsageError("transactions need the option delivery, with the value exactly-once: set it")
    # A task sends what it has and waits until it is stored: to linger would only cost time.
    return ProducerConfig.parse({**given, "linger.ms": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one sink, checked. Spark pickles them to its executors."""

    producer: ProducerConfig
    topic: str | None = None  # of all rows; it goes before the column
    delivery: str = AT_LEAST_ONCE
    decision_topic: str | None = None  # whose partition 0 the decisions are committed for
    group_id: str | None = None  # of the source, whose offsets are committed with the rows
    checkpoint: str | None = None
    on_lost_transaction: str = FAIL

    @property
    def rewrites_lost(self) -> bool:
        """Whether a batch is written again if a transaction of it was lost after the decision."""
        return self.on_lost_transaction == REWRITE

    @property
    def is_exactly_once(self) -> bool:
        """Whether rows are written in transactions."""
        return self.delivery == EXACTLY_ONCE

    @property
    def anchor(self) -> TopicPartition:
        """The partition for which decisions are committed. Nothing is written to it."""
        name = self.decision_topic or self.topic
        assert name is not None
        return TopicPartition(name, 0)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Reads options in any case. UsageError names the option at fault."""
        given = by_known_names(options, (*SINK_OPTIONS, *OPTIONS_WITHOUT_EFFECT))
        if given.get("topic") == "":
            raise UsageError("the option topic is empty: name the topic, or leave it out and give a column topic")
        delivery = checked_delivery(given)
        settings = kafka_settings(options)
        try:
            producer = _parse_producer(settings, delivery)
        except UsageError as error:
            raise UsageError(f"among the options kafka.*: {error}") from None
        return cls(
            producer=producer,
            topic=given.get("topic"),
            delivery=delivery,
            decision_topic=given.get("decision.topic"),
            group_id=given.get("group.id"),
            checkpoint=given.get("checkpointLocation"),
            on_lost_transaction=given.get("on.lost.transaction", FAIL),
        )._checked()

    def _checked(self) -> Self:
        if not self.is_exactly_once:
            if self.decision_topic is not None or self.group_id is not None:
                raise UsageError("the options decision.topic and group.id of the sink need delivery=exactly-once")
        elif self.topic is None and self.decision_topic is None:
            raise UsageError(
                "delivery=exactly-once with a column topic needs the option decision.topic: one of the topics, for "
                "whose partition 0 the sink commits which batch is written"
            )
        elif self.group_id is not None and self.checkpoint is None:
            raise UsageError("group.id of the sink needs the option checkpointLocation: it has the offsets of a batch")
        return self._checked_loss()

    def _checked_loss(self) -> Self:
        if self.on_lost_transaction not in (FAIL, REWRITE):
            raise UsageError(f"on.lost.transaction={self.on_lost_transaction}: it is {FAIL} or {REWRITE}")
        if self.rewrites_lost and not self.is_exactly_once:
            raise UsageError("on.lost.transaction=rewrite needs delivery=exactly-once: without it nothing is lost")
        if self.rewrites_lost and self.group_id is not None:
            raise UsageError(
                "on.lost.transaction=rewrite does not go with group.id of the sink: the group has the offsets of the "
                "batch, and other members may have read on; leave one of them out"
            )
        return self
