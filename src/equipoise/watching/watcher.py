"""A watcher of one cluster: one look, or a stream of looks and events.

The source is the best that can be read: the journal of our broker, else the group metadata records of
`__consumer_offsets`, else questions alone. The reason why a better one is not used stands in the view.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from equipoise.client import Admin, AsyncConsumer, ConsumerRecord, TopicPartition
from equipoise.client.admin import ClusterDescription, TopicDescription
from equipoise.client.admin_groups import GroupListings
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.coordinator.placement import partition_for
from equipoise.views.model import BrokerView, ClusterView, GroupView, Ms, Source
from equipoise.watching.access import Access, Questions
from equipoise.watching.problems import Problems
from equipoise.watching.store import Store
from equipoise.watching.topic_reader import Take, first_times, follow, read_back, starts_of
from equipoise.wire.errors import EquipoiseError, KafkaError

JOURNAL_TOPIC, OFFSETS_TOPIC = "__rebalances", "__consumer_offsets"
_CLUSTER = "the cluster"
_BROKERS_GROUPS = "groups of broker "
_SIZES = "sizes of topics"
_AGES_S = 2.0  # patience with the oldest unread records
_MOST_AGES = 256  # partitions whose oldest unread record is looked at
_TOGETHER = 100  # groups that are asked about at once
_SIZES_MS = 60_000  # between two questions for the sizes of topics
_CLUSTER_MS = 30_000  # between two questions for brokers and topics
Answer = TypeVar("Answer")
Asking = Callable[[float], Coroutine[Any, Any, None]]


class Watched(NamedTuple):
    """What is watched, and how much of it."""

    group_ids: tuple[str, ...] | None = None  # None: all
    since: Ms | None = None  # how far back rebalances are read; None: not at all
    ages: bool = False  # whether the oldest unread records are looked at
    starts: bool = False  # whether the first offsets of partitions are asked for
    sizes: bool = False  # whether the bytes of topics are asked for


class Watcher:
    """Watches one cluster. `close` it, or use `watching`."""

    def __init__(self, access: Access, watched: Watched, now: Callable[[], Ms] | None = None) -> None:
        self.access = access
        self.watched = watched
        self.now = now or wall_time
        self._began = self.now()
        self.store = Store(Source.POLLING, self._began)
        self.cluster: ClusterDescription | None = None
        self.problems = Problems()
        self.answered: Ms | None = None  # when all questions were last answered
        self.is_answering = False  # whether those of the last round were
        self.poll_seconds: dict[str, float] = {}  # how long the last questions took, by API
        self.read_back: float | None = None  # the share of the past that was read, while it is read
        self._sized: Ms | None = None
        self._cluster_asked: Ms = self._began
        self._offered: set[str] = set()  # the sources that were there when one was chosen
        self._questions = Questions(access)
        self._topics: dict[str, TopicDescription] = {}
        self._source_ends: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._following: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._version = 0

    def close(self) -> None:
        """Closes all connections."""
        self._questions.close()

    # -- one look

    async def look(self) -> ClusterView:
        """Everything once, from the beginning. KafkaConnectionError: the cluster cannot be reached."""
        await self.begin()
        return self.view()

    async def begin(self) -> None:
        """The source is chosen, its past is read, all questions are asked. What they tell is in no view yet.
        KafkaConnectionError: the cluster cannot be reached."""
        await self._ask_cluster()
        if self.watched.since is not None:
            await self._read_past(self.watched.since)
            self.read_back = None
        await self.refresh()

    async def glance(self) -> ClusterView:
        """Groups and their states alone: what can be had at once."""
        await self._ask_cluster()
        await self.refresh_listings()
        return self.view()

    async def refresh(self) -> None:
        """Asks all questions again: groups and their members, commits, then ends."""
        await self.refresh_listings()
        wanted = self._wanted()
        for first in range(0, len(wanted), _TOGETHER):  # what a thousand groups answer at once takes much memory
            await self.refresh_groups(wanted[first : first + _TOGETHER])
        partitions = self.store.partitions()
        await self.refresh_offsets(partitions, LATEST)
        if self.watched.starts:
            await self.refresh_offsets(partitions, EARLIEST)
        if self.watched.ages:
            await self._look_at_ages(wanted)
        await self._refresh_sizes()
        await self.all_answered()

    # -- parts of a look, for `rounds`

    async def refresh_listings(self) -> None:
        """Which groups there are."""
        listed = await self._ask("ListGroups", list_groups)
        self.problems.had_all(_BROKERS_GROUPS)
        for node_id, error in listed.failures.items():
            self._note(f"{_BROKERS_GROUPS}{node_id}", error)
        is_all = self.watched.group_ids is None and not listed.failures
        self.store.take_listings(listed.groups, is_all=is_all)

    async def refresh_groups(self, names: Sequence[str]) -> None:
        """The members and commits of some groups."""
        described = await self._ask("DescribeGroups", lambda admin: admin.describe_groups(names))
        self.store.take_descriptions(described, self.now())
        await self._refresh_commits(names)

    async def refresh_offsets(
        self, places: Collection[tuple[str, int]], which: int, names: Collection[str] | None = None
    ) -> None:
        """The ends or the first offsets of partitions; the lag of these groups follows, or of all."""
        found: Mapping[TopicPartition, int | KafkaError] = {}
        if places:
            asked = {TopicPartition(*one): which for one in sorted(places)}
            found = await self._ask("ListOffsets", lambda admin: admin.list_offsets(asked))
        if which == LATEST:
            self.store.take_ends(found, self.now(), names)
        else:
            self.store.take_starts(found)

    async def look_around(self) -> None:
        """Whether there is a better source by now, and what changes seldom."""
        await self._look_for_a_source()
        await self._look_for_topics()
        await self._refresh_sizes()

    async def all_answered(self) -> None:
        """A round is over, and all of its questions were answered."""
        self.answered = self.now()
        self.is_answering = True
        self.problems.had(_CLUSTER)
        await self._announce()

    def failed(self, error: Exception) -> None:
        """A round has failed: the cluster is away, or says no."""
        self.is_answering = False
        self._note(_CLUSTER, error)

    def view(self, groups: Sequence[GroupView] | None = None) -> ClusterView:
        """What is known now; of groups what is given, or all of it."""
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
            groups=tuple(self.store.view(name, now) for name in self._wanted()) if groups is None else tuple(groups),
            source=self.store.source,
            as_of=now,
            problems=self.problems.all,
        )

    def group(self, group_id: str) -> GroupView:
        """One group as it is known now."""
        return self.store.view(group_id, self.now())

    @property
    def hears_commits(self) -> bool:
        """Whether the source that is followed tells of every commit: then only groups that commit are asked about."""
        is_following = self._following is not None and not self._following.done()
        return is_following and any(topic == OFFSETS_TOPIC for topic, _ in self._source_ends)

    @property
    def topics(self) -> dict[str, TopicDescription]:
        """The topics of the cluster, not older than half a minute while it is watched."""
        return self._topics

    def _wanted(self) -> list[str]:
        return self.store.group_ids if self.watched.group_ids is None else list(self.watched.group_ids)

    async def _ask_cluster(self) -> None:
        self.cluster = await self._questions.ask(Admin.cluster)
        self._topics = {one.name: one for one in await self._questions.ask(Admin.topics)}
        self._cluster_asked = self.now()

    async def _ask(self, api: str, question: Callable[[Admin], Answer]) -> Answer:
        began = time.monotonic()
        try:
            return await self._questions.ask(question)
        finally:
            self.poll_seconds[api] = time.monotonic() - began

    async def _refresh_commits(self, group_ids: Sequence[str]) -> None:
        if not group_ids:
            return
        self.store.asking(group_ids)
        found = await self._ask("OffsetFetch", lambda admin: admin.committed_of_groups(group_ids))
        for name, committed in found.items():
            if isinstance(committed, KafkaError):
                self._note(f"offsets of {name}", committed)
                self.store.not_answered(name)
            else:
                self.problems.had(f"offsets of {name}")
                self.store.take_committed(name, committed)

    async def _refresh_sizes(self) -> None:
        """Once a minute: a broker reads its disk for it. Who may not ask knows none."""
        is_fresh = self._sized is not None and self.now() - self._sized < _SIZES_MS
        if not self.watched.sizes or is_fresh:
            return
        self._sized = self.now()
        try:
            self.store.take_sizes(await self._ask("DescribeLogDirs", Admin.sizes))
            self.problems.had(_SIZES)
        except KafkaError as error:
            self._note(_SIZES, error)

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
                self.problems.had(f"records that {name} has not read")

    def _note(self, what: str, error: Exception) -> None:
        self.problems.note(what, error, f"it could not be read within {self.access.timeout:.0f} s")

    # -- the source

    async def _read_past(self, since: Ms) -> None:
        """From the best source that can be read."""
        self._offered = {JOURNAL_TOPIC, OFFSETS_TOPIC} & self._topics.keys()
        for source, topic in ((Source.JOURNAL, JOURNAL_TOPIC), (Source.OFFSETS_TOPIC, OFFSETS_TOPIC)):
            if topic not in self._topics:
                continue
            store = Store(source, self._began)
            store.take_topics(self._topics.values())
            try:
                await self._read_topic(store, topic, since)
            except (KafkaError, TimeoutError) as error:
                self._note(topic, error)
                continue
            self.problems.had(topic)
            if source is Source.JOURNAL and OFFSETS_TOPIC in self._topics:
                await self._read_commits_too(store, since)
            self.store, self._sized = store, None
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

            await read_back(consumer, starts, ends, noting, progress=self._has_read)
        store.seen_since = first[0] if is_cut and first else since
        self._source_ends = ends

    def _has_read(self, share: float) -> None:
        self.read_back = share

    async def _read_commits_too(self, store: Store, since: Ms) -> None:
        """The journal has no commits; how often a group commits, and its members' timeouts, are in the other topic."""
        ends, seen = self._source_ends, store.seen_since
        try:
            await self._read_topic(store, OFFSETS_TOPIC, since)
            self.problems.had(OFFSETS_TOPIC)
        except (KafkaError, TimeoutError) as error:
            self._note(OFFSETS_TOPIC, error)
            self._source_ends = {}
        self._source_ends, store.seen_since = ends | self._source_ends, seen

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
    async def live(self, interval: float, asking: Asking | None = None) -> AsyncIterator[None]:
        """After a first look: follows the source, and asks all questions again every `interval` seconds, or what
        `asking` chooses."""
        self._tasks = [asyncio.create_task((asking or self._refresh_for_ever)(interval))]
        self._follow_source()
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            for task in self._tasks:
                with suppress(asyncio.CancelledError):
                    await task

    async def _stop_following(self) -> None:
        """Waits until its connections are closed: a second cancellation would leave them open."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
            self._tasks.remove(following)

    def _follow_source(self) -> None:
        if self._source_ends:
            self._following = asyncio.create_task(self._follow())
            self._tasks.append(self._following)

    async def _look_for_a_source(self) -> None:
        """Where no group had ever been there was no topic to read; the first group makes it. Who commits before, makes
        `__consumer_offsets` alone: the journal comes later."""
        if self.watched.since is None or not await self._has_better_source():
            return
        await self._ask_cluster()
        await self._stop_following()
        await self._read_past(self.watched.since)
        self._follow_source()

    async def _has_better_source(self) -> bool:
        if self.store.source is not Source.OFFSETS_TOPIC:
            return self.store.source is Source.POLLING
        if JOURNAL_TOPIC in self._offered:
            return False  # it was there, and could not be read
        try:
            await self._questions.ask(lambda admin: admin.topic(JOURNAL_TOPIC))
        except KafkaError:
            return False
        return True

    async def _look_for_topics(self) -> None:
        """Topics and brokers come and go. A topic that is new has a name that records of `consumer` groups do not
        tell."""
        if self.store.has_nameless_topics or self.now() - self._cluster_asked >= _CLUSTER_MS:
            await self._ask_cluster()
            self.store.take_topics(self._topics.values())

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
                await self._look_for_topics()
                await self.refresh()
            except (EquipoiseError, OSError) as error:
                self.failed(error)
            pause = max(0.1, interval - (time.monotonic() - began))

    async def _follow(self) -> None:
        """The source from where it was read to; after a failure again, from the same place on."""
        take = _live_feeder(self.store)
        while True:
            with suppress(EquipoiseError):
                async with self.access.consumer() as consumer:
                    await self._follow_with(consumer, take)
            await asyncio.sleep(1.0)

    async def _follow_with(self, consumer: AsyncConsumer, take: Callable[[ConsumerRecord], bool]) -> None:
        news = asyncio.Event()

        def heard(record: ConsumerRecord) -> None:
            is_news = take(record)
            self._source_ends[TopicPartition(record.topic, record.partition)] = record.offset + 1
            if is_news:
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


def _live_feeder(store: Store) -> Callable[[ConsumerRecord], bool]:
    """Says whether a record is news for who looks on: a commit is none. Beside the journal only commits are read: it
    has its own word of rebalances."""

    def take(record: ConsumerRecord) -> bool:
        if record.topic == JOURNAL_TOPIC:
            _take_row(store, record)
            return True
        at = Ms(record.timestamp)
        if store.source is Source.JOURNAL:
            store.take_commit(record.key, record.value, at)
            return False
        return store.take_record(record.key, record.value, at) is not None

    return take


def _take_row(store: Store, record: ConsumerRecord) -> None:
    try:
        row: Any = json.loads(record.value or b"null")
    except ValueError:
        return  # not ours
    if isinstance(row, dict):
        store.take_journal(row)


def _take_record(store: Store, record: ConsumerRecord) -> None:
    store.take_record(record.key, record.value, Ms(record.timestamp))
