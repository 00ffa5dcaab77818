"""The producer's settings, under the names that the Java client and librdkafka share.

docs/producer.md lists them all; its table is made from the rows below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from equipoise.client.config import ClientConfig, check_servers, client_rows, named_settings, parse_client
from equipoise.security.acls import AclOperation
from equipoise.settings import INT_MAX, Rows, setting
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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Made by `parse` or `from_keywords`, which check it."""

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
    transactional_id: str | None = setting(
        None,
        "The name under which this producer has transactions. No two running producers may have the same.",
        is_sent=True,
    )
    transaction_timeout_ms: int = setting(
        60_000, "Time after which the coordinator aborts a transaction that is still open.", 1, INT_MAX
    )
    delivery_timeout_ms: int = setting(120_000, "Time limit from send() until the record is stored.", 0, INT_MAX)

    @property
    def topic_operation(self) -> AclOperation:
        """What the client does to its topics, in the words of ACLs."""
        return AclOperation.WRITE

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Settings by name, as text or values. UsageError names the one at fault, and the nearest match."""
        given = named_settings(settings, _ALIASES)
        for name, instead in _REFUSED.items():
            if name in given:
                raise UsageError(f"{name} cannot be set: {instead}")
        if str(given.get("acks")) == "-1":
            given["acks"] = "all"
        config = cls(**parse_client(given, rows(), _ALIASES, DOCUMENT))
        check_servers(config)
        config = config._with_idempotence_settled("enable.idempotence" in given)
        config._check_transactions()
        return config

    def _with_idempotence_settled(self, is_given: bool) -> Self:
        """A broker numbers what all replicas have: without acks=all there is nothing to number (KIP-679,
        ProducerConfig.postProcessAndValidateIdempotenceConfigs)."""
        if self.acks == "all" or not self.enable_idempotence:
            return self
        if is_given:
            raise UsageError(f"enable.idempotence=true needs acks=all, and acks is {self.acks}")
        return replace(self, enable_idempotence=False)

    def _check_transactions(self) -> None:
        """A transaction that commits has all its records
        (ProducerConfig.postProcessAndValidateIdempotenceConfigs)."""
        if self.transactional_id is None:
            return
        if not self.transactional_id:
            raise UsageError("transactional.id is empty: name the producer, or leave the setting out")
        if not self.enable_idempotence:
            raise UsageError("transactional.id needs acks=all and enable.idempotence=true: leave them out")

    @property
    def codec(self) -> Codec:
        """compression.type as batches write it."""
        return CODECS[self.compression_type]


def rows() -> Rows:
    """Every setting by its name, in the order of the table."""
    return client_rows(ProducerConfig)
