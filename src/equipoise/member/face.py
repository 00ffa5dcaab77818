"""The face of a member, of whichever group protocol: what its runner calls and looks at.

Inputs are method calls with `now`, in milliseconds; each returns a Step of requests to send. The runner of a member
sends them, and reports the answers (`answered`) or their absence (`failed`). It calls `tick` at `next_deadline`, runs
`callbacks` in the application's thread, and then calls `callback_done`. `assignment` is what the application may read.
Same inputs, same outputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from equipoise.assignors import Cluster
from equipoise.member.commits import Commit, Commits, OffsetAndMetadata
from equipoise.member.config import MemberConfig
from equipoise.member.coordination import BrokerNode
from equipoise.member.partitions import Owned, TopicPartition
from equipoise.member.polls import Polls
from equipoise.member.step import Callback, Step
from equipoise.member.subscription import TopicPattern, TopicSubscription
from equipoise.wire.errors import KafkaError
from equipoise.wire.schema import Message


class AnyMember(Protocol):
    """`Member` of a classic group, or `ConsumerMember` of a consumer group."""

    config: MemberConfig
    subscription: TopicSubscription
    polls: Polls
    commits: Commits
    callbacks: deque[Callback]  # for the application, in this order
    assignment: Owned
    failure: KafkaError | None  # for the application, at its next poll

    # -- what it is

    @property
    def state(self) -> Enum:
        """One of the group protocol's states."""

    @property
    def member_id(self) -> str:
        """As the coordinator knows it; empty: not yet."""

    @property
    def generation_id(self) -> int:
        """The generation, or the member epoch; -1 outside the group."""

    @property
    def coordinator(self) -> BrokerNode | None:
        """The broker that coordinates the group; None: it is being looked for, or not needed."""

    @property
    def readable(self) -> Owned:
        """Of the assignment, what the application may be given records of."""

    @property
    def is_settled(self) -> bool:
        """Whether it has its share, has told of it, and is after no other."""

    @property
    def knows_share(self) -> bool:
        """Whether it has its share, and has told of it; it may be after another."""

    @property
    def is_finished(self) -> bool:
        """Whether it is out for good."""

    @property
    def has_left(self) -> bool:
        """Whether nothing is left to be told, sent or heard."""

    @property
    def heartbeat_interval_ms(self) -> int:
        """The time between two heartbeats."""

    @property
    def offset_fetch_identity(self) -> tuple[str | None, int]:
        """Member id and epoch for OffsetFetch; None and -1: the coordinator does not look at them."""

    # -- what the application does

    def subscribe(self, topics: Iterable[str], pattern: TopicPattern | None, now: int) -> Step:
        """The next poll joins. UsageError: the group protocol has no such pattern."""

    def poll_begins(self, now: int) -> Step:
        """The application is there, until `poll_ends`."""

    def poll_ends(self, now: int, *, records: int = 0) -> None:
        """The application goes, with so many records; its time begins."""

    def begin_callback(self) -> Callback | None:
        """What the application's thread is to run next, inside a poll."""

    def callback_done(self, now: int, *, has_failed: bool = False) -> Step:
        """It has run. `has_failed`: it raised an exception."""

    def enforce_rebalance(self, reason: str, now: int) -> Step:
        """The application wants a rebalance. UsageError: the group protocol has no such wish."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], now: int) -> tuple[Commit, Step]:
        """The outcome stands in the Commit."""

    def unsubscribe(self, now: int, *, leave: bool | None = None) -> Step:
        """Gives up all it has and leaves. `leave`: whether to tell the coordinator (KIP-1092)."""

    def close(self, now: int, *, leave: bool | None = None) -> Step:
        """As `unsubscribe`."""

    def take_failure(self) -> KafkaError | None:
        """To be raised by poll()."""

    # -- what the network and time do

    def learn(self, metadata: Cluster, covered: frozenset[str] | None, now: int) -> Step:
        """Metadata of the topics `covered` (None: of all), as `subscription` asks for it."""

    def answered(self, request: Message, response: Message, now: int) -> Step:
        """The answer to a request of a Step."""

    def failed(self, request: Message, now: int) -> Step:
        """No answer: the connection has broken, or the time is up."""

    def epoch_refused(self, now: int) -> Step:
        """OffsetFetch was refused for the member's epoch."""

    def next_deadline(self) -> int | None:
        """When to call `tick`; None: nothing waits for time."""

    def tick(self, now: int) -> Step:
        """What time brings about."""
