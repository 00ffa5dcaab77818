"""The engine of a producer, on its loop: the cluster, the sender, and the metadata of topics.

`Producer` and `AsyncProducer` call it.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import time
from collections.abc import Mapping

from equipoise.client.arguments import as_topic
from equipoise.client.metadata.cluster import Cluster
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.client.producer.accumulator import RECORD_OVERHEAD
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.producer.partitioner import StickyPartitioner, partition_for_key
from equipoise.client.producer.sender import Sender
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.client.transactions.manager import TransactionManager
from equipoise.member import OffsetAndMetadata
from equipoise.member.partitions import TopicPartition
from equipoise.settings import INT_MAX, LONG_MAX
from equipoise.wire.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import HEADER_SIZE
from equipoise.wire.records.build import Row

log = logging.getLogger(__name__)

_TOPIC_RESOURCE = 2
_CREATION_S = 5.0  # in which a cluster that creates topics by itself has done so


OffsetsToCommit = Mapping[TopicPartition, int | OffsetAndMetadata]


class ProducerTopic:
    """A topic that is sent to. `partitions` grows with the topic."""

    def __init__(self, name: str, count: int, limit: int) -> None:
        self.name = name
        self.limit = limit  # most bytes of records in a batch
        self.partitions: list[TopicPartition] = []
        self.sticky = StickyPartitioner()
        self.grow(count)

    def grow(self, count: int) -> None:
        """The topic has so many partitions now."""
        self.partitions += [TopicPartition(self.name, number) for number in range(len(self.partitions), count)]

    def choose(self, partition: int | None, key: bytes | None, size: int) -> TopicPartition:
        """The partition of a record: the one given, that of its key, or the sticky one."""
        partitions = self.partitions
        if partition is not None:
            if not 0 <= partition < len(partitions):
                raise UsageError(
                    f"partition={partition}: topic {self.name!r} has {len(partitions)}, from 0 to {len(partitions) - 1}"
                )
            return partitions[partition]
        if key is not None:
            return partitions[partition_for_key(key, len(partitions))]
        return partitions[self.sticky.take(size, len(partitions), self.limit)]


class ProducerEngine:
    """Made on the loop."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self.cluster = Cluster(config)
        self.sender = Sender(self.cluster, config)
        self.accumulator = self.sender.accumulator
        self.manager: TransactionManager | None = None
        if config.transactional_id is not None:
            self.manager = TransactionManager(self.cluster, config, flush=self.sender.flush, wake=self.sender.wake)
            self.sender.identity = self.manager
            self.accumulator.check_send = self._check_send
        self.topics: dict[str, ProducerTopic] = {}
        self._metadata = asyncio.Event()
        self.cluster.watchers.append(self._learn)
        self.cluster.on_refusal = self.sender.be_refused

    def start(self) -> None:
        """Begins the work, on the running loop."""
        self.cluster.start()
        self.sender.start()

    async def close(self) -> None:
        """Ends it. What is under way may or may not be stored."""
        await self.sender.close()
        await self.cluster.close()

    def _learn(self) -> None:
        for name, topic in self.topics.items():
            if (info := self.cluster.topics.get(name)) is not None:
                topic.grow(info.partitions)
        self._metadata.set()

    async def topic(self, name: str, wanted: int = 1) -> ProducerTopic:
        """Waits for its metadata. UsageError: no topic is called so; KafkaError: it does not exist;
        KafkaConnectionError: nobody answers."""
        self.cluster.know_also([as_topic(name)])
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                if name in self.topics and len(self.topics[name].partitions) < wanted:
                    await self.cluster.unless_refused(self.cluster.refresh())
                await self.cluster.unless_refused(self._await_metadata(name))
                limit = await self._batch_limit(name)
        except TimeoutError:
            raise self._not_found(name) from None
        return self.topics.setdefault(name, ProducerTopic(name, self.cluster.topics[name].partitions, limit))

    async def _await_metadata(self, name: str) -> None:
        until = time.monotonic() + _CREATION_S
        while name not in self.cluster.topics:
            if (error := self.cluster.errors.get(name)) is not None:
                raise error
            if time.monotonic() > until and self.cluster.nodes and self.cluster.last_failure is None:
                raise self._not_found(name)
            self._metadata.clear()
            await self._metadata.wait()

    def _not_found(self, name: str) -> EquipoiseError:
        if name in self.cluster.topics:
            return KafkaConnectionError(f"no broker told the limits of topic {name!r} in {self.config.max_block_ms} ms")
        if self.cluster.nodes and self.cluster.last_failure is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {name!r} does not exist, and the cluster does not create it: create it, or mend the name",
            )
        why = self.cluster.last_failure or f"no broker of {self.config.bootstrap_servers} has answered"
        return KafkaConnectionError(f"{why} (tried for {self.config.max_block_ms} ms)")

    async def _batch_limit(self, topic: str) -> int:
        """So that neither we nor the broker find a batch too large."""
        most = min(self.config.batch_size, self.config.max_request_size, await self._max_message_bytes(topic))
        return max(1, most - HEADER_SIZE)

    async def _max_message_bytes(self, topic: str) -> int:
        resource = DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=["max.message.bytes"]
        )
        try:
            answer = await self.cluster.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse)
            ((found,),) = (result.configs for result in answer.results)
            return int(found.value or INT_MAX)
        except (EquipoiseError, ValueError):  # nobody need tell us; the broker then says which batch is too large
            return INT_MAX

    # -- transactions

    @property
    def transactions(self) -> TransactionManager:
        """UsageError: the producer has none."""
        if self.manager is None:
            raise UsageError("this producer has no transactions: set transactional.id, a name of its own")
        return self.manager

    def _check_send(self) -> None:
        """Of the transaction that the manager has now: another id has another."""
        self.transactions.transaction.check_send()

    async def send_offsets(self, offsets: OffsetsToCommit, group: ConsumerGroupMetadata | str) -> None:
        """A group by its name alone is not checked for members."""
        whole = {
            TopicPartition(*one): at if isinstance(at, OffsetAndMetadata) else OffsetAndMetadata(at)
            for one, at in offsets.items()
        }
        known = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self.transactions.send_offsets(whole, known)

    async def commit(self) -> None:
        """The error of a record comes back as that of the transaction."""
        try:
            await self.transactions.commit()
        finally:
            self.sender.unseen = None

    async def abort(self) -> None:
        """What has failed in the transaction does not count any more."""
        try:
            await self.transactions.abort()
        finally:
            self.sender.unseen = None

    async def abandon_transaction(self, timeout: float | None = None) -> None:
        """Aborts the transaction that is open at the end, if there is one; else it would hold up readers until
        transaction.timeout.ms (KafkaProducer.close). At the end of the seconds it is left to that time-out."""
        try:
            async with asyncio.timeout(timeout):
                await self.abort_open()
        except TimeoutError:
            log.warning("the open transaction could not be aborted within %g s", timeout)
        except EquipoiseError as error:
            log.warning("the open transaction could not be aborted: %s", error)

    @property
    def has_open_transaction(self) -> bool:
        """Whether close() aborts: that is also the end of all that was sent, which nobody then needs to store."""
        return self.manager is not None and self.manager.transaction.is_open

    async def abort_open(self) -> None:
        """If there is one. TransactionFatalError: it belongs to another producer."""
        if self.has_open_transaction:
            await self.abort()

    def take_unseen(self) -> EquipoiseError | None:
        """The first failure that nobody has been told of."""
        unseen, self.sender.unseen = self.sender.unseen, None
        return unseen


