"""The subscription of a consumer: topics with their own streams, or a filter whose topics share streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from kazoo.client import KazooClient

from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper.protocol.layout import TOPICS, Pattern, TopicFilter, topic_path
from equipoise.zookeeper.streams import Stream

DataChanged = Callable[[bytes | None], None]


class StreamSubscription(ABC):
    """`names` and `pattern` are what stands in the registration."""

    names: Mapping[str, int]
    pattern: Pattern

    @abstractmethod
    def all_streams(self) -> list[Stream]:
        """Every stream that the application reads."""

    @abstractmethod
    def stream(self, topic: str, thread: str) -> Stream:
        """Of a thread, which is known by its number: consumers may change their ids."""

    @abstractmethod
    def watch(self, client: KazooClient, data_changed: DataChanged, topics_changed: Callable[[], None]) -> None:
        """Sets the watches that announce new partitions, and new topics if there is a filter."""

    def follow(self, _client: KazooClient, _known: Sequence[str], _data_changed: DataChanged) -> bool:
        """Whether the topics are others than before, now that these are known."""
        return False

    def end(self, failure: EquipoiseError | None = None) -> None:
        """Ends every stream, with the failure if there is one."""
        for stream in self.all_streams():
            stream.end(failure)


class StaticTopics(StreamSubscription):
    """Topics by name, each with its own streams."""

    pattern: Pattern = "static"

    def __init__(self, topics: Mapping[str, int], new_stream: Callable[[], Stream]) -> None:
        self.names = dict(topics)
        self.streams = {topic: [new_stream() for _ in range(count)] for topic, count in topics.items()}

    def all_streams(self) -> list[Stream]:
        return [stream for streams in self.streams.values() for stream in streams]

    def stream(self, topic: str, thread: str) -> Stream:
        return self.streams[topic][_number(thread)]

    def watch(self, client: KazooClient, data_changed: DataChanged, _topics_changed: Callable[[], None]) -> None:
        for topic in self.names:
            watch_topic(client, topic, data_changed)


class FilteredTopics(StreamSubscription):
    """Topics by a filter. They share the streams, and new topics join them."""

    def __init__(
        self, chosen: TopicFilter, count: int, new_stream: Callable[[], Stream], *, exclude_internal: bool
    ) -> None:
        self.names = {chosen.regex: count}
        self.pattern = chosen.pattern
        self.streams = [new_stream() for _ in range(count)]
        self._chosen = chosen
        self._exclude_internal = exclude_internal
        self._matching: frozenset[str] = frozenset()
        self._watched: set[str] = set()

    def all_streams(self) -> list[Stream]:
        return self.streams

    def stream(self, topic: str, thread: str) -> Stream:
        return self.streams[_number(thread)]

    def watch(self, client: KazooClient, data_changed: DataChanged, topics_changed: Callable[[], None]) -> None:
        client.ensure_path(TOPICS)
        client.ChildrenWatch(TOPICS, lambda _children: topics_changed())
        self.follow(client, client.get_children(TOPICS), data_changed)

    def follow(self, client: KazooClient, known: Sequence[str], data_changed: DataChanged) -> bool:
        matching = frozenset(
            topic for topic in known if self._chosen.allows(topic, exclude_internal=self._exclude_internal)
        )
        for topic in matching - self._watched:
            watch_topic(client, topic, data_changed)
        self._watched |= matching
        before, self._matching = self._matching, matching
        return matching != before


def watch_topic(client: KazooClient, topic: str, data_changed: DataChanged) -> None:
    """Also one that does not exist yet. kazoo calls at once with what is there, which is no change."""
    seen: list[object] = []

    def called(data: bytes | None, *_: object) -> None:
        if seen:
            data_changed(data)
        seen[:] = [True]

    client.DataWatch(topic_path(topic), called)


def _number(thread: str) -> int:
    return int(thread.rpartition("-")[2])
