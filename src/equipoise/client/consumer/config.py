"""The consumer's settings, under the names that the Java client and librdkafka share, with Kafka's defaults and bounds.

docs/consumer.md lists them all; its table is made from the rows below.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from equipoise.client.config import ClientConfig, check_servers, client_rows, named_settings, parse_client
from equipoise.settings import INT_MAX, LEGAL_ID, Rows, setting
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

DOCUMENT = "docs/consumer.md"
LATEST, EARLIEST = -1, -2  # timestamps of ListOffsets
READ_COMMITTED = 1
# An ISO 8601 duration of days and less, since years and months have no fixed length.
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_UNITS_MS = 86_400_000, 3_600_000, 60_000, 1_000
# librdkafka's names for what Java calls otherwise.
_ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
}

# Settings of classic members that the broker decides in the consumer protocol, and what takes their place.
_CLASSIC_ONLY = {
    "partition.assignment.strategy": "the broker assigns, and group.remote.assignor chooses among its assignors",
    "session.timeout.ms": "the broker has group.consumer.session.timeout.ms, and consumer.session.timeout.ms by group",
    "heartbeat.interval.ms": (
        "the broker has group.consumer.heartbeat.interval.ms, and consumer.heartbeat.interval.ms by group"
    ),
}

Strategy = tuple[str | object, ...]  # names of assignors, or assignors


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Made by `parse` or `from_keywords`, which check it."""

    client_rack: str = setting(
        "", "Rack of this client. It prefers replicas and partitions in the same rack.", is_sent=True
    )
    group_id: str | None = setting(
        None, "The group. Without it the consumer commits nothing, and takes partitions by assign().", is_sent=True
    )
    group_instance_id: str | None = setting(
        None, "Makes a static member, which can restart without a rebalance (KIP-345)."
    )
    group_protocol: str = setting(
        "classic",
        "The group protocol: classic, consumer (KIP-848: the broker assigns), auto (consumer if the broker has it).",
        choices=("classic", "consumer", "auto"),
    )
    group_remote_assignor: str | None = setting(
        None, "With group.protocol=consumer: one of the broker's group.consumer.assignors. Its first by default."
    )
    partition_assignment_strategy: tuple[str | object, ...] = setting(
        ("range", "cooperative-sticky"), "Assignors in order of preference: names separated by commas, or a list."
    )
    session_timeout_ms: int = setting(
        45_000, "Time without a heartbeat after which the group removes the member.", 1, INT_MAX
    )
    heartbeat_interval_ms: int = setting(
        3_000, "Time between heartbeats; at most a third of session.timeout.ms.", 1, INT_MAX
    )
    max_poll_interval_ms: int = setting(
        300_000, "Longest time between two polls; after it the member leaves the group.", 1, INT_MAX
    )
    max_poll_records: int = setting(500, "Most records that one poll() returns.", 1, INT_MAX)
    auto_offset_reset: str = setting(
        "latest", "Start without a valid offset: latest, earliest, none (an error), by_duration:<ISO 8601>."
    )
    enable_auto_commit: bool = setting(True, "Whether poll() and close() commit positions. Off without group.id.")
    auto_commit_interval_ms: int = setting(5_000, "Time between two automatic commits.", 0, INT_MAX)
    isolation_level: str = setting(
        "read_uncommitted",
        "read_committed: without records of aborted or open transactions.",
        choices=("read_uncommitted", "read_committed"),
    )
    fetch_min_bytes: int = setting(1, "A broker answers a fetch when it has this many bytes.", 0, INT_MAX)
    fetch_max_wait_ms: int = setting(500, "Longest time that a broker waits for fetch.min.bytes.", 0, INT_MAX)
    fetch_max_bytes: int = setting(
        52_428_800, "Most bytes of a fetch answer; a larger first batch comes whole.", 0, INT_MAX
    )
    max_partition_fetch_bytes: int = setting(
        1_048_576, "Most bytes of one partition in a fetch answer; a larger first batch comes whole.", 0, INT_MAX
    )
    queued_max_messages_kbytes: int = setting(
        65_536, "Kilobytes fetched ahead of poll(), over all partitions.", 1, 2_097_151
    )
    check_crcs: bool = setting(True, "Whether the consumer checks the CRC32C of every batch.")
    allow_auto_create_topics: bool = setting(
        True, "Whether a subscription may create a topic, if the broker allows it."
    )
    exclude_internal_topics: bool = setting(True, "Whether a pattern leaves out internal topics.")
    default_api_timeout_ms: int = setting(60_000, "Time limit of a blocking call that has no timeout argument.", 0)

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Settings by name, as text or values. UsageError names the one at fault, and the nearest match."""
        given = named_settings(settings, _ALIASES)
        classic_only = [name for name in _CLASSIC_ONLY if name in given]
        strategy = given.pop("partition.assignment.strategy", None)
        config = cls(**parse_client(given, rows(), _ALIASES, DOCUMENT))
        config = replace(config, group_protocol=_group_protocol(config, classic_only))
        if strategy is not None:
            config = replace(config, partition_assignment_strategy=_parse_strategy(strategy))
        return config._checked()

    @property
    def may_create_topics(self) -> bool:
        """As allow.auto.create.topics says."""
        return self.allow_auto_create_topics

    @property
    def commits(self) -> bool:
        """Whether there is a group to commit to."""
        return self.group_id is not None

    @property
    def isolation(self) -> int:
        """As Fetch and ListOffsets write it."""
        return READ_COMMITTED if self.isolation_level == "read_committed" else 0

    @property
    def queued_max_bytes(self) -> int:
        """Most bytes fetched ahead of poll()."""
        return self.queued_max_messages_kbytes * 1024

    def reset_timestamp(self, now_ms: int) -> int | None:
        """What ListOffsets is to be asked where there is no valid offset; None: the application decides."""
        if self.auto_offset_reset.startswith("by_duration:"):
            return max(0, now_ms - _duration_ms(self.auto_offset_reset))
        return {"latest": LATEST, "earliest": EARLIEST}.get(self.auto_offset_reset)

    def _checked(self) -> Self:
        check_servers(self)
        if self.auto_offset_reset not in ("latest", "earliest", "none"):
            _duration_ms(self.auto_offset_reset)
        self._check_group()
        self._check_times()
        return self if self.commits else replace(self, enable_auto_commit=False)

    def _check_group(self) -> None:
        if self.group_id == "":
            raise UsageError("group.id is empty: give the group a name, or leave it out to read without a group")
        if self.group_instance_id is not None and not LEGAL_ID.fullmatch(self.group_instance_id):
            raise UsageError(
                f"group.instance.id={self.group_instance_id}: must be 1 to 249 letters, digits, dots, _ or -"
            )
        _check_pairs(self, "fetch.min.bytes", "fetch.max.bytes")

    def _check_times(self) -> None:
        _check_pairs(self, "retry.backoff.ms", "retry.backoff.max.ms")
        _check_pairs(self, "reconnect.backoff.ms", "reconnect.backoff.max.ms")
        heartbeat, session = self.heartbeat_interval_ms, self.session_timeout_ms
        if heartbeat >= session:
            raise UsageError(
                f"heartbeat.interval.ms={heartbeat}: must be below session.timeout.ms, which is {session}: "
                "a third of it is right"
            )
        if 3 * heartbeat > session:
            log.warning(
                "heartbeat.interval.ms=%d is over a third of session.timeout.ms=%d: two lost heartbeats end the "
                "session; set it to %d or less",
                heartbeat,
                session,
                session // 3,
            )


def _group_protocol(config: ConsumerConfig, classic_only: list[str]) -> str:
    """Rule B2.2. What the broker decides in the consumer protocol cannot be set here; with auto it is a choice of the
    classic one (ConsumerConfig.checkUnsupportedConfigsPostProcess)."""
    if config.group_protocol == "classic" and config.group_remote_assignor is not None:
        raise UsageError(
            "group.remote.assignor needs group.protocol=consumer: set it, or use partition.assignment.strategy"
        )
    if config.group_protocol == "consumer" and classic_only:
        name = classic_only[0]
        raise UsageError(f"{name} cannot be set with group.protocol=consumer: leave it out; {_CLASSIC_ONLY[name]}")
    return "classic" if classic_only and config.group_protocol == "auto" else config.group_protocol


def rows() -> Rows:
    """Every setting by its name, in the order of the table."""
    return client_rows(ConsumerConfig)


def _check_pairs(config: ConsumerConfig, smaller: str, larger: str) -> None:
    table = rows()
    low, high = getattr(config, table[smaller].name), getattr(config, table[larger].name)
    if low > high:
        raise UsageError(f"{smaller}={low}: must not be above {larger}, which is {high}")


def _parse_strategy(given: object) -> Strategy:
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, Iterable) else [given]
    assignors = [one.strip() if isinstance(one, str) else one for one in listed]
    names = [getattr(one, "name", one) for one in assignors]
    if not names or "" in names:
        raise UsageError(f"partition.assignment.strategy={given!r}: name one assignor or more, for instance range")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"partition.assignment.strategy={given!r}: {twice[0]} is named {names.count(twice[0])} times")
    return tuple(assignors)


def _duration_ms(reset: str) -> int:
    kind, _, text = reset.partition(":")
    found = _DURATION.fullmatch(text)
    if kind != "by_duration" or found is None or not any(found.groups()):
        raise UsageError(
            f"auto.offset.reset={reset}: must be latest, earliest, none or by_duration:<ISO 8601>, "
            "for instance by_duration:PT1H30M"
        )
    return int(sum(float(count or 0) * unit for count, unit in zip(found.groups(), _UNITS_MS, strict=True)))
