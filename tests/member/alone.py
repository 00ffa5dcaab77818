"""One member of either group protocol, and its application. A test answers for the coordinator: nothing happens by
itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from equipoise.member import Callback, Commit, OffsetAndMetadata, Step, TopicPartition
from equipoise.member.face import AnyMember
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

Asked = TypeVar("Asked", bound=Message)
Kind = TypeVar("Kind", bound=AnyMember)


def places(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Alone(Generic[Kind]):
    def __init__(self, member: Kind) -> None:
        self.now = 0
        self.member = member
        self.told: list[tuple[str, frozenset[TopicPartition]]] = []
        self.failure: KafkaError | None = None
        self.listener: Any = lambda callback: None
        self.sent: list[Message] = []  # all there ever was
        self.timeouts: dict[type[Message], int] = {}
        self._open: list[Message] = []

    def do(self, step: Step) -> None:
        for send in step.sends:
            self._open.append(send.request)
            self.sent.append(send.request)
            self.timeouts[type(send.request)] = send.timeout_ms

    # -- time and the application

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while (deadline := self.member.next_deadline()) is not None and deadline <= end:
            self.now = max(deadline, self.now)
            self.do(self.member.tick(self.now))
            assert (self.member.next_deadline() or self.now + 1) > self.now, "it would tick for ever"
        self.now = end

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

    # -- the test as coordinator

    def asked(self, kind: type[Asked]) -> Asked | None:
        """The latest request of that kind which waits for an answer, if there is one."""
        found = [request for request in self._open if type(request) is kind]
        return found[-1] if found else None

    def expect(self, kind: type[Asked]) -> Asked:
        found = self.asked(kind)
        assert found is not None, f"no {kind.__name__} waits for an answer"
        return found

    @property
    def silent(self) -> bool:
        return not self._open

    def reply(self, request: Message, response: Message) -> None:
        self._open.remove(request)
        self.do(self.member.answered(request, response, self.now))

    def lose(self, request: Message) -> None:
        """There will be no answer."""
        self._open.remove(request)
        self.do(self.member.failed(request, self.now))

    def find(self, error: ErrorCode = ErrorCode.NONE, node_id: int = 1) -> None:
        found = Coordinator(key="g", node_id=node_id, host="h", port=1, error_code=error)
        self.reply(self.expect(FindCoordinatorRequest), FindCoordinatorResponse(coordinators=[found]))

    def committed(self, *errors: ErrorCode) -> None:
        """One for each partition, or one for all, or none at all."""
        request = self.expect(OffsetCommitRequest)
        codes = iter(errors if len(errors) > 1 else [*errors, ErrorCode.NONE][:1] * 100)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=next(codes))
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        self.reply(request, OffsetCommitResponse(topics=topics))
