"""group.protocol=auto: a broker without consumer groups gets a classic member."""

from __future__ import annotations

from equipoise.assignors import assignor_named
from equipoise.member import ConsumerMember, Member, MemberConfig
from equipoise.member.fallback import fall_back, is_refused
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from equipoise.wire.consumer_protocol import decode_subscription
from equipoise.wire.errors import ErrorCode
from tests.member.consumer.lone import MAX_POLL, Lone

REFUSED = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


def classic() -> Member:
    return Member(MemberConfig(group_id="g", assignors=(assignor_named("range"),)))


def test_b2_4_a_refused_member_goes_on_as_a_classic_one() -> None:
    lone = Lone().joining("t", "u")
    assert is_refused(lone.member, REFUSED)
    member = classic()
    step = fall_back(lone.member, member, lone.now)
    (send,) = step.sends
    assert isinstance(send.request, JoinGroupRequest)
    assert decode_subscription(send.request.protocols[0].metadata).topics == ["t", "u"]
    assert member.next_deadline() == MAX_POLL  # the application's time runs on


def test_b2_4_a_pattern_of_the_consumer_goes_with_it() -> None:
    lone = Lone()
    lone.learn(t=3, x1=1, x2=1)
    lone.subscribe(pattern="x.*")
    lone.poll()
    lone.find()
    step = fall_back(lone.member, classic(), lone.now)
    (send,) = step.sends
    assert isinstance(send.request, JoinGroupRequest)
    assert decode_subscription(send.request.protocols[0].metadata).topics == ["x1", "x2"]


def test_b2_4_no_other_answer_makes_it_classic() -> None:
    joining = Lone().joining().member
    assert not is_refused(joining, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST))
    assert not is_refused(Lone().stable(0).member, REFUSED)


def test_b2_4_a_pattern_for_the_broker_has_no_classic_meaning() -> None:
    lone = Lone().subscribe(regex="t.*")
    lone.poll()
    lone.find()
    member: ConsumerMember = lone.member
    assert not is_refused(member, REFUSED)
