"""The part of `Consumer` and `AsyncConsumer` that needs no waiting."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, cast

from equipoise.client.arguments import as_integer, as_mapping, as_names, as_offset, as_seconds, as_timestamp, as_topic
from equipoise.client.consumer.config import EARLIEST, LATEST, ConsumerConfig
from equipoise.client.consumer.engine import ConsumerEngine
from equipoise.client.group.listener import RebalanceListener
from equipoise.client.net.loop_thread import forked
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.member import (
    Callback,
    CallbackKind,
    Commit,
    CommitFailedError,
    FencedInstanceIdError,
    OffsetAndMetadata,
    SubscriptionPattern,
    TopicPartition,
)
from equipoise.member.subscription import TopicPattern
from equipoise.settings import INT_MAX, kafka_name
from equipoise.wire.errors import KafkaError, UsageError

log = logging.getLogger(__name__)

Place = TopicPartition | tuple[str, int]
Places = Iterable[Place]
Offsets = dict[TopicPartition, OffsetAndMetadata]
OffsetsToCommit = Mapping[TopicPartition, int | OffsetAndMetadata]
OffsetCommitCallback = Callable[[KafkaError | None], None]  # told of the outcome
ARROW_RECORDS = 100_000  # in one table, unless more are asked for


def parse(config: Mapping[str, object] | None, keywords: Mapping[str, object]) -> ConsumerConfig:
    """Settings given as a mapping or as keywords, checked."""
    return ConsumerConfig.parse({**(config or {}), **{kafka_name(name): value for name, value in keywords.items()}})


class BaseConsumer:
    """One thread, or one task, at a time may use a consumer."""

    config: ConsumerConfig
    _running: ConsumerEngine  # until the consumer is closed, and a little longer

    def __init__(self, config: ConsumerConfig) -> None:
        self.config = config
        self._listener: RebalanceListener = RebalanceListener()
        self._by_hand = False
        self._is_closed = False
        self._process = os.getpid()
        self._in_use = threading.Lock()
        self._user = 0  # the thread that holds it, or held it last
        self._is_in_callback = False
        self._telling: int | None = None  # the thread that runs a callback of commit_async()
        self._commit_due = 0.0
        self._committed: dict[TopicPartition, int] = {}  # by auto-commit
        self._is_auto_committing = False  # one at a time: while no coordinator answers they would pile up
        self._leaves_at: float | None = None  # when close() or unsubscribe() is out of patience, also with commits

    @property
    def _engine(self) -> ConsumerEngine:
        """Every method needs it, so none works on a closed consumer: it would wait for ever, or do nothing in silence
        (Java's throws an IllegalStateException)."""
        if self._is_closed:
            raise UsageError("this consumer is closed: make a new one")
        if self._process != os.getpid():
            raise forked()
        return self._running

    # -- what to read

    def subscribe(
        self,
        topics: str | Iterable[str] | SubscriptionPattern | None = None,
        listener: RebalanceListener | None = None,
        *,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
    ) -> None:
        """Joins the group at the next poll, and shares these topics with its other members.

        Topics are given by name, or by a pattern (a name that begins with ^ is a pattern too). A pattern also matches
        topics that are created later. The consumer matches it against the beginnings of names; with
        group.protocol=consumer the broker matches a SubscriptionPattern against whole names.
        """
        engine = self._engine
        if isinstance(topics, SubscriptionPattern):
            topics, pattern = None, topics
        if self._by_hand:
            raise UsageError("this consumer has assigned itself partitions: unsubscribe() before subscribe()")
        names = _topic_names(topics)
        compiled = _pattern(names, pattern)
        if compiled is None and not names:
            raise UsageError("subscribe() to nothing: name topics or a pattern, or call unsubscribe()")
        self._listener = _checked_listener(listener)
        engine.subscribe(() if compiled is not None else names, compiled)

    def assign(self, partitions: Places) -> None:
        """Reads these partitions, and no others, without a membership. Replaces the previous assignment."""
        if self._engine.membership is not None and self._engine.member.subscription.is_active:
            raise UsageError("this consumer has subscribed: unsubscribe() before assign()")
        chosen = frozenset(map(as_partition, partitions))
        self._by_hand = bool(chosen)
        self._engine.assign(chosen)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned to this consumer now."""
        return self._engine.subscriptions.assigned()

    def subscription(self) -> frozenset[str]:
        """The subscribed topics; with a pattern, those that match; with a SubscriptionPattern, those assigned."""
        if self._engine.membership is None:
            return frozenset()
        subscription = self._engine.member.subscription
        return frozenset(one.topic for one in self.assignment()) if subscription.regex else subscription.topics

    @property
    def member_id(self) -> str:
        """The member id. The coordinator of a classic group gives it; before the first join it is empty."""
        return self._engine.member.member_id

    @property
    def generation_id(self) -> int:
        """The group's generation, or the member epoch, as this member knows it; -1 before the first join."""
        return self._engine.member.generation_id

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's place in its group, for `Producer.send_offsets` (KIP-447). It changes with each rebalance:
        ask for it in each transaction."""
        member = self._engine.member
        config = member.config
        return ConsumerGroupMetadata(config.group_id, member.generation_id, member.member_id, config.group_instance_id)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets behind what poll() has returned, or an iteration has yielded, of each assigned partition: what
        commit() would commit."""
        return self._engine.subscriptions.consumed()

    def seek_to_committed(self, *partitions: Place | Places) -> None:
        """The next poll() begins at the group's committed offsets, or where auto.offset.reset says. After an aborted
        transaction the same records are read again. Without partitions: of all."""
        self._engine.seek_to_committed(self._named(partitions))

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        """Rejoins a classic group, though nothing has changed. UsageError with group.protocol=consumer."""
        self._engine.group.act(lambda member, now: member.enforce_rebalance(reason, now))

    # -- where to read

    def seek(self, partition: Place, offset: int | OffsetAndMetadata) -> None:
        """Sets the offset at which the next poll begins."""
        place = as_partition(partition)
        at = as_offset(place, offset)
        self._engine.subscriptions.seek(place, at.offset, at.leader_epoch)

    def seek_to_beginning(self, *partitions: Place | Places) -> None:
        """Seeks to the first offset of these partitions, or of all."""
        self._engine.subscriptions.request_reset(self._named(partitions), EARLIEST)

    def seek_to_end(self, *partitions: Place | Places) -> None:
        """The next poll() reads what is written from now on. Without partitions: of all."""
        self._engine.subscriptions.request_reset(self._named(partitions), LATEST)

    def seek_to_time(self, timestamp: int | datetime, *partitions: Place | Places) -> None:
        """Seeks to the first record of that time (milliseconds since 1970, or a datetime) or later; else to the end."""
        self._engine.subscriptions.request_reset(self._named(partitions), as_timestamp(timestamp))

    def _times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        given = as_mapping("offsets_for_times()", timestamps)
        return {as_partition(place): as_timestamp(at) for place, at in given.items()}

    def pause(self, *partitions: Place | Places) -> None:
        """poll() returns nothing of these partitions, or of all, until resume(). The application must still call
        poll()."""
        self._engine.subscriptions.pause(self._named(partitions))

    def resume(self, *partitions: Place | Places) -> None:
        """Ends what `pause` began."""
        self._engine.subscriptions.resume(self._named(partitions))

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._engine.subscriptions.paused()

    def lag(self) -> dict[TopicPartition, int | None]:
        """Records between the position and the end of each assigned partition; None: not known yet."""
        subscriptions, committed_only = self._engine.subscriptions, self.config.isolation_level == "read_committed"
        return {one: subscriptions.lag(one, committed_only=committed_only) for one in subscriptions.assigned()}

    def _named(self, partitions: Sequence[Place | Places]) -> frozenset[TopicPartition]:
        """Partitions as arguments or in lists; all assigned if none is given, but nothing for an empty list."""
        if not partitions:
            return self._engine.subscriptions.assigned()
        return frozenset(as_partition(one) for given in partitions for one in _listed(given))

    # -- inside a poll

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._in_use.acquire(blocking=False):
            if self._is_in_callback and self._user == threading.get_ident():
                raise UsageError("poll(), unsubscribe() and close() cannot be called inside a rebalance listener")
            raise UsageError("another thread or task is using this consumer: give each its own, or take turns")
        self._user = threading.get_ident()
        try:
            yield
        finally:
            self._in_use.release()

    @property
    def _default_limit(self) -> float:
        return as_seconds("default.api.timeout.ms", self.config.default_api_timeout_ms / 1000)

    def _limit(self, timeout: float | None, work: Coroutine[Any, Any, object]) -> float:
        """Seconds that `work` may take. With a timeout that is none it is not begun."""
        try:
            return self._default_limit if timeout is None else as_seconds("timeout", timeout)
        except UsageError:
            work.close()
            raise

    def _raise_failure(self) -> None:
        failure = self._engine.take_failure()
        if failure is not None:
            raise failure

    def _check_use(self) -> None:
        if not self._by_hand and (self._engine.membership is None or not self._engine.member.subscription.is_active):
            raise UsageError("poll() has nothing to read: subscribe() to topics or assign() partitions first")

    def _begin_poll(self) -> None:
        self._check_use()
        if self._engine.subscriptions.hand is not None:
            self._engine.subscriptions.hand.finish()
        self._engine.begin_poll()
        is_due = self.config.enable_auto_commit and time.monotonic() >= self._commit_due
        if is_due and not self._is_auto_committing:
            self._commit_due = time.monotonic() + self.config.auto_commit_interval_ms / 1000
            self._auto_commit()

    def _patience(self, now: float) -> float | None:
        """Seconds that a commit may take; None: default.api.timeout.ms, which the member counts."""
        return None if self._leaves_at is None else round(max(self._leaves_at - now, 0.0), 1)

    def commit_async(self, offsets: OffsetsToCommit | None = None, on_done: OffsetCommitCallback | None = None) -> None:
        """Commits without waiting. `on_done` gets the error, or None. A blocking consumer's own thread mostly calls
        it. It must not wait: commit() raises UsageError there, commit_async() does not."""
        tell = on_done or _log_failure
        if not callable(tell):
            raise UsageError(f"{tell!r} cannot be called: give a function of one argument, the error or None")
        self._engine.commit(self._to_commit(offsets), lambda commit: self._tell(tell, commit.error))

    def _tell(self, on_done: OffsetCommitCallback, error: KafkaError | None) -> None:
        """Under the lock of the group: one thread at a time. An exception of the application is none of the member,
        which is in the middle of taking in an answer."""
        outer, self._telling = self._telling, threading.get_ident()
        try:
            on_done(error)
        except Exception:
            log.exception("the callback of commit_async() has failed")
        finally:
            self._telling = outer

    def _refuse_to_wait(self, what: str) -> None:
        """Inside the callback of a commit it would wait for ever: for the thread or the lock that it holds."""
        if self._telling == threading.get_ident():
            raise UsageError(
                f"{what} cannot be called inside a callback of commit_async(), which must not wait: use "
                "commit_async(), or call it when the callback has returned"
            )

    def _auto_commit(self) -> None:
        """Commits what earlier polls have returned and is not committed yet."""
        changed = self._uncommitted()
        if changed:
            self._is_auto_committing = True
            self._engine.commit(changed, lambda commit: self._auto_committed(changed, commit))

    def _uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """A record of an iteration that the application is at work on may yet fail: it is not committed."""
        positions = self._engine.subscriptions.consumed(processed=True)
        return {one: at for one, at in positions.items() if self._committed.get(one) != at.offset}

    def _auto_committed(self, positions: dict[TopicPartition, OffsetAndMetadata], commit: Commit) -> None:
        self._is_auto_committing = False
        if commit.error is None:
            self._committed |= {one: at.offset for one, at in positions.items()}
        elif isinstance(commit.error, CommitFailedError | FencedInstanceIdError):  # others have the partitions, or may
            log.warning("offsets were not committed, and will not be: %s", commit.error)
        else:
            log.warning("offsets could not be committed; the next commit will try again: %s", commit.error)

    def _forget(self, callback: Callback) -> None:
        if callback.kind is not CallbackKind.ASSIGNED:
            for partition in callback.partitions:
                self._committed.pop(partition, None)

    def _method(self, callback: Callback) -> Any:
        return getattr(self._listener, callback.kind.value)

    def _to_commit(self, offsets: OffsetsToCommit | None) -> Offsets:
        subscriptions = self._engine.subscriptions
        found = subscriptions.consumed() if offsets is None else self._checked(offsets)
        if subscriptions.hand is not None:
            subscriptions.hand.committed(found)
        return found

    def _checked(self, offsets: OffsetsToCommit) -> Offsets:
        places = {as_partition(place): at for place, at in as_mapping("commit()", offsets).items()}
        checked = {place: as_offset(place, at) for place, at in places.items()}
        bare = [place for place, at in places.items() if not isinstance(at, OffsetAndMetadata)]
        return checked | _with_epochs(bare, checked, self._engine.subscriptions.consumed(bare) if bare else {})


def as_partition(place: object) -> TopicPartition:
    """A partition that may be given as a plain tuple."""
    match place:
        case (str(topic), int(number)):
            index = as_integer(f"the number of a partition of {topic!r}", number, 0, INT_MAX)
            return TopicPartition(as_topic(topic), index)
    raise UsageError(f"{place!r} is no partition: give TopicPartition(topic, number), or a tuple of the two")


def _listed(given: Place | Places) -> Iterable[object]:
    """The elements of a list, a set or the like. A partition is a tuple too, of a topic and a number."""
    is_one = isinstance(given, str) or not isinstance(given, Iterable)
    return (given,) if is_one or (isinstance(given, tuple) and given and isinstance(given[0], str)) else given


def _log_failure(error: KafkaError | None) -> None:
    """The outcome of a commit that nobody waits for."""
    if error is not None:
        log.warning("offsets could not be committed: %s", error)


def _with_epochs(bare: Iterable[TopicPartition], wanted: Offsets, consumed: Offsets) -> Offsets:
    """A bare offset that equals the position is committed with the position's leader epoch."""
    return {one: consumed[one] for one in bare if one in consumed and consumed[one].offset == wanted[one].offset}


def _topic_names(given: object) -> list[str]:
    if isinstance(given, re.Pattern):
        raise UsageError(f"subscribe() takes names of topics: write subscribe(pattern={given!r})")
    names = [given] if isinstance(given, str) else as_names("subscribe()", () if given is None else given)
    if wrong := [name for name in names if not name or not _is_encodable(name)]:
        raise UsageError(f"subscribe() to {wrong[0]!r}: no topic is called so")
    return names


def _is_encodable(name: str) -> bool:
    """Half of a surrogate pair is not. The group would be joined with the name again and again."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked_listener(given: object) -> RebalanceListener:
    """Anything with its three methods, by which poll() and close() will call it."""
    listener = RebalanceListener() if given is None else given
    if isinstance(listener, type) or not all(callable(getattr(listener, kind.value, None)) for kind in CallbackKind):
        raise UsageError(f"{given!r} is no listener: give an object of a subclass of RebalanceListener")
    return cast(RebalanceListener, listener)


def _checked_pattern(given: object) -> TopicPattern | None:
    if given is None or isinstance(given, SubscriptionPattern):
        return given
    text = given.pattern if isinstance(given, re.Pattern) else given
    if not isinstance(text, str):
        raise UsageError(f"{given!r} is no pattern: give text, re.compile() of text, or SubscriptionPattern")
    if not text:
        raise UsageError("the pattern is empty, and would match every topic: write '.*' if you mean that")
    try:
        return re.compile(text) if isinstance(given, str) else cast("re.Pattern[str]", given)
    except re.error as error:
        raise UsageError(f"{given!r} is no regular expression: {error}") from None


def _pattern(names: list[str], pattern: str | TopicPattern | None) -> TopicPattern | None:
    """A name with ^ is a pattern, as in librdkafka; several patterns are joined."""
    patterns = [name for name in names if name.startswith("^")]
    if pattern is not None and names:
        raise UsageError("subscribe() takes topics or a pattern, not both")
    if patterns and len(patterns) < len(names):
        raise UsageError("subscribe() takes names or patterns (with ^), not both: give all as patterns")
    if patterns:
        pattern = "|".join(f"(?:{one})" for one in patterns)
    return _checked_pattern(pattern)
