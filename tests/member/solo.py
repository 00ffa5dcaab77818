"""One member, its application, and a test that answers for the coordinator: nothing happens by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from equipoise.assignors import Topic, assignor_named
from equipoise.member import Callback, Commit, Member, MemberConfig, OffsetAndMetadata, Step, TopicPartition
from equipoise.member.partitions import by_topic
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message

Asked = TypeVar("Asked", bound=Message)
ME = "a-1"
SESSION, HEARTBEAT, MAX_POLL, REQUEST, BACKOFF = 45_000, 3_000, 300_000, 30_000, 100


def places(*numbers: int, topic: str = "t") -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


class Solo:
    def __init__(self, *assignors: str, **config: Any) -> None:
        named = tuple(assignor_named(one) for one in assignors or ("range",))
        self.now = 0
        self.member = Member(MemberConfig(group_id="g", assignors=named, **config))
        self.told: list[tuple[str, frozenset[TopicPartition]]] = []
        self.failure: KafkaError | None = None
        self.listener: Any = lambda callback: None
        self.timeouts: dict[type[Message], int] = {}
        self._open: list[Message] = []

    def do(self, step: Step) -> None:
        for send in step.sends:
            self._open.append(send.request)
            self.timeouts[type(send.request)] = send.timeout_ms

    # -- time and the application

    def advance(self, ms: int) -> None:
        end = self.now + ms
        while (deadline := self.member.next_deadline()) is not None and deadline <= end:
            self.now = max(deadline, self.now)
            self.do(self.member.tick(self.now))
            assert (self.member.next_deadline() or self.now + 1) > self.now, "it would tick for ever"
        self.now = end

    def subscribe(self, *topics: str, pattern: str | None = None) -> Solo:
        self.do(self.member.subscribe(topics, None if pattern is None else re.compile(pattern), self.now))
        return self

    def learn(self, *, covered: frozenset[str] | None = None, **topics: int | Topic) -> None:
        known = {name: Topic(one) if isinstance(one, int) else one for name, one in topics.items()}
        self.do(self.member.learn(known, covered, self.now))

    def poll(self, records: int = 0) -> None:
        self.do(self.member.poll_begins(self.now))
        while (callback := self.member.begin_callback()) is not None:
            self.run_listener(callback)
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
        self.listener(callback)
        self.do(self.member.callback_done(self.now))

    def commit(self, **offsets: int) -> Commit:
        """Partitions of the topic t: commit(p0=5)."""
        wanted = {TopicPartition("t", int(key[1:])): OffsetAndMetadata(at) for key, at in offsets.items()}
        commit, step = self.member.commit(wanted, self.now)
        self.do(step)
        return commit

    # -- the test as coordinator

    def asked(self, kind: type[Asked]) -> Asked | None:
        """The request of that kind which waits for an answer, if there is one."""
        found = [request for request in self._open if type(request) is kind]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def silent(self) -> bool:
        return not self._open

    def answer(self, kind: type[Message], response: Message) -> None:
        request = self.asked(kind)
        assert request is not None, f"no {kind.__name__} waits for an answer"
        self._open.remove(request)
        self.do(self.member.answered(request, response, self.now))

    def fail(self, kind: type[Message]) -> None:
        """There will be no answer."""
        request = self.asked(kind)
        assert request is not None
        self._open.remove(request)
        self.do(self.member.failed(request, self.now))

    def find(self, error: ErrorCode = ErrorCode.NONE, node_id: int = 1) -> None:
        found = Coordinator(key="g", node_id=node_id, host="h", port=1, error_code=error)
        self.answer(FindCoordinatorRequest, FindCoordinatorResponse(coordinators=[found]))

    def join(self, generation: int = 1, error: ErrorCode = ErrorCode.NONE, **fields: Any) -> None:
        """By default as a follower; members={id: topics} makes it the leader."""
        members = fields.pop("members", None)
        if members is not None:
            fields.setdefault("leader", ME)
            fields["members"] = [
                JoinGroupResponseMember(
                    member_id=one,
                    metadata=encode_subscription(Subscription(topics=list(topics))),
                    group_instance_id=None,
                )
                for one, topics in members.items()
            ]
        request = self.asked(JoinGroupRequest)
        assert request is not None
        given = {
            "throttle_time_ms": 0,
            "error_code": error,
            "generation_id": -1 if error else generation,
            "protocol_type": "consumer",
            "protocol_name": request.protocols[-1].name,
            "leader": "b-1",
            "skip_assignment": False,
            "member_id": ME,
            "members": fields.pop("members_given", []),
        }
        self.answer(JoinGroupRequest, JoinGroupResponse(**{**given, **fields}))

    def sync(self, *numbers: int, error: ErrorCode = ErrorCode.NONE, topic: str = "t", **fields: Any) -> None:
        request = self.asked(SyncGroupRequest)
        assert request is not None
        assignment = encode_assignment(Assignment(assigned_partitions=by_topic(places(*numbers, topic=topic))))
        given = {
            "error_code": error,
            "protocol_type": "consumer",
            "protocol_name": request.protocol_name,
            "assignment": b"" if error else assignment,
        }
        self.answer(SyncGroupRequest, SyncGroupResponse(**{**given, **fields}))

    def beat(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.answer(HeartbeatRequest, HeartbeatResponse(error_code=error))

    def left(self) -> None:
        self.answer(LeaveGroupRequest, LeaveGroupResponse(error_code=0, members=[]))

    def committed(self, *errors: ErrorCode) -> None:
        """One for each partition, or one for all, or none at all."""
        request = self.asked(OffsetCommitRequest)
        assert request is not None
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
        self.answer(OffsetCommitRequest, OffsetCommitResponse(topics=topics))

    # -- on the way

    def joining(self, *topics: str) -> Solo:
        """Up to its JoinGroup."""
        self.learn(t=3, u=2)
        self.subscribe(*topics or ("t",))
        self.poll()
        self.find()
        return self

    def completing(self, generation: int = 1) -> Solo:
        """Up to its SyncGroup."""
        self.joining()
        self.join(generation)
        return self

    def stable(self, *numbers: int, topics: tuple[str, ...] = ("t",)) -> Solo:
        """In generation 1, with these partitions, all of it told, and its first heartbeat answered."""
        self.joining(*topics)
        self.join()
        self.sync(*numbers)
        self.beat()
        self.poll()
        self.told.clear()
        return self

    def told_to_rejoin(self) -> None:
        self.advance(HEARTBEAT)
        self.beat(ErrorCode.REBALANCE_IN_PROGRESS)


def cooperative(**config: Any) -> Solo:
    return Solo("cooperative-sticky", **config)
