"""Topics and their partitions: create, grow, delete, find by name or id; and the waiters on a partition."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from equipoise.broker.cluster.placement import Placement, epoch_end, epoch_of
from equipoise.broker.cluster.placements import DEFAULT, Placements, Replication, Rows
from equipoise.broker.config import BrokerConfig
from equipoise.broker.topics.config import effective, log_config, stored
from equipoise.log.config import LogConfig
from equipoise.log.partition import LogAppendInfo, PartitionLog
from equipoise.log.producer_state import TxnMarker
from equipoise.log.recovery.inventory import TopicRecord
from equipoise.random_uuid import random_uuid
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Codec

_log = logging.getLogger(__name__)
SECURITY_TOPIC = "__security"
OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__rebalances", SECURITY_TOPIC})
_HIDDEN_TOPICS = frozenset({SECURITY_TOPIC})  # for clients they are not there
MAX_ELEMENTS = 65_536  # of all arrays in one request: with its answer at worst 90 MB, less than the largest frame
SPARE_ELEMENTS = 8192  # of a request that names partitions, beside those there are: some may be gone, or not known yet
MAX_NEW_PARTITIONS = 10_000  # in one request, as on Kafka; each costs time on the loop
_CODECS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Partition:
    """A partition's log, its leader, and its waiters: for data to read, or for written records to be durable."""

    __slots__ = ("_unsettled", "_watchers", "index", "leader", "leader_epoch", "log", "placement", "topic")

    def __init__(self, topic: Topic, index: int, log: PartitionLog, placement: Placement) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.placement = placement
        self.leader, self.leader_epoch = placement.leader, placement.epoch  # every request asks
        self._watchers: dict[Callable[[], None], None] = {}
        self._unsettled: deque[tuple[int, Callable[[], None]]] = deque()  # in the order of appends
        log.subscribe(self._changed)

    def watch(self, callback: Callable[[], None]) -> None:
        """`callback` is called whenever there may be more to read, until `unwatch`."""
        self._watchers[callback] = None

    def unwatch(self, callback: Callable[[], None]) -> None:
        """Ends a `watch`."""
        self._watchers.pop(callback, None)

    def place(self, placement: Placement) -> None:
        """Another leader has it, or another epoch has begun. Who waits for records is told."""
        self.placement = placement
        self.leader, self.leader_epoch = placement.leader, placement.epoch
        for callback in list(self._watchers):
            self._tell(callback)

    def check_leader_epoch(self, epoch: int) -> None:
        """Fences a client that has heard of another leader; -1 means it has heard of none
        (Partition.checkCurrentLeaderEpoch)."""
        if epoch > self.leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {epoch} is ahead of {self.leader_epoch}")
        if 0 <= epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {epoch} is behind {self.leader_epoch}")

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record there; at the end of the log, that of the next."""
        return epoch_of(self.placement.starts, offset) if offset < self.log.high_watermark else self.leader_epoch

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to this one that has records, and where it ends (Partition.lastOffsetForLeaderEpoch)."""
        return epoch_end(self.placement.starts, epoch, self.log.high_watermark)

    def is_durable(self, offset: int) -> bool:
        """Whether the record at `offset` is below the high watermark."""
        return self.log.high_watermark > offset

    def when_settled(self, offset: int, callback: Callable[[], None]) -> None:
        """Calls back once: when the record just written at `offset` is durable, or when it never will be."""
        if self.is_durable(offset) or self.log.offline is not None:
            callback()
        else:
            self._unsettled.append((offset, callback))

    def _changed(self, log: PartitionLog) -> None:
        while self._unsettled and (log.offline is not None or self.is_durable(self._unsettled[0][0])):
            self._tell(self._unsettled.popleft()[1])
        for callback in list(self._watchers):
            self._tell(callback)

    def _tell(self, callback: Callable[[], None]) -> None:
        """Each waits for itself: an error in the answer to one must not leave the others without theirs."""
        try:
            callback()
        except Exception:  # noqa: BLE001
            _log.exception("%s: an error in what waited for its records", self.log.name)

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, *, limit_offset: int | None = None
    ) -> list[memoryview]:
        """Whole batches below the high watermark, or another limit; `at_least_one` even if it is larger than
        `max_bytes`."""
        limit = self.log.high_watermark if limit_offset is None else limit_offset
        batches = self.log.read(offset, max(max_bytes, 0), limit)
        if not at_least_one and sum(map(len, batches)) > max_bytes:
            return []
        return batches

    def append_marker(self, marker: TxnMarker, wall_time: int) -> LogAppendInfo:
        """Ends a producer's transaction here, if it has one."""
        return self.log.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.commit,
            marker.coordinator_epoch,
            now=wall_time,
            transaction_version=marker.transaction_version,
            leader_epoch=self.leader_epoch,
        )

    def has_bytes(self, offset: int, max_bytes: int, enough: int, limit: int) -> int:
        """How much a Fetch can read below `limit`, at least counted to `enough`; most often that is known without
        reading."""
        if offset == limit:
            return 0
        if enough <= HEADER_SIZE and self.log.log_start_offset <= offset < limit:
            return HEADER_SIZE
        if limit <= offset <= self.log.high_watermark:  # behind the last stable offset
            return 0
        available = self.log.available(offset, limit)
        if available is None or min(available, max_bytes) >= enough:
            return enough
        there = self.read(offset, max_bytes, at_least_one=True, limit_offset=limit)
        return max(min(available, max_bytes), sum(map(len, there)))

    def delete_records(self, before: int | None) -> int:
        """Everything below `before` (None: the high watermark) goes; the new log start."""
        target = self.log.high_watermark if before is None else before
        if not 0 <= target <= self.log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {target} is not within 0 and {self.log.high_watermark}"
            )
        if self.topic.settings.log_cleanup_policy == "compact":
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{self.topic.name} is compacted: its records stay")
        return self.log.delete_records(target)


