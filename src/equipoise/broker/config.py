"""The broker's settings, under Kafka's names, with Kafka's defaults and bounds.

Each row is a typed attribute; its Kafka name is the attribute with dots. Rows marked `topic=` are also the default of
that topic config. The last rows are our own. SUPPORTED.md lists all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equipoise.broker.net.listener_config import (
    ConfiguredListener,
    ListenerTexts,
    listener_rows,
    parse_listeners,
    split_settings,
)
from equipoise.settings import INT_MAX, LONG_MAX, Rows, convert, parse_values, rows_of, setting
from equipoise.wire.errors import UsageError

DAY_MS = 86_400_000
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
DOCUMENT = "SUPPORTED.md"  # lists all of them


def _assignors() -> tuple[str, ...]:
    from equipoise.assignors import registered_assignors  # milliseconds of the start of a broker that has the default

    return registered_assignors()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Every setting of a broker, checked. `parse` reads it from Kafka's names."""

    node_id: int = setting(1, "This broker's id in Metadata.", 0, INT_MAX)
    broker_rack: str = setting(
        "", "Rack of this broker in Metadata; empty: none. Of several `brokers` one for each, with commas between."
    )
    num_partitions: int = setting(1, "Partitions of a topic created without a count.", 1, INT_MAX)
    default_replication_factor: int = setting(
        1, "Replicas of a topic created without a factor; if it is not set, as many as there are `brokers`.", 1, 100
    )
    auto_create_topics_enable: bool = setting(True, "Whether Metadata creates the topics it names.")
    delete_topic_enable: bool = setting(True, "Whether DeleteTopics is allowed.")
    message_max_bytes: int = setting(1_048_588, "Largest record batch accepted.", 0, INT_MAX, topic="max.message.bytes")
    fetch_max_bytes: int = setting(57_671_680, "Most bytes in one Fetch answer.", 1024, INT_MAX)
    compression_type: str = setting(
        "producer",
        "Codec of stored batches; producer: the producer's.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        topic="compression.type",
    )
    compression_gzip_level: int = setting(
        -1, "Level of gzip, 1 to 9; -1: its default.", choices=(-1, *range(1, 10)), topic="compression.gzip.level"
    )
    compression_lz4_level: int = setting(
        9, "Level of lz4; 9 is its fast mode, as in Kafka.", 1, 17, topic="compression.lz4.level"
    )
    compression_zstd_level: int = setting(3, "Level of zstd.", -131072, 22, topic="compression.zstd.level")
    log_retention_ms: int = setting(
        7 * DAY_MS, "Age at which segments are deleted; -1: never.", -1, topic="retention.ms"
    )
    log_retention_bytes: int = setting(
        -1, "Size above which old segments are deleted; -1: never.", -1, topic="retention.bytes"
    )
    log_retention_check_interval_ms: int = setting(300_000, "Time between two rounds of retention.", 1)
    log_segment_bytes: int = setting(
        1 << 30, "Size at which a segment is rolled.", 1 << 20, INT_MAX, topic="segment.bytes"
    )
    internal_log_segment_bytes: int = setting(
        0,
        "For tests: instead of `log.segment.bytes`, and without its lower bound; 0: not set.",
        0,
        INT_MAX,
        topic=INTERNAL_SEGMENT_BYTES,
    )
    log_roll_ms: int = setting(7 * DAY_MS, "Age at which a segment is rolled.", 1, topic="segment.ms")
    log_cleanup_policy: str = setting(
        "delete", "delete, compact, or both with a comma.", topic="cleanup.policy", list_of=("delete", "compact")
    )
    log_cleaner_delete_retention_ms: int = setting(
        DAY_MS, "Time for which a compacted log keeps its tombstones.", 0, topic="delete.retention.ms"
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5, "Share of a log that must be dirty before it is compacted.", 0, 1, topic="min.cleanable.dirty.ratio"
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        0, "Age below which records are not compacted.", 0, topic="min.compaction.lag.ms"
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG_MAX, "Age by which records must be compacted.", 1, topic="max.compaction.lag.ms"
    )
    log_cleaner_backoff_ms: int = setting(15_000, "Time between two rounds of compaction.", 1)
    log_index_interval_bytes: int = setting(
        4096, "Bytes between two index entries.", 0, INT_MAX, topic="index.interval.bytes"
    )
    log_message_timestamp_type: str = setting(
        "CreateTime",
        "CreateTime: the producer's clock stamps records. LogAppendTime: the broker's.",
        choices=("CreateTime", "LogAppendTime"),
        topic="message.timestamp.type",
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000,
        "Largest distance of a timestamp into the future.",
        0,
        topic="message.timestamp.after.max.ms",
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG_MAX, "Largest distance of a timestamp into the past.", 0, topic="message.timestamp.before.max.ms"
    )
    min_insync_replicas: int = setting(
        1, "Always 1: brokers have one log, and do not replicate.", 1, 1, topic="min.insync.replicas"
    )
    producer_id_expiration_ms: int = setting(
        DAY_MS, "Idle time after which the broker forgets a producer id.", 1, INT_MAX
    )
    offsets_topic_num_partitions: int = setting(50, "Partitions of __consumer_offsets.", 1, INT_MAX)
    offsets_topic_segment_bytes: int = setting(104_857_600, "Segment size of __consumer_offsets.", 1, INT_MAX)
    offsets_topic_replication_factor: int = setting(3, "Without effect: all `brokers` may coordinate.", 1, 32767)
    offsets_topic_compression_codec: int = setting(0, "Without effect: never compressed.", 0, 4)
    offsets_load_buffer_size: int = setting(5_242_880, "Without effect.", 1, INT_MAX)
    offsets_commit_timeout_ms: int = setting(5_000, "Time limit of a write of the coordinator.", 1, INT_MAX)
    offset_metadata_max_bytes: int = setting(4_096, "Longest metadata of a committed offset.", 0, INT_MAX)
    offsets_retention_minutes: int = setting(
        10_080, "Time for which offsets outlive their group's last member.", 1, INT_MAX
    )
    offsets_retention_check_interval_ms: int = setting(600_000, "Time between two rounds of offset expiry.", 1)
    transaction_state_log_num_partitions: int = setting(50, "Partitions of __transaction_state.", 1, INT_MAX)
    transaction_state_log_segment_bytes: int = setting(104_857_600, "Segment size of __transaction_state.", 1, INT_MAX)
    transaction_state_log_replication_factor: int = setting(3, "Without effect: there is no replication.", 1, 32767)
    transaction_state_log_min_isr: int = setting(2, "Without effect: there is no replication.", 1, INT_MAX)
    transaction_state_log_load_buffer_size: int = setting(5_242_880, "Without effect.", 1, INT_MAX)
    transaction_max_timeout_ms: int = setting(900_000, "Longest timeout that a transaction may ask for.", 1, INT_MAX)
    transactional_id_expiration_ms: int = setting(
        7 * DAY_MS, "Time without a transaction after which an id is forgotten.", 1, INT_MAX
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000, "Longest time after its timeout within which a transaction is aborted.", 1, INT_MAX
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, "Time between two rounds of forgetting transactional ids.", 1, INT_MAX
    )
    transaction_partition_verification_enable: bool = setting(
        True, "Whether a Produce of older clients is checked for a partition that was added to its transaction."
    )
    transaction_two_phase_commit_enable: bool = setting(False, "Without effect: InitProducerId v6 is not served.")
    add_partitions_to_txn_retry_backoff_ms: int = setting(20, "Without effect: who waits is told at once.", 1, INT_MAX)
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        100, "Time for which records wait while the transaction before theirs ends.", 0, INT_MAX
    )
    group_min_session_timeout_ms: int = setting(
        6_000, "Shortest session timeout that a member may ask for.", 0, INT_MAX
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, "Longest session timeout that a member may ask for.", 0, INT_MAX
    )
    group_initial_rebalance_delay_ms: int = setting(
        3_000, "Time for which the first rebalance of an Empty group waits for more members.", 0, INT_MAX
    )
    group_max_size: int = setting(INT_MAX, "Most members of a group.", 1, INT_MAX)
    group_coordinator_threads: int = setting(4, "Without effect: one loop serves all shards.", 1, INT_MAX)
    group_coordinator_background_threads: int = setting(2, "Without effect.", 1, INT_MAX)
    group_coordinator_append_linger_ms: int = setting(-1, "Without effect: one append per turn of the loop.", -1)
    group_coordinator_cached_buffer_max_bytes: int = setting(1_048_588, "Without effect.", 524_288, INT_MAX)
    group_coordinator_rebalance_protocols: str = setting(
        "classic,consumer",
        "The group protocols that are served; streams is not.",
        list_of=("classic", "consumer", "streams"),
    )
    group_consumer_session_timeout_ms: int = setting(
        45_000, "Silence after which a member of a `consumer` group is removed.", 1, INT_MAX
    )
    group_consumer_min_session_timeout_ms: int = setting(
        45_000, "Shortest such time that a group may have of its own.", 1, INT_MAX
    )
    group_consumer_max_session_timeout_ms: int = setting(
        60_000, "Longest such time that a group may have of its own.", 1, INT_MAX
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000, "Time between two heartbeats of a member of a `consumer` group.", 1, INT_MAX
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5_000, "Shortest such time that a group may have of its own.", 1, INT_MAX
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15_000, "Longest such time that a group may have of its own.", 1, INT_MAX
    )
    group_consumer_max_size: int = setting(INT_MAX, "Most members of a `consumer` group.", 1, INT_MAX)
    group_consumer_assignors: str = setting(
        "uniform,range",
        "Assignors of `consumer` groups; the first is the default.",
        list_of=_assignors,
    )
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        "Whether a group with members may change between `classic` and `consumer`, and in which direction.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_consumer_assignment_interval_ms: int = setting(
        1_000, "Shortest time between two targets of a `consumer` group.", 0, INT_MAX
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        0, "Shortest such time that a group may have of its own.", 0, INT_MAX
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "Longest such time that a group may have of its own.", 0, INT_MAX
    )
    group_consumer_assignor_offload_enable: bool = setting(True, "Without effect, as in Kafka.")
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000, "Age at which a `consumer` group looks up the topics of its regular expressions anew.", 10_000, INT_MAX
    )
    socket_request_max_bytes: int = setting(104_857_600, "Largest frame accepted.", 1, INT_MAX)
    queued_max_request_bytes: int = setting(
        268_435_456, "Memory of unfinished requests over all connections; further requests wait.", 1, LONG_MAX
    )
    max_connections: int = setting(INT_MAX, "Most connections at a time.", 0, INT_MAX)
    connections_max_idle_ms: int = setting(
        600_000, "Idle time after which the broker closes a connection; -1: never.", -1
    )
    max_incremental_fetch_session_cache_slots: int = setting(1000, "Most fetch sessions at a time.", 0, INT_MAX)
    listeners: str = setting("", "NAME://HOST:PORT, with commas; empty: one PLAINTEXT listener, where `--listen` says.")
    advertised_listeners: str = setting(
        "",
        "What Metadata gives to clients: NAME://HOST:PORT, with commas, or HOST:PORT; empty: the address that each "
        "client has used.",
    )
    listener_security_protocol_map: str = setting(
        "", "NAME:PROTOCOL, with commas; empty: PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL name their protocols."
    )
    connection_failed_authentication_delay_ms: int = setting(
        100, "Time by which a failed authentication is answered, and its connection closed, later.", 0, INT_MAX
    )
    sasl_users_file: str = setting("", "File of users, for PLAIN and SCRAM; it is read again when it changes.")
    inter_broker_listener_name: str = setting("", "Without effect: `brokers` are in one process.")
    security_inter_broker_protocol: str = setting("PLAINTEXT", "Without effect: `brokers` are in one process.")
    controller_listener_names: str = setting("", "Without effect: there is no controller apart.")
    authorizer_class_name: str = setting(
        "",
        "Kafka's StandardAuthorizer by its class name, or acl: ACLs decide. Empty: everybody may do everything.",
        choices=("", "acl", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    )
    super_users: str = setting("", "Principals that may do everything, as User:name, with semicolons between.")
    allow_everyone_if_no_acl_found: bool = setting(
        False, "Whether everybody may do what no ACL is about, neither an allowing nor a denying one."
    )
    quota_window_num: int = setting(11, "Samples over which the rate of a client with a quota is measured.", 1, INT_MAX)
    quota_window_size_seconds: int = setting(1, "Length of such a sample.", 1, INT_MAX)
    strict: bool = setting(
        False, "Kafka's answers and timing to the letter: every addition for groups is off, whatever its setting says."
    )
    flush: str = setting(
        "commit",
        "commit: a record is acknowledged and readable after a group commit with fdatasync. never: at once.",
        choices=("commit", "never"),
    )
    request_receive_timeout_ms: int = setting(
        30_000, "Silence inside a frame, or time for each MiB of it, after which the broker closes a connection.", 1
    )
    group_initial_rebalance_delay_early: bool = setting(
        True,
        "Whether the initial delay ends when as many members as before, or all static members, are back.",
    )
    group_initial_rebalance_delay_quiet_ms: int = setting(
        250,
        "The initial delay, and the wait for the next target of a new `consumer` group, end when no new member has "
        "come for so long; 0: they last as on Kafka.",
        0,
        INT_MAX,
    )
    group_lost_connection_grace_ms: int = setting(
        2_000,
        "Time for a dynamic member whose connection has ended to come back on another one; 0: its session decides.",
        0,
        INT_MAX,
    )
    group_rebalance_debounce_ms: int = setting(
        0, "A rebalance of a Stable group takes at least this long, so that a burst of joins costs one.", 0, INT_MAX
    )
    group_rebalance_incremental: str = setting(
        "cooperative",
        "Classic groups that the broker rebalances member by member: none, cooperative ones, or eager ones too.",
        choices=("off", "cooperative", "all"),
    )
    group_consumer_assignment_timer: bool = setting(
        True,
        "Whether the next target of a `consumer` group is computed as soon as it may; false: with the next heartbeat.",
    )
    group_consumer_heartbeat_interval_reconciling_ms: int = setting(
        250,
        "Heartbeat interval of a member that waits for partitions of others, at least 100; 0: as at other times.",
        0,
        INT_MAX,
    )
    group_heartbeat_hold_max_ms: int = setting(
        5_000, "Longest hold of a heartbeat, for clients that can bear it; 0: the broker holds none.", 0, INT_MAX
    )
    transaction_version: int = setting(
        2, "Level of the feature transaction.version: from 2 on every transaction takes a new epoch.", 0, 2
    )
    transaction_park_ms: int = setting(
        100,
        "Time for which a request waits while the transaction before it ends, instead of CONCURRENT_TRANSACTIONS; 0: "
        "none waits.",
        0,
        INT_MAX,
    )
    brokers: int = setting(
        1, "Brokers in this process, for tests of failover: each has a node id and listeners of its own.", 1, 100
    )
    max_partitions: int = setting(
        100_000, "Most partitions of all topics; each takes some kilobytes of memory.", 1, INT_MAX
    )
    max_in_flight_requests_per_connection: int = setting(
        1000,
        "Requests of one connection that wait for their answers; the broker reads no more until some are answered.",
        1,
        INT_MAX,
    )

    # No setting, but made of all settings of listeners:
    configured_listeners: tuple[ConfiguredListener, ...] = (ConfiguredListener("PLAINTEXT", "PLAINTEXT", "", 0),)

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether groups of KIP-848 are served."""
        return "consumer" in self.group_coordinator_rebalance_protocols.split(",")

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> BrokerConfig:
        """Settings by Kafka name, as text or values. UsageError names the setting at fault and the nearest match."""
        own, of_listeners = split_settings(settings)
        values = parse_values(_resolve_aliases(own), rows(), [*_ALIASES, *listener_rows()], DOCUMENT)
        config = cls(**values)
        if config.strict:
            config = dataclasses.replace(config, **_STRICT)
        if "default_replication_factor" not in values:
            config = dataclasses.replace(config, default_replication_factor=config.brokers)
        _check_limits(config)
        _check_brokers(config)
        texts = ListenerTexts(config.listeners, config.advertised_listeners, config.listener_security_protocol_map)
        return dataclasses.replace(config, configured_listeners=parse_listeners(texts, of_listeners, rows(), DOCUMENT))

    @property
    def node_ids(self) -> range:
        """The ids of the brokers in this process."""
        return range(self.node_id, self.node_id + self.brokers)

    @property
    def racks(self) -> list[str | None]:
        """The rack of each of them."""
        named = self.broker_rack.split(",") if self.brokers > 1 else [self.broker_rack]
        return [name.strip() or None for name in named] if len(named) > 1 else [named[0] or None] * self.brokers


def _check_brokers(config: BrokerConfig) -> None:
    if config.default_replication_factor > config.brokers:
        raise UsageError(
            f"default.replication.factor={config.default_replication_factor}: must be between 1 and {config.brokers}, "
            "the number of brokers"
        )
    if len(config.racks) != config.brokers:
        raise UsageError(
            f"broker.rack={config.broker_rack}: name one rack, or one for each of the {config.brokers} brokers"
        )
    if config.node_ids[-1] > INT_MAX:
        raise UsageError(f"node.id={config.node_id}: too large for {config.brokers} brokers")


# What Kafka does not do: off in `strict`.
_STRICT: dict[str, Any] = {
    "group_initial_rebalance_delay_early": False,
    "group_initial_rebalance_delay_quiet_ms": 0,
    "group_lost_connection_grace_ms": 0,
    "group_rebalance_debounce_ms": 0,
    "group_rebalance_incremental": "off",
    "group_heartbeat_hold_max_ms": 0,
    "group_consumer_assignment_timer": False,
    "group_consumer_heartbeat_interval_reconciling_ms": 0,
    "transaction_park_ms": 0,
}

_LIMITED = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")  # of `consumer` groups


def _check_limits(config: BrokerConfig) -> None:
    """A group without configs of its own keeps within the limits too. Rule A19.6. Kafka: GroupCoordinatorConfig."""
    for name in _LIMITED:
        names = [f"group.consumer.{part}{name}" for part in ("min.", "", "max.")]
        low, value, high = (getattr(config, one.replace(".", "_")) for one in names)
        if not low <= value <= high:
            raise UsageError(f"{names[1]}={value}: must be between {names[0]} ({low}) and {names[2]} ({high})")
    if config.group_consumer_heartbeat_interval_ms >= config.group_consumer_session_timeout_ms:
        raise UsageError(
            f"group.consumer.heartbeat.interval.ms={config.group_consumer_heartbeat_interval_ms}: must be less than "
            f"group.consumer.session.timeout.ms ({config.group_consumer_session_timeout_ms})"
        )


# Kafka's coarser spellings: the finer one wins when both are given.
_ALIASES = {
    "broker.id": ("node.id", 1),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}


def _resolve_aliases(settings: Mapping[str, object]) -> dict[str, object]:
    resolved: dict[str, object] = {}
    for alias, (name, unit) in _ALIASES.items():
        if alias in settings:
            count = convert(alias, settings[alias], int)
            resolved[name] = count * unit if count >= 0 else count
    return resolved | {name: value for name, value in settings.items() if name not in _ALIASES}


def rows() -> Rows:
    """Every setting by its Kafka name, in the order of the table."""
    return {name: row for name, row in rows_of(BrokerConfig).items() if "doc" in row.metadata}
