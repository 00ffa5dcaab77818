"""From brokers to streams: equipoise.client.Consumer fetches, and one thread passes records on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from equipoise.client import Consumer, ConsumerRecord
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol.views import PartitionTopicInfo, Registry
from equipoise.zookeeper.streams import Stream

log = logging.getLogger(__name__)

_ANSWER_S = 10.0  # offsets.channel.socket.timeout.ms of that time
_LOOK_AGAIN_S = 0.5


class _FetchingConsumer(Consumer):
    """A consumer that assigns itself partitions, and whose news one can wait for apart from polling."""

    def wait_for_news(self, timeout: float) -> None:
        """And forgets them: a poll comes next, or another wait, which must not find the old ones."""
        if self._news.wait(timeout):
            self._news.clear()

    def wake(self) -> None:
        self._news.set()

    def known_positions(self) -> dict[TopicPartition, int]:
        return self._engine.subscriptions.positions()


class ConsumerFetcherManager:
    """`stream`: that of a topic and a thread."""

    def __init__(self, config: ZooKeeperConsumerConfig, stream: Callable[[str, str], Stream]) -> None:
        self._config = config
        self._stream = stream
        self._lock = threading.Lock()  # a poll and the change of what is read must not overlap
        self._registry: Registry = {}
        self._reader: _FetchingConsumer | None = None
        self._servers: frozenset[str] = frozenset()
        self._thread: threading.Thread | None = None

    # -- what is read

    def start_connections(self, registry: Registry) -> None:
        """Reads these, and nothing else, from where their infos say; what goes on is not touched.

        Nothing of what has stopped is handed out once this is done.
        """
        with self._lock:
            removed = [info for key, info in self._registry.items() if registry.get(key) is not info]
            added = [info for key, info in registry.items() if self._registry.get(key) is not info]
            self._note_positions(removed)
            if self._reader is not None:
                self._reader.assign(self._registry.keys() - {info.partition for info in removed})
                self._reader.assign(registry)
                for info in added:
                    if info.consumed is not None:
                        self._reader.seek(info.partition, info.consumed)
                self._reader.wake()
            self._registry = dict(registry)
        for info in removed:
            self._stream_of(info).drop(info)

    def _stream_of(self, info: PartitionTopicInfo) -> Stream:
        return self._stream(info.partition.topic, info.thread)

    def connect(self, servers: str) -> None:
        """To the brokers that ZooKeeper names. If none of them was there before, nothing may be being read."""
        if self.reaches(servers):
            return
        self.close()
        self._servers = frozenset(servers.split(","))
        self._reader = _FetchingConsumer(self._config.for_fetching(servers))
        self._thread = threading.Thread(target=self._run, args=(self._reader,), name="zookeeper-fetcher", daemon=True)
        self._thread.start()

    def reaches(self, servers: str) -> bool:
        """One of those to begin with is enough: that one knows the others."""
        return not self._servers.isdisjoint(servers.split(","))

    def close(self) -> None:
        """Ends the fetcher's thread and its consumer; nothing reaches a stream afterwards."""
        reader, self._reader = self._reader, None
        if reader is not None and self._thread is not None:
            reader.wake()
            self._thread.join()
            reader.close()

    # -- the thread

    def _run(self, reader: _FetchingConsumer) -> None:
        while self._reader is reader:
            for info, records in self._poll(reader):
                self._stream_of(info).put(info, records)

    def _poll(self, reader: _FetchingConsumer) -> list[tuple[PartitionTopicInfo, list[ConsumerRecord]]]:
        try:
            with self._lock:
                chunks = self._by_info(reader.poll(0) if self._registry else [])
        except Exception as error:
            is_known = isinstance(error, EquipoiseError)
            log.warning("records cannot be fetched at the moment: %s", error, exc_info=not is_known)
            chunks = []
        if not chunks and self._reader is reader:
            reader.wait_for_news(_LOOK_AGAIN_S)
        return chunks

    def _by_info(self, records: Iterable[ConsumerRecord]) -> list[tuple[PartitionTopicInfo, list[ConsumerRecord]]]:
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        for partition, chunk in found.items():
            info = self._registry[partition]
            if info.consumed is None:
                info.consumed = chunk[0].offset
        return [(self._registry[partition], chunk) for partition, chunk in found.items()]

    # -- offsets

    def note_positions(self) -> None:
        """Puts how far each stream has consumed into the registry, where commits read it."""
        with self._lock:
            self._note_positions(self._registry.values())

    def _note_positions(self, infos: Iterable[PartitionTopicInfo]) -> None:
        """Where auto.offset.reset has decided and nothing was read yet, that is how far it has come. Reading is behind
        what was handed out only if the log has lost its end, or begins anew."""
        positions = {} if self._reader is None else self._reader.known_positions()
        for info in infos:
            at = positions.get(info.partition)
            if at is not None and (info.consumed is None or at < info.consumed):
                info.consumed = at

    def commit_to_kafka(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As a consumer without a generation: the coordinator takes it as long as the group has no members there."""
        if self._reader is None or not offsets:
            return
        done = threading.Event()
        errors: list[KafkaError] = []

        def told(error: KafkaError | None) -> None:
            errors.extend([error] if error is not None else [])
            done.set()

        self._reader.commit_async(offsets, told)
        if not done.wait(_ANSWER_S):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"offsets were not committed within {_ANSWER_S:g} s")
        if errors:
            raise errors[0]

    def committed_in_kafka(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's offsets in Kafka; a partition without one is left out."""
        wanted = list(partitions)
        if self._reader is None or not wanted:
            return {}
        found = self._reader.committed(*wanted, timeout=_ANSWER_S)
        return {partition: committed.offset for partition, committed in found.items()}
