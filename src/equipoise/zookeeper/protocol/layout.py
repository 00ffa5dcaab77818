"""The layout of ZooKeeper: the paths, and the JSON in them. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from equipoise.member.partitions import TopicPartition
from equipoise.settings import LONG_MAX
from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.zookeeper.protocol.assignment import Strategy

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"
PLAINTEXT = "PLAINTEXT"
_OFFSET = re.compile(rb"\s*(-?[0-9]{1,30})?\s*")
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__rebalances"})

T = TypeVar("T")
Pattern = Literal["static", "white_list", "black_list"]


class GroupPaths:
    """/consumers/GROUP and below. `epochs` is ours: fencing tokens of safe mode, one node per partition."""

    def __init__(self, group: str) -> None:
        self.root = f"{CONSUMERS}/{group}"
        self.ids = f"{self.root}/ids"
        self.owners = f"{self.root}/owners"
        self.offsets = f"{self.root}/offsets"
        self.epochs = f"{self.root}/epochs"

    def registration(self, consumer_id: str) -> str:
        """The ephemeral node of a consumer."""
        return f"{self.ids}/{consumer_id}"

    def owner(self, partition: TopicPartition) -> str:
        """The ephemeral node that names the owning thread."""
        return f"{self.owners}/{partition.topic}/{partition.partition}"

    def offset(self, partition: TopicPartition) -> str:
        """The node of the committed offset."""
        return f"{self.offsets}/{partition.topic}/{partition.partition}"

    def epoch(self, partition: TopicPartition) -> str:
        """The node whose version is the fencing token."""
        return f"{self.epochs}/{partition.topic}/{partition.partition}"


def topic_path(topic: str) -> str:
    """The node with the partitions of a topic."""
    return f"{TOPICS}/{topic}"


# -- topic filters


@dataclass(frozen=True)
class TopicFilter:
    """Topics by a regular expression, or all but those. Commas stand for |, blanks and outer quotes for nothing."""

    regex: str
    pattern: Pattern = "white_list"

    def __post_init__(self) -> None:
        cleaned = self.regex.strip().replace(",", "|").replace(" ", "").strip("\"'")
        object.__setattr__(self, "regex", cleaned)
        try:
            re.compile(cleaned)
        except (re.error, OverflowError) as error:
            raise UsageError(f"{self.regex!r} is no regular expression: {error}") from None

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        """Whether the filter takes a topic. The internal topics of Kafka can be excluded whatever it says."""
        matches = re.fullmatch(self.regex, topic) is not None
        is_hidden = exclude_internal and topic in INTERNAL_TOPICS
        return matches is (self.pattern == "white_list") and not is_hidden


def whitelist(regex: str) -> TopicFilter:
    """Every topic that the regular expression matches wholly."""
    return TopicFilter(regex)


def blacklist(regex: str) -> TopicFilter:
    """Every topic but those."""
    return TopicFilter(regex, "black_list")


# -- registrations


@dataclass(frozen=True)
class Registration:
    """A consumer in /consumers/GROUP/ids. `strategy` and `exclude_internal` are there in safe mode only."""

    subscription: Mapping[str, int]  # topic, or the one regex, and the number of streams
    pattern: Pattern = "static"
    timestamp_ms: int = 0
    strategy: Strategy | None = None
    exclude_internal: bool | None = None

    def to_json(self) -> bytes:
        """The node's contents: what consumers of that time read, and our own fields behind it."""
        document: dict[str, Any] = {
            "version": 1,
            "subscription": dict(self.subscription),
            "pattern": self.pattern,
            "timestamp": str(self.timestamp_ms),
        }
        if self.strategy is not None:
            document |= {"strategy": self.strategy.name, "form": self.strategy.form}
        if self.exclude_internal is not None:
            document["exclude_internal_topics"] = self.exclude_internal
        return _dump(document)

    @classmethod
    def from_json(cls, consumer_id: str, data: bytes) -> Registration:
        """The reverse; it takes the registrations of old consumers too."""

        def build(document: Any) -> Registration:
            named, pattern = document.get("strategy"), document.get("pattern", "static")
            subscription = {str(name): int(streams) for name, streams in document["subscription"].items()}
            if pattern != "static" and len(subscription) != 1:
                raise ValueError("a filter is one regular expression")
            return cls(
                subscription,
                pattern,
                int(document.get("timestamp", 0)),
                None if named is None else Strategy(named, document.get("form", "t-p")),
                document.get("exclude_internal_topics"),
            )

        return _load(f"the registration of consumer {consumer_id}", data, build)

    def topics(self, known: Iterable[str], *, exclude_internal: bool) -> dict[str, int]:
        """With streams. A pattern is applied to the topics there are, with the member's own view of internal ones."""
        if self.pattern == "static":
            return dict(self.subscription)
        ((regex, streams),) = self.subscription.items()
        hides = exclude_internal if self.exclude_internal is None else self.exclude_internal
        chosen = TopicFilter(regex, self.pattern)
        return {topic: streams for topic in sorted(known) if chosen.allows(topic, exclude_internal=hides)}


# -- brokers and topics


class BrokerAddress(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


def broker_json(host: str, port: int, now_ms: int, rack: str | None = None, *, protocol: str = PLAINTEXT) -> bytes:
    """The node of a broker in the fourth version of its format, which all old clients read. `host` and `port` in it are
    for clients that know nothing of protocols."""
    is_plain = protocol == PLAINTEXT
    document = {
        "version": 4,
        "host": host if is_plain else None,
        "port": port if is_plain else -1,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{protocol}://{host}:{port}"],
        "listener_security_protocol_map": {protocol: protocol},
    }
    return _dump(document | ({} if rack is None else {"rack": rack}))


def broker_address(broker_id: str, data: bytes) -> BrokerAddress:
    """Of the PLAINTEXT listener; before version 2 host and port are all there is, after that they may be empty."""

    def build(document: Any) -> BrokerAddress:
        for endpoint in document.get("endpoints", ()):
            protocol, _, address = endpoint.partition("://")
            if protocol == PLAINTEXT:
                host, _, port = address.rpartition(":")
                return BrokerAddress(host.strip("[]"), int(port))
        if not document["host"]:
            raise ValueError("it has no PLAINTEXT listener")
        return BrokerAddress(document["host"], int(document["port"]))

    return _load(f"the registration of broker {broker_id}", data, build)


def topic_json(replicas: Mapping[int, list[int]]) -> bytes:
    """The node of a topic: its partitions, each with the brokers that have it."""
    return _dump({"version": 1, "partitions": {str(number): nodes for number, nodes in sorted(replicas.items())}})


def topic_replicas(topic: str, data: bytes) -> dict[int, list[int]]:
    """The reverse: the brokers of each partition."""

    def build(document: Any) -> dict[int, list[int]]:
        return {int(number): list(nodes) for number, nodes in document["partitions"].items()}

    return _load(f"the node of topic {topic}", data, build)


# -- offsets


def stored_offset(path: str, data: bytes) -> int | None:
    """None: there is none, which an empty node and a negative number say too, as they always did."""
    found = _OFFSET.fullmatch(data)
    offset = -1 if found is None else int(found[1] or -1)
    if found is None or offset > LONG_MAX:
        raise ProtocolError(f"{path} in ZooKeeper is no offset: {data[:200]!r}; write a number there, or delete it")
    return offset if offset >= 0 else None


# -- JSON


def _dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _load(what: str, data: bytes, build: Callable[[Any], T]) -> T:
    try:
        return build(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError(f"{what} in ZooKeeper cannot be read ({error!r}): {data[:200]!r}") from None
