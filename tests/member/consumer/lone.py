"""One member of a consumer group, its application, and a test that answers for the coordinator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from equipoise.assignors import Topic
from equipoise.member import (
    Callback,
    Commit,
    ConsumerMember,
    MemberConfig,
    OffsetAndMetadata,
    Step,
    SubscriptionPattern,
    TopicPartition,
)
from equipoise.member.consumer.states import MemberState
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

Asked = TypeVar("Asked", bound=Message)
ME = "me"
INTERVAL, MAX_POLL, BACKOFF = 5_000, 300_000, 100
T, U = b"T" * 16, b"U" * 16  # ids of the topics t and u


def places(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def by_id(**numbers: tuple[int, ...]) -> list[HeartbeatTopicPartitions]:
    """by_id(T=(0, 1)): partitions of the topic with that id."""
    return [
        HeartbeatTopicPartitions(topic_id=name.encode() * 16, partitions=list(found)) for name, found in numbers.items()
    ]


class Lone:
    def __init__(self, **config: Any) -> None:
        self.now = 0
        self.member = ConsumerMember(MemberConfig(group_id="g", **config), ME)
        self.told: list[tuple[str, frozenset[TopicPartition]]] = []
        self.failure: KafkaError | None = None
        self.listener: Any = lambda callback: None
        self.sent: list[Message] = []  # all there ever was
        self._open: list[Message] = []

    def do(self, step: Step) -> None:
        for send in step.sends:
            self._open.append(send.request)
            self.sent.append(send.request)

    # -- time and the application

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while (deadline := self.member.next_deadline()) is not None and deadline <= end:
            self.now = max(deadline, self.now)
            self.do(self.member.tick(self.now))
            assert (self.member.next_deadline() or self.now + 1) > self.now, "it would tick for ever"
        self.now = end

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

    def poll(self, records: int = 0) -> None:
        self.do(self.member.poll_begins(self.now))
        try:
            while (callback := self.member.begin_callback()) is not None:
                self.run_listener(callback)
        finally:
            self.failure = self.member.take_failure()
            self.member.poll_ends(self.now, records=records)

    def during(self, kind: str, act: Callable[[], None]) -> None:
        """The listener acts when it is called for this."""

        def listen(callback: Callback) -> None:
            if callback.kind.value == kind:
                act()

        self.listener = listen

    def run_listener(self, callback: Callback) -> None:
        self.told.append((callback.kind.value, callback.partitions))
        self.member.poll_ends(self.now)
        has_failed = True
        try:
            self.listener(callback)
            has_failed = False
        finally:
            self.do(self.member.callback_done(self.now, has_failed=has_failed))

    def commit(self, **offsets: int) -> Commit:
        """Partitions of the topic t: commit(p0=5)."""
        wanted = {TopicPartition("t", int(key[1:])): OffsetAndMetadata(at) for key, at in offsets.items()}
        commit, step = self.member.commit(wanted, self.now)
        self.do(step)
        return commit

    def unsubscribe(self, *, leave: bool | None = None) -> None:
        self.do(self.member.unsubscribe(self.now, leave=leave))

    # -- the test as coordinator

    def asked(self, kind: type[Asked]) -> Asked | None:
        """The latest request of that kind which waits for an answer, if there is one."""
        found = [request for request in self._open if type(request) is kind]
        return found[-1] if found else None

    @property
    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that waits for an answer."""
        found = self.asked(ConsumerGroupHeartbeatRequest)
        assert found is not None, "no heartbeat waits for an answer"
        return found

    @property
    def silent(self) -> bool:
        return not self._open

    @property
    def state(self) -> MemberState:
        return self.member.state

    def answer(self, request: Message, response: Message) -> None:
        self._open.remove(request)
        self.do(self.member.answered(request, response, self.now))

    def fail(self, request: Message) -> None:
        """There will be no answer."""
        self._open.remove(request)
        self.do(self.member.failed(request, self.now))

    def find(self, error: ErrorCode = ErrorCode.NONE) -> None:
        found = Coordinator(key="g", node_id=1, host="h", port=1, error_code=error)
        request = self.asked(FindCoordinatorRequest)
        assert request is not None
        self.answer(request, FindCoordinatorResponse(coordinators=[found]))

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

    def committed(self, error: ErrorCode = ErrorCode.NONE) -> None:
        request = self.asked(OffsetCommitRequest)
        assert request is not None
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self.answer(request, OffsetCommitResponse(topics=topics))

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
