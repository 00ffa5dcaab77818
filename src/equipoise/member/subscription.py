"""The subscription of a member: topics by name, a pattern that the member matches against all topics, or a pattern that
the broker matches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from equipoise.assignors import Cluster, Topic
from equipoise.wire.errors import UsageError
from equipoise.wire.schema import ZERO_UUID

TopicsOfInterest = frozenset[str] | None  # of which metadata is asked for; None: all of the cluster
EVERYTHING: TopicsOfInterest = None


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression that the broker matches against whole names of topics, in RE2 syntax; with
    group.protocol=consumer alone (KIP-848). It also matches internal topics."""

    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise UsageError("SubscriptionPattern(''): give an expression; the broker matches it against whole names")


TopicPattern = re.Pattern[str] | SubscriptionPattern


class TopicSubscription:
    """`watches_racks`: to a member without a rack it is no news that a replica has moved to another."""

    def __init__(self, *, watches_racks: bool = False) -> None:
        self._watches_racks = watches_racks
        self.pattern: re.Pattern[str] | None = None
        self.regex = ""  # for the broker to match; empty: there is none
        self.topics: frozenset[str] = frozenset()
        self._group_topics: frozenset[str] = frozenset()  # what all members want, as far as this one must know
        self._seen: dict[str, Topic] | None = None  # by the leader, when it assigned
        self.metadata: dict[str, Topic] = {}
        self._names: dict[bytes, str] = {}
        self.covered: TopicsOfInterest = frozenset()
        self.wanted_ids: frozenset[bytes] = frozenset()  # topics that are known by their ids alone

    @property
    def is_active(self) -> bool:
        """Whether there is anything to subscribe to, or a pattern."""
        return bool(self.topics) or self.pattern is not None or bool(self.regex)

    @property
    def wanted(self) -> TopicsOfInterest:
        """Topics whose metadata the member needs; EVERYTHING: all of the cluster."""
        return EVERYTHING if self.pattern is not None else self.topics | self._group_topics

    def to(self, topics: Iterable[str], pattern: TopicPattern | None) -> None:
        """Other topics, or another pattern."""
        self.regex = pattern.pattern if isinstance(pattern, SubscriptionPattern) else ""
        self.pattern = pattern if isinstance(pattern, re.Pattern) else None
        self.topics = frozenset(topics)
        self._match()

    def clear(self) -> None:
        """No topics and no pattern."""
        self.to((), None)
        self.forget()

    def forget(self) -> None:
        """A follower, or no member at all, need not watch what others subscribe to."""
        self._group_topics, self._seen = frozenset(), None

    # -- metadata

    def learn(self, metadata: Cluster, covered: TopicsOfInterest) -> None:
        """What is known now. Topics that were asked for and are not in it do not exist. With a pattern, internal topics
        are in it only if it may match them."""
        self.metadata = dict(metadata)
        self._names = {topic.topic_id: name for name, topic in metadata.items() if topic.topic_id != ZERO_UUID}
        self.covered = covered
        self._match()

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic with this id; None: the metadata has none."""
        return self._names.get(topic_id)

    def _match(self) -> None:
        if self.pattern is None:
            return
        self.topics = frozenset(name for name in self.metadata if self.pattern.match(name))

    def accepts(self, topics: Iterable[str]) -> bool:
        """Whether all are subscribed to. What matches the pattern may be known to the leader alone, so far."""
        unknown = set(topics) - self.topics
        return not unknown or (self.pattern is not None and all(map(self.pattern.match, unknown)))

    def adopt(self, topics: Iterable[str]) -> None:
        """Topics that the leader knew first count as subscribed to: when their metadata comes, nothing has changed
        (ConsumerCoordinator.maybeUpdateJoinedSubscription)."""
        self.topics |= frozenset(topics)

    @property
    def is_known(self) -> bool:
        """Whether there is metadata for all that is wanted."""
        if self.covered is None:
            return True
        return self.wanted is not None and self.wanted <= self.covered

    @property
    def can_assign(self) -> bool:
        """A leader must know the topics of all members; a follower none."""
        return not self._group_topics or self.is_known

    # -- the leader

    def lead(self, group_topics: frozenset[str]) -> None:
        """The member leads: it has to know the topics of all members (ConsumerCoordinator.onLeaderElected)."""
        self._group_topics = group_topics

    def group_metadata(self) -> dict[str, Topic]:
        """What the leader assigns from."""
        return {name: self.metadata[name] for name in sorted(self._group_topics) if name in self.metadata}

    def remember(self) -> None:
        """What this assignment is made from: when it changes, the group has to rebalance."""
        self._seen = self._snapshot()

    def _snapshot(self) -> dict[str, Topic]:
        topics = self.group_metadata()
        return topics if self._watches_racks else {name: Topic(topic.partitions) for name, topic in topics.items()}

    @property
    def has_changed(self) -> bool:
        """Whether the leader would assign from other metadata now (ConsumerCoordinator.rejoinNeededOrPending)."""
        return self._seen is not None and self.is_known and self._seen != self._snapshot()