class Topic:
    """A topic: its own configs, the settings that result, and its partitions by number."""

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str], settings: BrokerConfig) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.settings = settings
        self.partitions: list[Partition] = []
        self.replication = DEFAULT  # of partitions to be

    @property
    def is_internal(self) -> bool:
        """Whether the broker alone writes it."""
        return self.name in INTERNAL_TOPICS

    @property
    def codec(self) -> Codec | None:
        """In which batches are stored; None: as they came."""
        return _CODECS.get(self.settings.compression_type)

    @property
    def compression_level(self) -> int | None:
        """Kafka's default of each codec is None here: lz4's 9 stands for its fast mode (KIP-390)."""
        settings = self.settings
        if self.codec is Codec.ZSTD:
            return settings.compression_zstd_level
        level, default = {
            Codec.GZIP: (settings.compression_gzip_level, -1),
            Codec.LZ4: (settings.compression_lz4_level, 9),
        }.get(self.codec or Codec.NONE, (-1, -1))
        return None if level == default else level

    def check_batch(self, header: BatchHeader, now: int) -> None:
        """The topic's own limits on what a producer sends."""
        limit = self.settings.message_max_bytes
        if header.size > limit:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.size} bytes; max.message.bytes of {self.name} is {limit}",
            )
        if header.size > self.settings.log_segment_bytes:  # a batch lies in one segment (UnifiedLog.append)
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {header.size} bytes; segment.bytes of {self.name} is {self.settings.log_segment_bytes}",
            )
        if self.settings.log_message_timestamp_type == "CreateTime":
            self._check_timestamp(header.max_timestamp - now, self.settings.log_message_timestamp_after_max_ms, "after")
            if header.base_timestamp >= 0:
                before = now - header.base_timestamp
                self._check_timestamp(before, self.settings.log_message_timestamp_before_max_ms, "before")

    def _check_timestamp(self, distance: int, limit: int, side: str) -> None:
        if distance > limit:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"a timestamp lies {distance} ms {side} now; message.timestamp.{side}.max.ms is {limit}",
            )


class NewTopic(NamedTuple):
    """A topic to be, and its number of partitions."""

    topic: Topic
    partitions: int


