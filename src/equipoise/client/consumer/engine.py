"""The engine of a consumer, on its loop: the cluster, the membership in a group, the fetcher, and positions.

`Consumer` and `AsyncConsumer` call it. Any thread may call methods without `async`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from equipoise.client.consumer.config import EARLIEST, LATEST, ConsumerConfig
from equipoise.client.fetch.fetcher import Fetcher
from equipoise.client.fetch.subscription_state import SubscriptionState
from equipoise.client.group.committed_offsets import CommittedOffsetFetcher, Found
from equipoise.client.group.membership import Membership, now_ms
from equipoise.client.metadata.cluster import Cluster, Snapshot
from equipoise.client.metadata.leader_epochs import LogPosition
from equipoise.client.net.backoff import Backoff
from equipoise.client.net.lasting_warnings import LastingWarning, LastingWarnings
from equipoise.member import AnyMember, Callback, CallbackKind, Commit, OffsetAndMetadata, Step, TopicPartition
from equipoise.member.partitions import NOTHING, Owned
from equipoise.member.subscription import TopicPattern, TopicsOfInterest
from equipoise.wire.consumer_protocol import NO_GENERATION
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError

log = logging.getLogger(__name__)

OffsetsAndMetadata = Mapping[TopicPartition, OffsetAndMetadata]
_LOOK_AGAIN_S = 0.01
_UNMATCHED_S = 10.0  # a pattern may be there before its topics


class ConsumerEngine:
    """`wake` is called, by any thread, when a waiting poll should look again. Made on the loop."""

    def __init__(self, config: ConsumerConfig, wake: Callable[[], None]) -> None:
        self.config = config
        self.cluster = Cluster(config, self._learn)
        self.cluster.on_refusal = self._be_refused
        self.subscriptions = SubscriptionState()
        self.fetcher = Fetcher(self.cluster, config, self.subscriptions, wake)
        self.fetch_buffer = self.fetcher.fetch_buffer
        self.membership: Membership | None = None
        self.committed: CommittedOffsetFetcher | None = None
        if config.group_id is not None:
            self.membership = Membership(config, self.cluster, self._follow_member)
            self.committed = CommittedOffsetFetcher(self.membership)
        self.failure: KafkaError | None = None  # of looking for positions
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._lacking = asyncio.Event()
        self._seen: tuple[object, ...] = ()
        self._shared: Owned = NOTHING  # assigned by the group, as far as the application knows
        self._being_told: Owned = NOTHING  # newly assigned ones: sought in by a listener, but not read yet
        self._unmatched = LastingWarning(self._tell_unmatched, _UNMATCHED_S)
        self._absent = LastingWarnings(self._tell_absent)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins the work, on the running loop."""
        self.cluster.start()
        self.fetcher.start()
        self._task = asyncio.create_task(self._keep_positions())

    async def close(self) -> None:
        """Ends it. The group hears of it by `leave` alone."""
        self._unmatched.end()
        self._absent.keep(set())
        self.subscriptions.take_hand()
        if self.membership is not None:
            self.membership.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.fetcher.close()
        await self.cluster.close()

    def _learn(self, topics: Snapshot, wanted: TopicsOfInterest) -> None:
        for name in self.cluster.errors.keys() - self.cluster.only_looked_up:
            self.failure = self.cluster.errors[name]  # it may not be read, or cannot be: waiting is no help
            self._wake()
        self._absent.keep({str(one) for one in self.subscriptions.assigned() if _is_absent(one, topics)})
        if self.membership is not None:
            self.membership.learn(topics, wanted)
            self._look_for_matches()

    def _look_for_matches(self) -> None:
        with self.group.lock:
            subscription = self.member.subscription
            self._unmatched.set(subscription.pattern is not None and not subscription.topics)

    def _tell_unmatched(self, seconds: float) -> str:
        found = self.member.subscription.pattern
        pattern = "" if found is None else found.pattern
        return (
            f"no topic at {self.config.bootstrap_servers} has matched the pattern {pattern!r} for {seconds:.0f} s: "
            f"check it; topics are looked for every metadata.max.age.ms ({self.config.metadata_max_age_ms} ms)"
        )

    def _tell_absent(self, partition: str, seconds: float) -> str:
        return (
            f"{partition} is assigned, but its topic has had fewer partitions for {seconds:.0f} s: check the number; "
            "partitions are counted from 0"
        )

    # -- the group

    @property
    def group(self) -> Membership:
        """UsageError: there is none."""
        if self.membership is None:
            raise UsageError("this consumer has no group: set group.id, or use assign() and keep offsets yourself")
        return self.membership

    @property
    def member(self) -> AnyMember:
        """The pure member, for use under the lock of `group`."""
        return self.group.member

    def subscribe(self, topics: Iterable[str], pattern: TopicPattern | None) -> None:
        """Topics by name, or by a pattern."""
        self.group.act(lambda member, now: member.subscribe(topics, pattern, now))

    def begin_poll(self) -> None:
        """The application polls: its time begins anew."""
        if self.membership is not None:
            self.membership.act(lambda member, now: member.poll_begins(now))

    def end_poll(self, records: int) -> None:
        """The poll has returned so many records."""
        if self.membership is not None:
            with self.membership.lock:
                self.membership.member.poll_ends(now_ms(), records=records)

    def begin_callback(self) -> Callback | None:
        """What the application is to be told next. Its time runs while it listens."""
        if self.membership is None:
            return None
        with self.membership.lock:
            callback = self.membership.member.begin_callback()
            if callback is not None:
                self.membership.member.poll_ends(now_ms())
            if callback is not None and callback.kind is CallbackKind.ASSIGNED:
                self._being_told = callback.partitions
                self._shared |= callback.partitions
                self.subscriptions.assign(callback.partitions, held=True)
                self._loop.call_soon_threadsafe(self._lacking.set)  # the listener may ask for their positions
        return callback

    def callback_done(self, *, has_failed: bool = False) -> None:
        """The application has heard what `begin_callback` returned, or its listener has failed."""

        def act(member: AnyMember, now: int) -> Step:
            self._being_told = NOTHING
            return member.callback_done(now, has_failed=has_failed)

        self.group.act(act)
        self.begin_poll()

    def _be_refused(self) -> None:
        """TLS or the login is refused, for good: whoever waits hears of it at once."""
        if self.membership is not None:
            self.membership.act(self._give_up_commits)
        self._wake()

    def _give_up_commits(self, member: AnyMember, now: int) -> Step:
        if self.cluster.refusal is not None:
            member.commits.abandon(_as_kafka_error(self.cluster.refusal))
        return Step()

    def take_failure(self) -> EquipoiseError | None:
        """What poll() is to raise."""
        if self.cluster.refusal is not None:
            return self.cluster.refusal
        if self.membership is not None:
            with self.membership.lock:
                failure = self.membership.member.take_failure()
            if failure is not None:
                return failure
        failure, self.failure = self.failure, None
        return failure

    def _follow_member(self) -> None:
        """What the member may read has perhaps changed. Mostly it has not, and that must cost nothing.

        All under the lock: a thread that was overtaken between looking and doing would put back what was before."""
        member = self.member
        with self.group.lock:
            callbacks = tuple(member.callbacks)
            seen = member.assignment, callbacks, member.generation_id == NO_GENERATION, member.failure
            has_changed, self._seen = seen != self._seen, seen
            if has_changed:
                untold = [callback.partitions for callback in callbacks if callback.kind is CallbackKind.ASSIGNED]
                told, readable = member.assignment.difference(*untold), member.readable
                told |= self._being_told & member.assignment
                self.subscriptions.revoke(self._shared - told)
                self.subscriptions.assign(told - self._shared)
                self.subscriptions.hold(told - readable, readable)
                self._shared = told
        self._wake()
        if has_changed:
            self._loop.call_soon_threadsafe(self._lacking.set)

    # -- assigned by hand

    def assign(self, partitions: frozenset[TopicPartition]) -> None:
        """Exactly these partitions, without a group."""
        self.subscriptions.revoke(self.subscriptions.assigned() - partitions)
        self.subscriptions.assign(partitions)
        self._loop.call_soon_threadsafe(self._want, frozenset(one.topic for one in partitions))

    def _want(self, topics: frozenset[str]) -> None:
        self.cluster.subscribe_topics(topics)
        self._lacking.set()

    # -- positions

    async def _keep_positions(self) -> None:
        """Whatever has no position begins where the group has committed, or as auto.offset.reset says."""
        backoff, failures = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms), 0
        while True:
            self._lacking.clear()
            lacking = self.subscriptions.needs_position()
            if not lacking:
                await self._lacking.wait()
                continue
            try:
                await self._begin(lacking)
                failures = 0
            except EquipoiseError as error:
                log.debug("positions: %s", error)
                failures += 1
                if isinstance(error, KafkaError):
                    self.failure = error
                    self._wake()
                await asyncio.sleep(backoff.pause(failures))
            except Exception:  # a bug of ours: without positions nothing would be read, in silence
                log.exception("positions could not be looked for")
                failures += 1
                await asyncio.sleep(backoff.pause(failures))

    async def _begin(self, lacking: Mapping[TopicPartition, int]) -> None:
        found: Found = {} if self.committed is None else await self.committed.fetch(lacking)
        committed = {one: LogPosition(at.offset, at.leader_epoch) for one, at in found.items()}
        self.subscriptions.begin(lacking, committed)

    def seek_to_committed(self, partitions: Iterable[TopicPartition]) -> None:
        """Begins there, as after an assignment."""
        self.subscriptions.forget(partitions)
        self._loop.call_soon_threadsafe(self._lacking.set)

    async def position(self, partition: TopicPartition) -> int:
        """Waits until it is known. Raises why it never will be."""
        while (known := self.subscriptions.position(partition)) is None:
            failure = self.subscriptions.take_failure(partition)
            if failure is not None:
                raise failure
            await self.cluster.check_topics([partition.topic])
            await asyncio.sleep(_LOOK_AGAIN_S)
        return known

    async def fetch_committed(self, partitions: Iterable[TopicPartition]) -> Found:
        """What the group has committed of these partitions. Tries for ever."""
        self.group  # noqa: B018  raises where there is none
        assert self.committed is not None
        return await self.committed.fetch(partitions)

    async def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset at or behind each time; None: no record is as young."""
        return await self.fetcher.list_offsets(timestamps)

    async def beginnings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._ends(partitions, EARLIEST)

    async def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition."""
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: Iterable[TopicPartition], which: int) -> dict[TopicPartition, int]:
        found = await self.fetcher.list_offsets(dict.fromkeys(partitions, which))
        return {partition: offset for partition, offset in found.items() if offset is not None}

    # -- commits

    def commit(self, offsets: OffsetsAndMetadata, on_done: Callable[[Commit], None]) -> None:
        """`on_done` is called once, by any thread."""

        def act(member: AnyMember, now: int) -> Step:
            commit, step = member.commit(offsets, now)
            if commit.is_done:
                on_done(commit)
            else:
                commit.on_done = on_done
            return step

        self.group.act(act)
        if self.cluster.refusal is not None:
            self.group.act(self._give_up_commits)

    # -- leaving

    def unsubscribe(self) -> None:
        """Nothing is assigned any more, and the group goes on without the member. What the group has assigned is given
        up after on_revoked, which may commit its positions (ConsumerCoordinator.onLeavePrepare)."""
        if self.membership is None or not self.member.subscription.is_active:
            self.assign(frozenset())
        self._loop.call_soon_threadsafe(self._unmatched.end)
        if self.membership is not None:
            self.membership.act(lambda member, now: member.unsubscribe(now))

    def leave(self, leave: bool | None = None) -> None:
        """For good; by default a static member stays in the group, until its session ends or it is back."""
        if self.membership is not None:
            self.membership.act(lambda member, now: member.close(now, leave=leave))

    @property
    def has_left(self) -> bool:
        """Whether the coordinator has answered, or there is nobody to leave."""
        if self.membership is None or self.cluster.refusal is not None:
            return True
        with self.membership.lock:
            return self.membership.member.has_left

    def trouble(self, places: Iterable[TopicPartition] = ()) -> str:
        """For errors: why nothing came of these partitions."""
        why = self.cluster.last_failure or self.cluster.why_not_found(places)
        return str(why or "the cluster is reachable, the one that was asked did not answer")


def _as_kafka_error(error: EquipoiseError) -> KafkaError:
    return error if isinstance(error, KafkaError) else KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))


def _is_absent(partition: TopicPartition, topics: Snapshot) -> bool:
    topic = topics.get(partition.topic)
    return topic is not None and partition.partition >= topic.partitions


def too_late(what: str, seconds: float, engine: ConsumerEngine, places: Iterable[TopicPartition] = ()) -> KafkaError:
    """The error of a call whose time is up, which asked for these partitions."""
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT, f"{what} had no answer within {seconds:g} s: {engine.trouble(places)}"
    )
