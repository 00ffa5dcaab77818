"""group.protocol=auto: a member whose broker has no consumer groups goes on as a member of a classic group. Pure.

Rule B2.4 of docs/rules/consumer-members.md.
"""

from __future__ import annotations

from equipoise.member.classic.member import Member
from equipoise.member.consumer.member import ConsumerMember
from equipoise.member.consumer.states import MemberState
from equipoise.member.step import Step
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from equipoise.wire.errors import ErrorCode


def is_refused(member: ConsumerMember, response: ConsumerGroupHeartbeatResponse) -> bool:
    """Whether the broker has no consumer groups: it may name the API and refuse it all the same. A pattern for the
    broker to match has no meaning in a classic group."""
    is_first = member.state is MemberState.JOINING and not member.subscription.regex
    return is_first and response.error_code == ErrorCode.UNSUPPORTED_VERSION


def fall_back(refused: ConsumerMember, classic: Member, now: int) -> Step:
    """What the application has asked for, it has asked of the classic member. Its time runs on."""
    known = refused.subscription
    classic.polls = refused.polls
    classic.coordination.node = refused.coordinator
    first = classic.learn(known.metadata, known.covered, now)
    step = classic.subscribe(known.topics if known.pattern is None else (), known.pattern, now)
    step.sends[:0] = first.sends
    return step
