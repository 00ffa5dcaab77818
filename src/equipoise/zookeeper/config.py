"""The settings of a ZooKeeper consumer, under their names of that time, with their defaults; and our own settings.

docs/zookeeper.md lists them all; its table is made from the rows below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, cast

from equipoise.settings import INT_MAX, Rows, parse_values, rows_of, setting
from equipoise.wire.errors import UsageError
from equipoise.zookeeper.protocol.assignment import Name, Strategy, TextForm

DOCUMENT = "docs/zookeeper.md"
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperConsumerConfig:
    """Made by `parse`, which checks it."""

    zookeeper_connect: str = setting(
        "", "Servers of the ensemble: HOST:PORT separated by commas, then /CHROOT. Required."
    )
    group_id: str = setting("", "The group. Required.")
    mode: str = setting("safe", "safe, or faithful: as Kafka 0.8 to 1.1.", choices=("safe", "faithful"))
    consumer_id: str = setting("", "The second half of the consumer's id; empty: host, time and a random number.")
    client_id: str = setting("equipoise", "The client's name in the broker's log.")
    zookeeper_session_timeout_ms: int = setting(
        6_000, "Time without contact after which ZooKeeper ends the session.", 1, INT_MAX
    )
    zookeeper_connection_timeout_ms: int = setting(0, "Time limit of connecting; 0: the session timeout.", 0, INT_MAX)
    rebalance_max_retries: int = setting(4, "Attempts at a rebalance, including the first.", 1, INT_MAX)
    rebalance_backoff_ms: int = setting(
        2_000, "Pause between two attempts; in safe mode the longest pause.", 0, INT_MAX
    )
    rebalance_settle_ms: int = setting(50, "Safe mode: time without changes before a rebalance begins.", 0, INT_MAX)
    partition_assignment_strategy: str = setting(
        "range", "The assignor. It must be the same for all members.", choices=("range", "roundrobin")
    )
    roundrobin_text_form: str = setting(
        "t-p", "The text that roundrobin hashes: t-p since Kafka 1.0, [t,p] before.", choices=("t-p", "[t,p]")
    )
    roundrobin_equal_subscriptions: bool = setting(
        False, "Faithful mode: roundrobin refuses unequal subscriptions, as in Kafka 0.8.2 to 0.10.1."
    )
    auto_commit_enable: bool = setting(True, "Whether the consumer commits offsets by itself.")
    auto_commit_interval_ms: int = setting(60_000, "Time between two automatic commits.", 1, INT_MAX)
    auto_offset_reset: str = setting("largest", "Start without an offset.", choices=("largest", "smallest"))
    offsets_storage: str = setting("zookeeper", "The store of offsets.", choices=("zookeeper", "kafka"))
    dual_commit_enabled: bool = setting(True, "With offsets.storage=kafka: commits to ZooKeeper too.")
    exclude_internal_topics: bool = setting(True, "Whether a filter leaves out internal topics.")
    consumer_timeout_ms: int = setting(
        -1, "Time without a record after which a stream raises ConsumerTimeoutError; -1: never.", -1
    )
    queued_max_message_chunks: int = setting(2, "Fetched chunks that may wait in a stream.", 1, INT_MAX)
    fetch_message_max_bytes: int = setting(1_048_576, "Most bytes of one partition in a fetch answer.", 1, INT_MAX)
    fetch_min_bytes: int = setting(1, "A broker answers a fetch when it has this many bytes.", 0, INT_MAX)
    fetch_wait_max_ms: int = setting(100, "Longest time that a broker waits for fetch.min.bytes.", 0, INT_MAX)

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Settings by name, as text or values. UsageError names the one at fault, and the nearest match."""
        config = cls(**parse_values(settings, rows(), (), DOCUMENT))
        if not config.zookeeper_connect:
            raise UsageError("zookeeper.connect is missing: name the servers, for instance 127.0.0.1:2181")
        for name, value in (("group.id", config.group_id), ("consumer.id", config.consumer_id or "-")):
            if not is_legal_name(value):
                raise UsageError(
                    f"{name}={value!r}: must be letters, digits, dots, _ or -, one at least, and neither . nor .."
                )
        if config.roundrobin_equal_subscriptions and (
            config.is_safe or config.partition_assignment_strategy != "roundrobin"
        ):
            raise UsageError(
                "roundrobin.equal.subscriptions=true is how an old client was: it goes with mode=faithful and "
                "partition.assignment.strategy=roundrobin only"
            )
        return config

    @property
    def strategy(self) -> Strategy:
        """The assignment strategy with its variants: all members of a group must agree on it."""
        name, form = cast(Name, self.partition_assignment_strategy), cast(TextForm, self.roundrobin_text_form)
        return Strategy(name, form, self.roundrobin_equal_subscriptions)

    @property
    def is_safe(self) -> bool:
        """Whether ownership has fencing tokens (mode=safe)."""
        return self.mode == "safe"

    @property
    def in_kafka(self) -> bool:
        """Whether offsets are read from Kafka (offsets.storage=kafka)."""
        return self.offsets_storage == "kafka"

    @property
    def in_zookeeper(self) -> bool:
        """Whether offsets are written to ZooKeeper, alone or beside Kafka (dual.commit.enabled)."""
        return not self.in_kafka or self.dual_commit_enabled

    @property
    def patience_ms(self) -> int:
        """After which nothing that a rebalance mends is left."""
        return self.rebalance_max_retries * self.rebalance_backoff_ms

    def for_fetching(self, bootstrap_servers: str) -> dict[str, object]:
        """The settings of the consumer that reads the records."""
        return {
            "bootstrap.servers": bootstrap_servers,
            "client.id": self.client_id,
            "group.id": self.group_id if self.in_kafka else None,
            "enable.auto.commit": False,
            "auto.offset.reset": {"largest": "latest", "smallest": "earliest"}[self.auto_offset_reset],
            "max.partition.fetch.bytes": self.fetch_message_max_bytes,
            "fetch.min.bytes": self.fetch_min_bytes,
            "fetch.max.wait.ms": self.fetch_wait_max_ms,
            "allow.auto.create.topics": not self.is_safe,  # faithful: asking for a deleted topic creates it
        }


def is_legal_name(name: str) -> bool:
    """Whether Kafka takes it for a group or a topic, and ZooKeeper for a node."""
    return _LEGAL_NAME.fullmatch(name) is not None and name not in (".", "..")


def rows() -> Rows:
    """Every setting by its name, in the order of the table."""
    return rows_of(ZooKeeperConsumerConfig)
