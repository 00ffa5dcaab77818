"""Validates positions with a new leader before anything is fetched from it, and follows a log that was truncated.

Kafka's own consumer does the same (OffsetFetcher.validatePositionsIfNeeded); leader_epochs.py has
the rules.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.fetch.subscription_state import (
    BY_POLICY,
    FetchFailure,
    LogTruncationError,
    SubscriptionState,
    TopicPartitionState,
    TopicReplacedError,
)
from equipoise.client.metadata.cluster import Cluster
from equipoise.client.metadata.leader_epochs import (
    EpochAnswers,
    EpochEnd,
    EpochQuestion,
    LogPosition,
    Truncation,
    find_truncation,
    is_recreated,
    needs_validation,
)
from equipoise.client.metadata.metadata import Leader
from equipoise.client.metadata.offset_for_leader_epoch import ask_epoch_ends
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import KafkaError

log = logging.getLogger(__name__)

_STALE_LOOKS = 12  # at metadata older than what was read, before a leader is asked all the same


class UnvalidatedPosition(NamedTuple):
    """A position that a leader is asked about, for which epoch of its reader. `number` is that of the request."""

    state: TopicPartitionState
    number: int
    epoch: int
    position: LogPosition
    leader: Leader

    @property
    def is_current(self) -> bool:
        """False if a seek or a new assignment has moved the position since it was asked about."""
        return self.state.epoch == self.epoch and self.state.fetch_position == self.position


UnvalidatedPositions = Mapping[TopicPartition, UnvalidatedPosition]


class Validation:
    """All under the lock of the positions, but for `ask`."""

    def __init__(self, subscriptions: SubscriptionState, cluster: Cluster, config: ConsumerConfig) -> None:
        self._subscriptions = subscriptions
        self._cluster = cluster
        self._has_policy = config.auto_offset_reset != "none"

    def is_valid(self, state: TopicPartitionState, leader: Leader) -> bool:
        """Whether the position may be fetched from this leader. If not, it is validated first."""
        if needs_validation(state.fetch_position, state.validated_epoch, leader.epoch):
            return False
        state.validated_epoch = leader.epoch
        return True

    def is_stale(self, state: TopicPartitionState, leader: Leader) -> bool:
        """Whether the metadata is older than what was read: that leader does not lead any more, and does not know it.

        Metadata that stays so is believed in the end: the epochs of a topic made anew begin at 0."""
        return leader.epoch < state.fetch_position.leader_epoch and state.failures < _STALE_LOOKS

    async def ask(self, node_id: int, unvalidated: UnvalidatedPositions) -> EpochAnswers:
        """What the leader says of these positions. KafkaConnectionError: it says nothing."""
        questions = {key: EpochQuestion(one.leader.epoch, one.position) for key, one in unvalidated.items()}
        return await ask_epoch_ends(self._cluster, node_id, questions)

    def complete(self, asked: UnvalidatedPosition, answer: EpochEnd | KafkaError) -> bool:
        """True if the application has something to hear (SubscriptionState.maybeCompleteValidation)."""
        if isinstance(answer, KafkaError):
            return self._fail(asked.state, FetchFailure(answer, passes=True))
        truncation = find_truncation(asked.position, answer)
        if truncation is not None:
            return self.truncated(asked.state, truncation)
        asked.state.validated_epoch, asked.state.failures = asked.leader.epoch, 0
        return False

    def truncated(self, state: TopicPartitionState, truncation: Truncation) -> bool:
        """The leader lacks records before the position. True if the application has something to hear.

        What is queued and not taken is dropped first: perhaps nothing is lost of what the application has seen."""
        if state.completed_fetches:
            self._subscriptions.drop_queued(state)
            return False
        (offset, _), divergent = truncation
        if not self._has_policy:
            return self._fail(state, FetchFailure(LogTruncationError(state.partition, truncation), passes=False))
        if divergent is None:
            self._look_up(
                state,
                "%s has lost records before offset %d, and its leader cannot tell from where on: auto.offset.reset "
                "decides where to go on",
                offset,
            )
        else:
            log.warning(
                "%s has lost offsets %d to %d, which were read already: its new leader never had them. Reading goes "
                "on at %d, with what stands there now. unclean.leader.election.enable=false prevents such losses",
                state.partition,
                divergent.offset,
                offset - 1,
                divergent.offset,
            )
            self._subscriptions.go_back(state, divergent)
        return False

    def check_topics(self) -> bool:
        """Whose topic is another one now, under the same name. True if the application has something to hear."""
        is_told = False
        for state in self._subscriptions.assignment.values():
            topic = self._cluster.topics.get(state.partition.topic)
            if topic is not None and is_recreated(state.topic_id, topic.topic_id):
                state.topic_id = topic.topic_id
                is_told |= self._recreated(state)
        return is_told

    def _recreated(self, state: TopicPartitionState) -> bool:
        if state.position is None:
            return False
        if not self._has_policy:
            error = TopicReplacedError(state.partition, state.position)
            self._subscriptions.look_up(state, BY_POLICY)
            return self._fail(state, FetchFailure(error, passes=False))
        self._look_up(
            state,
            "%s: its topic was deleted and created anew, so that offset %d means nothing any more: auto.offset.reset "
            "decides where to begin",
            state.position,
        )
        return False

    def _look_up(self, state: TopicPartitionState, words: str, offset: int) -> None:
        log.warning(words, state.partition, offset)
        self._subscriptions.look_up(state, BY_POLICY)

    def _fail(self, state: TopicPartitionState, failure: FetchFailure) -> bool:
        state.failure = failure
        state.reset = state.reset if failure.passes else None
        self._subscriptions.ready.setdefault(state.partition, state)
        return True
