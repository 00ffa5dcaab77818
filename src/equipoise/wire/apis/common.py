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
