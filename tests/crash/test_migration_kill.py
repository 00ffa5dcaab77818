"""Row 98 of the plan of tests: a rolling upgrade, member by member, and the broker is killed by SIGKILL at each write.

Once it is killed when a step is answered: what is described after the restart is what was described before. Once the
answer is there and lost with the broker, and once the broker is killed as soon as the request is sent: the member sends
again what a client sends, and is not fenced. The members keep their ids and epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from equipoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import Message
from tests.broker.calls import create_topic
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.crash.warm import WarmBroker

GROUP, TOPIC, PARTITIONS = "group", "topic", 6
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.lost.connection.grace.ms": 0,  # every request has a connection of its own
}
ANSWERED, ANSWER_LOST, AT_ONCE = MOMENTS = ("answered", "answer lost", "at once")
COOPERATIVE = "cooperative-sticky"
ROUNDS = 40


class Killed:
    """A broker that is killed at every step, at a moment of `MOMENTS`."""

    def __init__(self, directory: Path, moment: str) -> None:
        self._served = WarmBroker(directory / "data", directory / "log", SETTINGS)
        self._moment = moment
        self._was_lost = False  # the last answer: the next one is read
        self.is_killing = False
        self.kills = 0
        self.topic_id = b""

    @contextmanager
    def running(self) -> Iterator[Killed]:
        self._served.start()
        with RawClient(self._served.address) as client:
            self.topic_id = create_topic(client, TOPIC, PARTITIONS)
        try:
            yield self
        finally:
            self._served.close()

    def call(self, request: Message, version: int) -> Any:
        """None: the broker was killed, and whether it has done what was asked is not known."""
        with RawClient(self._served.address) as client:
            if not self.is_killing or self._was_lost:
                self._was_lost = False
                return client.call(request, version)
            if self._moment == ANSWERED:
                answer = client.call(request, version)
                before = self.describe()
                self._restart()
                assert self.describe() == before, "a restart has changed the group"
                return answer
            client.send(request, version)
            if self._moment == ANSWER_LOST:
                eventually(client.has_reply, "the broker has answered")
            self._was_lost = True
            self._restart()
            return None

    def _restart(self) -> None:
        self._served.kill()
        self._served.start()
        self.kills += 1
        eventually(lambda: self.describe() is not None, "the group is loaded")

    def describe(self) -> Any:
        """The group without what a restart may change; None while it is loaded."""
        with RawClient(self._served.address) as client:
            (group,) = client.call(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1).groups
        if group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return None
        members = {one.member_id: one for one in group.members}
        return (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, members)


class Guest:
    """A classic member. It rejoins when it is told to, and claims what it has."""

    def __init__(self, broker: Killed, name: str) -> None:
        self.broker, self.name = broker, name
        self.member_id, self.generation = "", -1
        self.owned: list[int] = []

    def _send(self, request: Message, version: int) -> Any:
        """Once more if the answer was lost."""
        return self.broker.call(request, version) or self.broker.call(request, version)

    def _join_request(self) -> JoinGroupRequest:
        claim = Subscription(topics=[TOPIC], owned_partitions={TOPIC: self.owned}, generation_id=self.generation)
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=COOPERATIVE, metadata=encode_subscription(claim))],
        )

    def join(self) -> None:
        """The lone member of a classic group leads it, and gives itself everything."""
        answer = self._send(self._join_request(), 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._send(self._join_request(), 9)
        assert answer.error_code == ErrorCode.NONE, answer
        self.generation = answer.generation_id
        self._sync(is_leader=answer.leader == self.member_id)

    def _sync(self, *, is_leader: bool) -> None:
        everything = encode_assignment(Assignment(assigned_partitions={TOPIC: list(range(PARTITIONS))}))
        given = [SyncGroupRequestAssignment(member_id=self.member_id, assignment=everything)] if is_leader else []
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=COOPERATIVE,
            assignments=given,
        )
        answer = self._send(request, 5)
        if answer.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert answer.error_code == ErrorCode.NONE, answer
            self.owned = sorted(decode_assignment(bytes(answer.assignment)).assigned_partitions.get(TOPIC, []))

    def live(self) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        answer = self._send(request, 4)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        else:
            assert answer.error_code == ErrorCode.NONE, answer

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
        answer = self._send(request, 5)
        assert answer.members[0].error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


class Modern:
    """A member with the consumer protocol. After an answer that was lost it says all it has to say."""

    def __init__(self, broker: Killed, name: str) -> None:
        self.broker, self.member_id = broker, name
        self.epoch, self.owned = 0, set[int]()
        self.must_say_all, self.must_ack = True, False

    def live(self) -> None:
        fields: dict[str, Any] = {}
        if self.must_say_all:
            fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
        if self.must_say_all or self.must_ack:
            rows = [HeartbeatTopicPartitions(topic_id=self.broker.topic_id, partitions=sorted(self.owned))]
            fields["topic_partitions"] = rows if self.owned else []
        answer = self._beat(self.epoch, **fields)
        self.must_say_all = answer is None
        if answer is None:
            self.live()
            return
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch, self.must_ack = answer.member_epoch, False
        if answer.assignment is not None:
            got = {number for row in answer.assignment.topic_partitions for number in row.partitions}
            self.owned, self.must_ack = got, got != self.owned

    def leave(self) -> None:
        answer = self._beat(-1) or self._beat(-1)
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)

    def _beat(self, epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=epoch, **fields)
        return self.broker.call(request, 1)


Members = list[Guest | Modern]


def settle(broker: Killed, members: Members) -> None:
    """All live until each partition has one owner and nobody has anything to do."""
    for _ in range(ROUNDS):
        for member in members:
            member.live()
            check(members)
        owned = sorted(number for member in members for number in member.owned)
        shares = [len(member.owned) for member in members]
        if owned == list(range(PARTITIONS)) and max(shares) - min(shares) <= 1 and _is_stable(broker):
            return
    raise AssertionError(f"not settled: {[(type(one).__name__, one.owned) for one in members]} {broker.describe()}")


def _is_stable(broker: Killed) -> bool:
    error, state, *_ = broker.describe()
    return bool(error == ErrorCode.GROUP_ID_NOT_FOUND or state == "Stable")


def check(members: Members) -> None:
    owned = [number for member in members for number in member.owned]
    assert len(owned) == len(set(owned)), f"a partition has two owners: {[one.owned for one in members]}"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rolling_upgrade_survives_a_kill_at_each_write(tmp_path: Path, moment: str) -> None:
    with Killed(tmp_path, moment).running() as broker:
        first, second = Guest(broker, "c1"), Modern(broker, "n1")
        first.join()
        settle(broker, [first])
        broker.is_killing = True
        settle(broker, [first, second])
        upgraded = broker.kills
        assert upgraded >= 5
        first.leave()
        third = Modern(broker, "n2")
        settle(broker, [second, third])
        broker.is_killing = False
        assert broker.kills >= upgraded + 2
        assert {len(second.owned), len(third.owned)} == {3}
        assert set(broker.describe()[4]) == {"n1", "n2"}
    assert "Traceback" not in (tmp_path / "log").read_text()
