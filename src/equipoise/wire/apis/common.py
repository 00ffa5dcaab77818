"""Rows that stand at the head of many tables, each said once. A table that extends them has them first."""

from __future__ import annotations

from equipoise.wire.schema import Struct, field


class Throttled(Struct, shared=True):
    """The time for which the client is throttled: a response begins with it."""

    throttle_time_ms: int = field("int32", default=0)


class WithError(Struct, shared=True):
    """An error, and Kafka's words for it if there are any."""

    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)


class Named(Struct, shared=True):
    """A row that begins with its name: a topic with its partitions, a config, a feature, a user's credential."""

    name: str = field("string")


class OfPartition(Struct, shared=True):
    """A row on one partition of the topic that it stands below."""

    partition_index: int = field("int32")


class ErrorOfPartition(OfPartition, shared=True):
    """The same in an answer, with its error."""

    error_code: int = field("int16")


class OfTransaction(Struct, shared=True):
    """Who asks on behalf of a transaction: the id of its producer, and what InitProducerId has given it."""

    transactional_id: str = field("string")
    producer_id: int = field("int64")
    producer_epoch: int = field("int16")
