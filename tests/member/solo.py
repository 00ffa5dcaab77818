"""One member, its application, and a test that answers for the coordinator: nothing happens by itself."""

from __future__ import annotations

import re
from typing import Any

from equipoise.assignors import Topic, assignor_named
from equipoise.member import Member, MemberConfig
from equipoise.member.partitions import by_topic
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupResponse
from equipoise.wire.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.member.alone import Alone, Asked, places

ME = "a-1"
SESSION, HEARTBEAT, MAX_POLL, REQUEST, BACKOFF = 45_000, 3_000, 300_000, 30_000, 100


class Solo(Alone[Member]):
    def __init__(self, *assignors: str, **config: Any) -> None:
        named = tuple(assignor_named(one) for one in assignors or ("range",))
        super().__init__(Member(MemberConfig(group_id="g", assignors=named, **config)))

    # -- the application

    def subscribe(self, *topics: str, pattern: str | None = None) -> Solo:
        self.do(self.member.subscribe(topics, None if pattern is None else re.compile(pattern), self.now))
        return self

    def learn(self, *, covered: frozenset[str] | None = None, **topics: int | Topic) -> None:
        known = {name: Topic(one) if isinstance(one, int) else one for name, one in topics.items()}
        self.do(self.member.learn(known, covered, self.now))

    # -- the test as coordinator

    def asked(self, kind: type[Asked]) -> Asked | None:
        """The request of that kind which waits for an answer, if there is one; never two."""
        assert sum(type(request) is kind for request in self._open) <= 1, self._open
        return super().asked(kind)

    def answer(self, kind: type[Message], response: Message) -> None:
        self.reply(self.expect(kind), response)

    def fail(self, kind: type[Message]) -> None:
        """There will be no answer."""
        self.lose(self.expect(kind))

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
