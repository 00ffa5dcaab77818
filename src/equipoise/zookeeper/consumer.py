"""The high-level consumer of the time before coordinators, on today's ZooKeeper and on any Kafka broker it names.

with ZooKeeperConsumer({"zookeeper.connect": "127.0.0.1:2181", "group.id": "billing"}) as consumer:
    (stream,) = consumer.create_message_streams({"orders": 1})["orders"]
    for record in stream:
        print(record.topic, record.partition, record.offset, record.value)
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.closing import Closing
from equipoise.member.partitions import TopicPartition
from equipoise.settings import kafka_name
from equipoise.wire.errors import UsageError
from equipoise.zookeeper.config import ZooKeeperConsumerConfig, is_legal_name
from equipoise.zookeeper.connector import ConsumerRebalanceListener, ZookeeperConsumerConnector
from equipoise.zookeeper.protocol.layout import TopicFilter
from equipoise.zookeeper.protocol.views import Gate
from equipoise.zookeeper.session import open_client
from equipoise.zookeeper.streams import Stream
from equipoise.zookeeper.subscription import FilteredTopics, StaticTopics, StreamSubscription


class ZooKeeperConsumer(Closing):
    """A consumer of ZooKeeper groups. Settings have their names of that time; docs/zookeeper.md lists them.

    Streams are made once. Each is for one thread; the consumer itself may be used by any.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        listener: ConsumerRebalanceListener | None = None,
        **settings: object,
    ) -> None:
        given = {**(config or {}), **{kafka_name(name): value for name, value in settings.items()}}
        self.config = ZooKeeperConsumerConfig.parse(given)
        self._listener = listener or ConsumerRebalanceListener()
        self._gate = Gate()
        self._connector: ZookeeperConsumerConnector | None = None

    # -- streams

    def create_message_streams(self, topics: Mapping[str, int]) -> dict[str, list[Stream]]:
        """Creates so many streams of each topic. Returns when this consumer has its share of the partitions.

        Raises ConsumerRebalanceFailedError if it cannot have it; in safe mode InconsistentStrategyError if its strategy
        differs from the group's.
        """
        is_mapping = isinstance(topics, Mapping)
        if not (is_mapping and topics and all(isinstance(count, int) and count > 0 for count in topics.values())):
            raise UsageError(
                "create_message_streams() takes topics with one stream at least, for instance {'orders': 1}"
            )
        for topic in topics:
            if not (isinstance(topic, str) and is_legal_name(topic)):
                raise UsageError(f"{topic!r} is no name of a topic: letters, digits, dots, _ or -, one at least")
        made = StaticTopics(topics, self._new_stream)
        self._start(made)
        return made.streams

    def create_message_streams_by_filter(self, chosen: TopicFilter, streams: int = 1) -> list[Stream]:
        """The same for all topics that match, now and later. They share the streams."""
        if not isinstance(chosen, TopicFilter):
            raise UsageError(
                f"create_message_streams_by_filter() takes whitelist({chosen!r}), or blacklist(), and not {chosen!r}"
            )
        if streams < 1:
            raise UsageError(f"create_message_streams_by_filter() takes one stream at least, not {streams}")
        made = FilteredTopics(chosen, streams, self._new_stream, exclude_internal=self.config.exclude_internal_topics)
        self._start(made)
        return made.streams

    def _new_stream(self) -> Stream:
        return Stream(self.config.queued_max_message_chunks, self.config.consumer_timeout_ms, self._gate)

    def _start(self, subscription: StreamSubscription) -> None:
        if self._connector is not None:
            raise UsageError("a consumer's streams are made once: make another consumer")
        config = self.config
        client = open_client(
            config.zookeeper_connect, config.zookeeper_session_timeout_ms, config.zookeeper_connection_timeout_ms
        )
        self._connector = ZookeeperConsumerConnector(
            config, client, subscription=subscription, gate=self._gate, listener=self._listener
        )
        try:
            self._connector.start()
        except BaseException:
            if config.is_safe:  # a registered consumer that does not read still counts for the others
                self.close()
            raise

    # -- where it stands

    @property
    def consumer_id(self) -> str:
        """In safe mode each session has another id."""
        return self._running.policy.consumer_id

    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer owns."""
        return frozenset(self._running.topic_registry)

    def commit_offsets(self) -> None:
        """Commits all owned partitions, after the last records that the streams have returned."""
        self._running.commit_offsets()

    @property
    def connector(self) -> ZookeeperConsumerConnector:
        """For tests and measurements."""
        return self._running

    @property
    def _running(self) -> ZookeeperConsumerConnector:
        if self._connector is None:
            raise UsageError("this consumer has no streams yet: call create_message_streams() first")
        return self._connector

    # -- the end

    def close(self) -> None:
        """Commits if auto.commit.enable is set, ends the streams, and releases everything. It cannot be used again."""
        if self._connector is not None and not self._connector.is_closing():
            self._connector.close()