Text = bytes | str | None
Headers = tuple[tuple[str, bytes | None], ...]
GivenHeaders = Mapping[str, Text] | list[tuple[str, Text]] | tuple[tuple[str, Text], ...]


def prepare(
    config: ProducerConfig, value: Text, key: Text, *, timestamp: int | None, headers: GivenHeaders
) -> tuple[Row, int]:
    """A record, and the most bytes it can take. UsageError says what is wrong with it."""
    raw_key = key if key is None or type(key) is bytes else _raw(key)  # most keys and values are bytes: no call
    raw_value = value if value is None or type(value) is bytes else _raw(value)
    size = RECORD_OVERHEAD + len(raw_key or b"") + len(raw_value or b"")
    packed: Headers = ()
    if headers:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        packed = tuple((_header_name(name), _raw(content)) for name, content in pairs)
        size += sum(10 + 3 * len(name) + len(content or b"") for name, content in packed)
    if size + HEADER_SIZE > config.max_request_size:
        raise UsageError(
            f"the record takes {size + HEADER_SIZE} bytes, and max.request.size is {config.max_request_size}: "
            "raise it, and with it max.message.bytes of the topic"
        )
    at = int(time.time() * 1000) if timestamp is None else _milliseconds(timestamp)
    return (at, raw_key, raw_value, packed), size


def _milliseconds(timestamp: int) -> int:
    """Checked here, because whoever builds the batch can no longer tell the caller (ProducerRecord)."""
    try:
        number = operator.index(timestamp)
    except TypeError:
        kind = type(timestamp).__name__
        raise UsageError(f"timestamp={timestamp!r} is a {kind}: give milliseconds since 1970 as an int") from None
    if not 0 <= number <= LONG_MAX:
        raise UsageError(f"timestamp={number} is not from 0 to 2^63-1: give milliseconds since 1970, or leave it out")
    return number


def _header_name(name: str) -> str:
    if not isinstance(name, str):
        raise UsageError(f"{name!r} cannot be the name of a header: give text")
    encoded(name)
    return name


def encoded(text: str) -> bytes:
    """As UTF-8. UsageError: half of a surrogate pair has no place there."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!r} cannot be sent as UTF-8: {error}") from None


def _raw(given: Text) -> bytes | None:
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return encoded(given)
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise UsageError(f"{type(given).__name__} cannot be sent: give bytes or text, for instance json.dumps(...)")
