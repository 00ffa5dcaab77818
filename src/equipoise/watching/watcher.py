"""A watcher of one cluster: one look, or a stream of looks and events.

The source is the best that can be read: the journal of our broker, else the group metadata records of
`__consumer_offsets`, else questions alone. The reason why a better one is not used stands in the view.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from equipoise.client import Admin, AsyncConsumer, ConsumerRecord, TopicPartition
from equipoise.client.admin import ClusterDescription, TopicDescription
from equipoise.client.admin_groups import GroupListings
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.coordinator.placement import partition_for
from equipoise.views.model import BrokerView, ClusterView, GroupView, Ms, Problem, Source
from equipoise.watching.access import Access, Questions
from equipoise.watching.store import Store
from equipoise.watching.topic_reader import Take, first_times, follow, read_back, starts_of
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError

JOURNAL_TOPIC, OFFSETS_TOPIC = "__rebalances", "__consumer_offsets"
_AGES_S = 2.0  # patience with the oldest unread records
_MOST_AGES = 256  # partitions whose oldest unread record is looked at


class Watched(NamedTuple):
    """What is watched, and how much of it."""

    group_ids: tuple[str, ...] | None = None  # None: all
    since: Ms | None = None  # how far back rebalances are read; None: not at all
    ages: bool = False  # whether the oldest unread records are looked at
    starts: bool = False  # whether the first offsets of partitions are asked for


class Watcher:
    """Watches one cluster. `close` it, or use `watching`."""

    def __init__(self, access: Access, watched: Watched, now: Callable[[], Ms] | None = None) -> None:
        self.access = access
        self.watched = watched
        self.now = now or wall_time
        self._began = self.now()
        self.store = Store(Source.POLLING, self._began)
        self.cluster: ClusterDescription | None = None
        self.problems: list[Problem] = []
        self.answered: Ms | None = None  # when all questions were last answered
        self._questions = Questions(access)
        self._topics: dict[str, TopicDescription] = {}
        self._source_ends: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Condition()
        self._version = 0

    def close(self) -> None:
        """Closes all connections."""
        self._questions.close()

    # -- one look

    async def look(self) -> ClusterView:
        """Everything once, from the beginning: the source is chosen, its past is read, all questions are asked.
        KafkaConnectionError: the cluster cannot be reached."""
        await self._ask_cluster()
        if self.watched.since is not None:
            await self._read_past(self.watched.since)
        await self.refresh()
        return self.view()

    async def refresh(self) -> None:
        """Asks all questions again: groups and their members, commits, then ends."""
        listed = await self._questions.ask(list_groups)
        for node_id, error in listed.failures.items():
            self._note(f"groups of broker {node_id}", error)
        is_all = self.watched.group_ids is None and not listed.failures
        self.store.take_listings(listed.groups, is_all=is_all)
        wanted = self._wanted()
        self.store.take_descriptions(await self._questions.ask(lambda admin: admin.describe_groups(wanted)), self.now())
        for name in wanted:
            await self._refresh_commits(name)
        partitions = self.store.partitions()
        ends = await self._questions.ask(lambda admin: admin.list_offsets(dict.fromkeys(partitions, LATEST)))
        self.store.take_ends(ends, self.now())
        if self.watched.starts:
            starts = await self._questions.ask(lambda admin: admin.list_offsets(dict.fromkeys(partitions, EARLIEST)))
            self.store.take_starts(starts)
        if self.watched.ages:
            await self._look_at_ages(wanted)
        self.answered = self.now()
        await self._announce()

    def view(self) -> ClusterView:
        """What is known now."""
        cluster, now = self.cluster, self.now()
        brokers = [] if cluster is None else cluster.brokers
        return ClusterView(
            cluster_id=None if cluster is None else cluster.cluster_id,
            brokers=tuple(
                BrokerView(
                    node_id=one.node_id,
                    host=one.host,
                    port=one.port,
                    rack=one.rack,
                    is_controller=cluster is not None and one.node_id == cluster.controller_id,
                )
                for one in brokers
            ),
            groups=tuple(self.store.view(name, now) for name in self._wanted()),
            source=self.store.source,
            as_of=now,
            problems=tuple(self.problems),
        )

    def group(self, group_id: str) -> GroupView:
        """One group as it is known now."""
        return self.store.view(group_id, self.now())

    @property
    def topics(self) -> dict[str, TopicDescription]:
        """The topics of the cluster, as of the beginning."""
        return self._topics

    def _wanted(self) -> list[str]:
        return self.store.group_ids if self.watched.group_ids is None else list(self.watched.group_ids)

    async def _ask_cluster(self) -> None:
        self.cluster = await self._questions.ask(Admin.cluster)
        self._topics = {one.name: one for one in await self._questions.ask(Admin.topics)}

    async def _refresh_commits(self, group_id: str) -> None:
        try:
            found = await self._questions.ask(lambda admin: admin.committed_or_errors(group_id))
        except KafkaError as error:
            self._note(f"offsets of {group_id}", error)
        else:
            self.store.take_committed(group_id, found)

    async def _look_at_ages(self, group_ids: Sequence[str]) -> None:
        """By reading the record at each committed offset: who may not read the topic knows none. What is not read when
        the time for all groups is up stays unknown."""
        lagging = {name: places for name in group_ids if (places := self.store.unread(name))}
        if not lagging:
            return
        until = time.monotonic() + _AGES_S
        async with self.access.consumer(one_batch=True) as consumer:
            for name, places in lagging.items():
                some = dict(list(places.items())[:_MOST_AGES])
                try:
                    found = await first_times(consumer, some, max(0.0, until - time.monotonic()))
                except EquipoiseError as error:
                    self._note(f"records that {name} has not read", error)
                    return
                self.store.take_ages(name, found, self.now())

    def _note(self, what: str, error: Exception) -> None:
        code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        problem = Problem(what, code, str(error))
        if problem not in self.problems:
            self.problems.append(problem)

    # -- the source

    async def _read_past(self, since: Ms) -> None:
        """From the best source that can be read."""
        for source, topic in ((Source.JOURNAL, JOURNAL_TOPIC), (Source.OFFSETS_TOPIC, OFFSETS_TOPIC)):
            if topic not in self._topics:
                continue
            store = Store(source, self._began)
            try:
                await self._read_topic(store, topic, since)
            except KafkaError as error:
                self._note(topic, error)
                continue
            if source is Source.JOURNAL and OFFSETS_TOPIC in self._topics:
                await self._read_commits_too(store, since)
            self.store = store
            return

    async def _read_topic(self, store: Store, topic: str, since: Ms) -> None:
        partitions = self._partitions_of(topic)
        async with self.access.consumer() as consumer, asyncio.timeout(self.access.timeout):
            starts, ends, is_cut = await starts_of(consumer, partitions, since)
            first: list[Ms] = []
            take = _feeder(store, topic)

            def noting(record: ConsumerRecord) -> None:
                if not first:
                    first.append(Ms(record.timestamp))
                take(record)

            await read_back(consumer, starts, ends, noting)
        store.seen_since = first[0] if is_cut and first else since
        self._source_ends = ends

    async def _read_commits_too(self, store: Store, since: Ms) -> None:
        """The journal has no commits; how often a group commits, and its members' timeouts, are in the other topic."""
        ends, seen = self._source_ends, store.seen_since
        try:
            await self._read_topic(store, OFFSETS_TOPIC, since)
        except (KafkaError, TimeoutError) as error:
            self._note(OFFSETS_TOPIC, error)
        self._source_ends, store.seen_since = ends, seen

    def _partitions_of(self, topic: str) -> list[TopicPartition]:
        """All, or of `__consumer_offsets` those that keep the groups that are watched."""
        count = len(self._topics[topic].partitions)
        if topic == OFFSETS_TOPIC and self.watched.group_ids is not None:
            numbers: Iterable[int] = sorted({partition_for(name, count) for name in self.watched.group_ids})
        else:
            numbers = range(count)
        return [TopicPartition(topic, number) for number in numbers]

    # -- live

    @asynccontextmanager
    async def live(self, interval: float) -> AsyncIterator[None]:
        """After a first look: follows the source, and asks all questions again every `interval` seconds."""
        self._tasks = [asyncio.create_task(self._refresh_for_ever(interval))]
        self._follow_source()
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            for task in self._tasks:
                with suppress(asyncio.CancelledError):
                    await task

    def _follow_source(self) -> None:
        if self._source_ends:
            self._tasks.append(asyncio.create_task(self._follow()))

    async def _look_for_a_source(self) -> None:
        """Where no group had ever been there was no topic to read; the first group makes it."""
        if self.store.source is not Source.POLLING or self.watched.since is None:
            return
        await self._ask_cluster()
        await self._read_past(self.watched.since)
        self._follow_source()

    async def changed(self, since: int) -> int:
        """Waits until something is new since this version, and returns the version of now."""
        async with self._news:
            await self._news.wait_for(lambda: self._version != since)
            return self._version

    @property
    def version(self) -> int:
        """Counts what has been heard."""
        return self._version

    async def _announce(self) -> None:
        async with self._news:
            self._version += 1
            self._news.notify_all()

    async def _refresh_for_ever(self, interval: float) -> None:
        """A round that takes longer than its interval is followed at once by the next. A cluster that is away is asked
        again; what was known stays, with its age."""
        pause = interval
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            try:
                await self._look_for_a_source()
                await self.refresh()
            except (KafkaConnectionError, KafkaError) as error:
                self._note("the cluster", error)
            pause = max(0.1, interval - (time.monotonic() - began))

    async def _follow(self) -> None:
        """The source from where it was read to; after a failure again, from the same place on."""
        topic = JOURNAL_TOPIC if self.store.source is Source.JOURNAL else OFFSETS_TOPIC
        take = _feeder(self.store, topic)
        while True:
            with suppress(EquipoiseError):
                async with self.access.consumer() as consumer:
                    await self._follow_with(consumer, take)
            await asyncio.sleep(1.0)

    async def _follow_with(self, consumer: AsyncConsumer, take: Take) -> None:
        news = asyncio.Event()

        def heard(record: ConsumerRecord) -> None:
            take(record)
            self._source_ends[TopicPartition(record.topic, record.partition)] = record.offset + 1
            news.set()

        async def announce() -> None:
            while True:
                await news.wait()
                news.clear()
                await self._announce()

        telling = asyncio.create_task(announce())
        try:
            await follow(consumer, dict(self._source_ends), heard)
        finally:
            telling.cancel()


@asynccontextmanager
async def watching(access: Access, watched: Watched) -> AsyncIterator[Watcher]:
    """A watcher that is closed at the end."""
    watcher = Watcher(access, watched)
    try:
        yield watcher
    finally:
        watcher.close()


def wall_time() -> Ms:
    """Milliseconds since 1970."""
    return Ms(round(time.time() * 1000))


def list_groups(admin: Admin) -> GroupListings:
    """All groups; none, if no broker may list any but single groups may be described."""
    try:
        return admin.list_groups()
    except KafkaError as error:
        return GroupListings([], {-1: error})


def _feeder(store: Store, topic: str) -> Take:
    return partial(_take_row, store) if topic == JOURNAL_TOPIC else partial(_take_record, store)


def _take_row(store: Store, record: ConsumerRecord) -> None:
    try:
        row: Any = json.loads(record.value or b"null")
    except ValueError:
        return  # not ours
    if isinstance(row, dict):
        store.take_journal(row)


def _take_record(store: Store, record: ConsumerRecord) -> None:
    store.take_record(record.key, record.value, Ms(record.timestamp))