class Directory(Protocol):
    """What topics need of a data directory, on disk or in memory."""

    def open_log(self, topic: str, partition: int, config: LogConfig) -> PartitionLog:
        """Opens the log of a partition, recovered where need be."""

    def load_topics(self) -> list[TopicRecord]:
        """The topics as they were last saved."""

    def save_topics(self, topics: list[TopicRecord]) -> None:
        """Replaces the list of topics, durably."""

    def delete_topics(self, topics: Collection[str]) -> None:
        """Removes the files of topics that are no longer saved."""

    def next_producer_id(self) -> int:
        """A producer id that was never given before."""

    def load_placements(self) -> Rows:
        """The leaders of partitions, as they were last saved."""

    def save_placements(self, rows: Rows) -> None:
        """Replaces all of them, durably."""


class Topics:
    """Every topic of the broker. A change is on disk before it is seen."""

    def __init__(self, directory: Directory, defaults: BrokerConfig) -> None:
        self.directory = directory
        self.defaults = defaults
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_unified_name: dict[str, str] = {}
        self._hidden: dict[str, Topic] = {}
        self.on_change: Callable[[], None] = lambda: None  # called when `counts` may have changed
        self.on_seen: Callable[[str], None] = lambda name: None  # a topic can be seen, has grown, or is gone
        self.on_opened: Callable[[Topic], None] = lambda topic: None  # all its partitions are open
        self.placements = Placements(directory, defaults.node_ids, defaults.default_replication_factor)
        self.live_nodes: Sequence[int] = defaults.node_ids  # the brokers that are up
        self._records = {record.name: record for record in directory.load_topics()}  # as they are saved
        self.partition_count = sum(record.partitions for record in self._records.values())
        self.placements.retain(record.topic_id for record in self._records.values())
        for record in self._records.values():
            configs = stored(record.configs)
            topic = Topic(record.name, record.topic_id, configs, effective(defaults, configs))
            _do(self._add(topic, record.partitions))

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self._by_name.values()))

    def counts(self) -> dict[str, int]:
        """How many partitions each has."""
        return {name: one.partitions for name, one in self._records.items() if name not in _HIDDEN_TOPICS}

    def logs(self) -> list[PartitionLog]:
        """All logs there are, those of hidden topics too."""
        return [one.log for topic in (*self._by_name.values(), *self._hidden.values()) for one in topic.partitions]

    def get_hidden(self, name: str) -> Topic | None:
        """A topic that no client can find, read or write, by name or by id."""
        return self._hidden.get(name)

    @property
    def elements(self) -> int:
        """How many array elements a request may have that names partitions: each with its topic, and once more as
        forgotten. Each costs some ten microseconds, whether there is such a partition or not."""
        return min(SPARE_ELEMENTS + 4 * self.partition_count, MAX_ELEMENTS)

    def get(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        return self._by_name.get(name)

    def require(self, name: str) -> Topic:
        """The topic of this name, or UNKNOWN_TOPIC_OR_PARTITION."""
        found = self._by_name.get(name)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return found

    def require_id(self, topic_id: bytes) -> Topic:
        """The topic of this id, or UNKNOWN_TOPIC_ID."""
        found = self._by_id.get(topic_id)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id.hex()}")
        return found

    def find(self, key: str | bytes) -> Topic:
        """By name, or by id. KafkaError: there is none."""
        found = self.look_up(key)
        if found is not None:
            return found
        return self.require(key) if isinstance(key, str) else self.require_id(key)

    def look_up(self, key: str | bytes) -> Topic | None:
        """By name, or by id; None: there is none."""
        return self._by_name.get(key) if isinstance(key, str) else self._by_id.get(key)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id, or None."""
        found = self._by_id.get(topic_id)
        return None if found is None else found.name

    def partition(self, key: str | bytes, index: int) -> Partition:
        """By topic name, or id, and number."""
        topic = self.find(key)
        if not 0 <= index < len(topic.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name} has partitions 0 to {len(topic.partitions) - 1}, not {index}",
            )
        return topic.partitions[index]

    def check_name(self, name: str) -> None:
        """Raises INVALID_TOPIC_EXCEPTION for an illegal name (Topic.validate)."""
        if name in (".", "..") or not _LEGAL_NAME.fullmatch(name):
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{name!r} is no topic name: 1 to 249 of letters, digits, '.', '_' and '-', and not '.' or '..'",
            )

    def plan(
        self,
        name: str,
        count: int,
        configs: dict[str, str],
        beside: Mapping[str, NewTopic],
        *,
        replication: Replication = DEFAULT,
    ) -> NewTopic:
        """A topic that a client asks for, checked against those there are and those `beside` it in the request."""
        if (internal := _RESERVED.get(unify_collision_chars(name))) is not None:
            if name == internal:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is made by the broker when it is needed")
            raise _collision(name, internal)
        planned = self._plan(name, count, configs)
        if (other := beside.get(unify_collision_chars(name))) is not None:
            raise _collision(name, other.topic.name)
        planned.topic.replication = replication
        return planned

    def _plan(self, name: str, count: int, configs: dict[str, str]) -> NewTopic:
        self.check_name(name)
        self.check_free(name)
        self._check_count(count)
        return NewTopic(Topic(name, random_uuid(), configs, effective(self.defaults, configs)), count)

    def check_free(self, name: str) -> None:
        """Raises where the name is taken, or collides with another in metrics (Topic.hasCollision)."""
        if name in self._records:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} is already there")
        other = self._by_unified_name.get(unify_collision_chars(name))
        if other is not None and name not in INTERNAL_TOPICS:  # those are reserved, whatever an old directory holds
            raise _collision(name, other)

    def create(self, planned: Collection[NewTopic]) -> Iterator[None]:
        """All of them with one save: each costs a sync of the disk, and the loop waits for it. What it returns opens
        them one by one; a topic is seen when all its partitions are open."""
        self.check_new(count for _, count in planned)
        self.placements.add([(topic.topic_id, count, topic.replication) for topic, count in planned], self.live_nodes)
        self._save(self._records | {topic.name: _record(topic, count) for topic, count in planned})
        for topic, _ in planned:
            self._by_unified_name[unify_collision_chars(topic.name)] = topic.name
        return (step for topic, count in planned for step in self._add(topic, count))

    def create_at_once(self, name: str, count: int) -> None:
        """Only at the start of the broker, when no client waits for the loop yet."""
        _do(self.create([self.plan(name, count, {}, {})]))

    def create_internal(self, name: str, count: int, configs: dict[str, str]) -> Topic:
        """With the configs that the broker needs for what belongs to it."""
        planned = self._plan(name, count, configs)
        _do(self.create([planned]))
        return planned.topic

    def check_new(self, counts: Iterable[int]) -> None:
        """Whether so many partitions may be added by one request."""
        added, limit = sum(counts), self.defaults.max_partitions
        if added > MAX_NEW_PARTITIONS:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{added} new partitions; at most {MAX_NEW_PARTITIONS} in one request"
            )
        if self.partition_count + added > limit:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{added} new partitions beside {self.partition_count}; max.partitions is {limit}",
            )

    def check_growth(self, topic: Topic, count: int) -> int:
        """How many partitions more than it has."""
        had = self._records[topic.name].partitions
        if count <= had:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"{topic.name} has {had} partitions; ask for more than that, not {count}"
            )
        self._check_count(count - had)
        return count - had

    def grow(
        self, counts: Mapping[Topic, int], replicas: Mapping[Topic, tuple[tuple[int, ...], ...]] | None = None
    ) -> Iterator[None]:
        """To so many partitions each, with one save. What it returns opens them one by one. `replicas`: those of the
        new ones, where they were named."""
        self.check_new(count - self._records[topic.name].partitions for topic, count in counts.items())
        named = replicas or {}
        wanted = [(one.topic_id, count, _grown(one, named.get(one, ()))) for one, count in counts.items()]
        self.placements.add(wanted, self.live_nodes)
        self._save(self._records | {topic.name: _record(topic, count) for topic, count in counts.items()})
        return (step for topic, count in counts.items() for step in self._grow(topic, count))

    def _grow(self, topic: Topic, count: int) -> Iterator[None]:
        yield from self._open_partitions(topic, count)
        self.on_opened(topic)
        self.on_seen(topic.name)

    def set_configs(self, changes: Mapping[Topic, tuple[dict[str, str], BrokerConfig]]) -> None:
        """The configs and the `effective` settings of each, with one save."""
        changed = {
            topic.name: self._records[topic.name]._replace(configs=configs) for topic, (configs, _) in changes.items()
        }
        self._save(self._records | changed)
        for topic, (configs, settings) in changes.items():
            topic.configs, topic.settings = configs, settings
            config = log_config(settings)
            for partition in topic.partitions:
                partition.log.config = config

    def check_deletable(self, topic: Topic) -> None:
        """Raises for a topic that belongs to the broker."""
        if topic.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} belongs to the broker")

    def delete(self, topics: Collection[Topic]) -> None:
        """All of them with one save, as in `create`."""
        gone = {topic.name for topic in topics}
        self._save({name: record for name, record in self._records.items() if name not in gone})
        for topic in topics:
            del self._by_name[topic.name], self._by_id[topic.topic_id]
            self._by_unified_name.pop(unify_collision_chars(topic.name), None)
            for partition in topic.partitions:
                partition.log.delete()
        self.directory.delete_topics(gone)
        with contextlib.suppress(KafkaError):  # what is left of them goes with the next change, or the next start
            self.placements.remove(topic.topic_id for topic in topics)
        for name in gone:
            self.on_seen(name)

    def _add(self, topic: Topic, count: int) -> Iterator[None]:
        yield from self._open_partitions(topic, count)
        if topic.name in _HIDDEN_TOPICS:
            self._hidden[topic.name] = topic
            return
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self._by_unified_name[unify_collision_chars(topic.name)] = topic.name
        self.on_opened(topic)
        self.on_seen(topic.name)

    def _open_partitions(self, topic: Topic, count: int) -> Iterator[None]:
        config = log_config(topic.settings)
        for index in range(len(topic.partitions), count):
            record = self._records.get(topic.name)
            if record is None or record.topic_id != topic.topic_id:
                return  # deleted meanwhile
            log = self.directory.open_log(topic.name, index, config)
            topic.partitions.append(Partition(topic, index, log, self.placements.of(topic.topic_id, index)))
            yield

    def _save(self, records: dict[str, TopicRecord]) -> None:
        """What is saved is not yet done: if the disk refuses, nothing has changed."""
        try:
            self.directory.save_topics(list(records.values()))
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the topics could not be saved: {error}") from error
        self._records = records
        self.partition_count = sum(record.partitions for record in records.values())
        self.on_change()

    def next_producer_id(self) -> int:
        """A producer id that was never given before, or KAFKA_STORAGE_ERROR."""
        try:
            return self.directory.next_producer_id()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no producer id could be saved: {error}") from error

    def _check_count(self, count: int) -> None:
        if count <= 0:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"a topic needs at least 1 partition, not {count}")
        self.check_new([count])


def _grown(topic: Topic, replicas: tuple[tuple[int, ...], ...]) -> Replication:
    """New partitions have as many replicas as the first (ReplicationControlManager.createPartitions)."""
    return Replication(len(topic.partitions[0].placement.replicas), replicas)


def _do(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def _collision(name: str, other: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} collides with topic {other!r}: '.' counts as '_'")


def unify_collision_chars(name: str) -> str:
    """Kafka's metric names make '.' and '_' one; names that work here should work there."""
    return name.replace(".", "_")


# Clients may not take them, whether or not the broker has made its own yet.
_RESERVED = {unify_collision_chars(name): name for name in INTERNAL_TOPICS}


def _record(topic: Topic, partitions: int) -> TopicRecord:
    return TopicRecord(topic.name, topic.topic_id, partitions, topic.configs)
