"""One member of a consumer group, its application, and a test that answers for the coordinator."""

from __future__ import annotations

import re
from typing import Any

from equipoise.assignors import Topic
from equipoise.member import (
    ConsumerMember,
    MemberConfig,
    SubscriptionPattern,
)
from equipoise.member.consumer.states import MemberState
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.member.alone import Alone

ME = "me"
INTERVAL, MAX_POLL, BACKOFF = 5_000, 300_000, 100
T, U = b"T" * 16, b"U" * 16  # ids of the topics t and u


def by_id(**numbers: tuple[int, ...]) -> list[HeartbeatTopicPartitions]:
    """by_id(T=(0, 1)): partitions of the topic with that id."""
    return [
        HeartbeatTopicPartitions(topic_id=name.encode() * 16, partitions=list(found)) for name, found in numbers.items()
    ]


class Lone(Alone[ConsumerMember]):
    def __init__(self, **config: Any) -> None:
        super().__init__(ConsumerMember(MemberConfig(group_id="g", **config), ME))

    # -- the application

    def subscribe(self, *topics: str, pattern: str | None = None, regex: str | None = None) -> Lone:
        given = None if pattern is None else re.compile(pattern)
        self.do(
            self.member.subscribe(topics, given if regex is None else SubscriptionPattern(regex), self.now),
        )
        return self

    def learn(self, *, covered: frozenset[str] | None = None, **topics: int) -> None:
        """Each topic has its capital letter for an id."""
        known = {name: Topic(count, topic_id=name.upper().encode() * 16) for name, count in topics.items()}
        self.do(self.member.learn(known, covered, self.now))

    def unsubscribe(self, *, leave: bool | None = None) -> None:
        self.do(self.member.unsubscribe(self.now, leave=leave))

    # -- the test as coordinator

    @property
    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that waits for an answer."""
        return self.expect(ConsumerGroupHeartbeatRequest)

    @property
    def state(self) -> MemberState:
        return self.member.state

    def answer(self, request: Message, response: Message) -> None:
        self.reply(request, response)

    def fail(self, request: Message) -> None:
        """There will be no answer."""
        self.lose(request)

    def beat(
        self,
        epoch: int = 1,
        *numbers: int,
        error: ErrorCode = ErrorCode.NONE,
        interval: int = INTERVAL,
        target: list[HeartbeatTopicPartitions] | None = None,
    ) -> None:
        """The answer to the heartbeat: numbers of partitions of the topic t, a whole target, or neither."""
        rows = by_id(T=numbers) if numbers else target
        response = ConsumerGroupHeartbeatResponse(
            error_code=error,
            member_id=None if error else ME,
            member_epoch=0 if error else epoch,
            heartbeat_interval_ms=0 if error else interval,
            assignment=None if rows is None else HeartbeatAssignment(topic_partitions=rows),
        )
        self.answer(self.heartbeat, response)

    def told_by_heartbeat(self, epoch: int, *numbers: int, **more: Any) -> None:
        """The next heartbeat leaves at its time, and is answered so."""
        if self.asked(ConsumerGroupHeartbeatRequest) is None:
            self.advance(INTERVAL)
        self.beat(epoch, *numbers, **more)

    # -- on the way

    def joining(self, *topics: str) -> Lone:
        """Up to its first heartbeat."""
        self.learn(t=6, u=2)
        self.subscribe(*topics or ("t",))
        self.poll()
        self.find()
        return self

    def stable(self, *numbers: int) -> Lone:
        """At epoch 1, with these partitions, all of it told and acknowledged."""
        self.joining()
        self.beat(1, *numbers, target=[])
        self.poll()
        self.beat(1)
        self.beat(1)  # the one behind the acknowledgement
        assert self.state is MemberState.STABLE
        self.told.clear()
        return self
