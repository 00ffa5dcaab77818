"""Rule 9.1: what poll() sets going, in which order. Auto-commit and fetching are the consumer's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from equipoise.assignors import Assignments, Assignor, Cluster, Members, RebalanceProtocol
from equipoise.member import MemberState, TopicPartition
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest, JoinGroupResponseMember
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.solo import BACKOFF, MAX_POLL, ME, REQUEST, Solo, cooperative


def test_9_1_nothing_is_sent_before_the_first_poll() -> None:
    solo = Solo().subscribe("t")
    solo.advance(1_000_000)
    assert solo.silent


def test_9_1_a_poll_finds_the_coordinator_then_joins_then_syncs_and_tells_at_the_next_poll() -> None:
    solo = Solo().subscribe("t")
    solo.poll()
    assert solo.asked(FindCoordinatorRequest) is not None
    assert solo.asked(JoinGroupRequest) is None
    solo.find()
    assert solo.member.state is MemberState.PREPARING_REBALANCE
    solo.join()
    assert solo.member.state is MemberState.COMPLETING_REBALANCE
    solo.sync(0, 1)
    assert solo.member.state is MemberState.STABLE
    assert (solo.told, solo.member.readable) == ([], frozenset())
    solo.poll()
    assert (solo.told, solo.member.readable) == ([("on_assigned", places(0, 1))], places(0, 1))


def test_9_1_a_standalone_consumer_never_joins() -> None:
    solo = Solo()
    solo.poll()
    solo.advance(1_000_000)
    assert solo.silent


@pytest.mark.parametrize(("request_ms", "expected"), [(30_000, MAX_POLL + 5_000), (600_000, 600_000)])
def test_9_1_join_group_waits_for_the_rebalance_timeout_which_is_max_poll_interval(
    request_ms: int, expected: int
) -> None:
    solo = Solo(request_timeout_ms=request_ms).joining()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert (request.rebalance_timeout_ms, solo.timeouts[JoinGroupRequest]) == (MAX_POLL, expected)


def test_9_1_sync_group_has_the_request_timeout_and_without_answer_it_joins_again_with_its_member_id() -> None:
    solo = Solo().completing()
    assert solo.timeouts[SyncGroupRequest] == REQUEST
    solo.fail(SyncGroupRequest)
    solo.advance(BACKOFF)
    solo.find()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.member_id == ME


def test_9_1_a_pattern_waits_for_metadata_of_all_topics() -> None:
    solo = Solo().subscribe(pattern="t.*")
    solo.learn(covered=frozenset({"t"}), t=1)
    solo.poll()
    solo.find()
    assert solo.asked(JoinGroupRequest) is None
    solo.learn(t=1, tt=1, u=1)
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert decode_subscription(request.protocols[0].metadata).topics == ["t", "tt"]


def test_9_1_the_leader_assigns_to_all_when_it_knows_the_topics_of_all() -> None:
    solo = Solo()
    solo.learn(covered=frozenset({"t"}), t=2)
    solo.subscribe("t")
    solo.poll()
    solo.find()
    solo.join(members={ME: ["t"], "b-1": ["t", "u"]})
    assert solo.asked(SyncGroupRequest) is None
    assert solo.member.subscription.wanted == {"t", "u"}
    solo.learn(covered=frozenset({"t", "u"}), t=2, u=1)
    request = solo.asked(SyncGroupRequest)
    assert request is not None
    shares = {one.member_id: decode_assignment(one.assignment).assigned_partitions for one in request.assignments}
    assert shares == {ME: {"t": [0]}, "b-1": {"t": [1], "u": [0]}}


def test_9_1_a_follower_assigns_nothing_and_need_not_know_the_topics() -> None:
    solo = Solo().subscribe("t")
    solo.poll()
    solo.find()
    solo.join()
    request = solo.asked(SyncGroupRequest)
    assert request is not None
    assert (request.assignments, request.protocol_type, request.protocol_name) == ([], "consumer", "range")


def test_9_1_a_leader_told_to_skip_the_assignment_sends_none_but_watches_the_topics_of_all() -> None:
    solo = Solo(group_instance_id="i").joining()
    solo.join(members={ME: ["t"], "b-1": ["u"]}, skip_assignment=True)
    request = solo.asked(SyncGroupRequest)
    assert request is not None
    assert request.assignments == []
    solo.sync(0)
    solo.poll()
    solo.learn(t=3, u=5)
    assert solo.told[-1] == ("on_assigned", places(0))
    solo.poll()
    assert solo.asked(JoinGroupRequest) is not None


def test_9_1_a_cooperative_join_goes_on_between_polls_and_an_eager_one_waits_for_the_revocation() -> None:
    ours, eager = cooperative().stable(0), Solo().stable(0)
    for solo in (ours, eager):
        solo.told_to_rejoin()
    assert ours.asked(JoinGroupRequest) is not None
    assert eager.asked(JoinGroupRequest) is None
    eager.poll()
    assert eager.asked(JoinGroupRequest) is not None


def test_9_1_what_members_send_each_other_may_be_nonsense_and_poll_raises_it() -> None:
    solo = Solo().completing()
    solo.sync(assignment=b"\x00")
    solo.poll()
    assert solo.failure is not None
    assert "cannot be read" in str(solo.failure)
    solo.poll()
    assert solo.asked(JoinGroupRequest) is not None


def test_9_1_a_leader_names_the_member_whose_subscription_cannot_be_read_once_a_rebalance() -> None:
    """As Java: the leader raises, and the next poll joins again."""
    solo = Solo().joining()
    nonsense = JoinGroupResponseMember(member_id="odd-1", metadata=b"\x00", group_instance_id=None)
    for generation in (1, 2):
        solo.join(generation, leader=ME, members_given=[nonsense])
        assert solo.asked(SyncGroupRequest) is None
        solo.poll()
        assert "the subscription of member 'odd-1'" in str(solo.failure)
        solo.poll()
        assert solo.failure is None
    solo.join(3, members={ME: ["t"]})
    assert solo.asked(SyncGroupRequest) is not None


class Heedless(Assignor):
    """Gives everything to one member, whoever owns it."""

    name = "heedless"
    protocols = frozenset(RebalanceProtocol)
    to = ""

    def assign(self, cluster: Cluster, members: Members) -> Assignments:
        everything = {topic: list(range(known.partitions)) for topic, known in cluster.items()}
        return {one: Assignment(assigned_partitions=everything if one == self.to else {}) for one in members}


@pytest.mark.parametrize("to", [ME, "b-1", "c-1"])
def test_9_1_a_cooperative_assignor_must_not_give_what_another_member_owns(to: str) -> None:
    solo = Solo()
    assignor = Heedless()
    assignor.to = to
    solo.member.config = replace(solo.member.config, assignors=(assignor,))
    solo.joining()
    owned: dict[str, dict[str, list[int]]] = {ME: {}, "b-1": {"t": [0, 1]}, "c-1": {}}
    members = [
        JoinGroupResponseMember(
            member_id=one,
            metadata=encode_subscription(Subscription(topics=["t"], owned_partitions=mine, generation_id=1)),
            group_instance_id=None,
        )
        for one, mine in owned.items()
    ]
    solo.join(2, leader=ME, members_given=members)
    if to == "b-1":
        assert solo.asked(SyncGroupRequest) is not None
    else:
        assert solo.asked(SyncGroupRequest) is None
        solo.poll()
        assert "the assignor 'heedless' failed: it is COOPERATIVE, and gives t-0, t-1" in str(solo.failure)


def test_9_1_an_assignor_that_raises_is_named_by_poll_and_not_asked_again_before() -> None:
    solo = Solo()
    nothing: dict[TopicPartition, Any] = {}
    solo.member.config.assignors[0].assign = lambda cluster, members: nothing[TopicPartition("t", 0)]  # type: ignore[method-assign]
    solo.joining()
    solo.join(members={ME: ["t"]})
    solo.advance(20_000)
    assert solo.asked(SyncGroupRequest) is solo.asked(JoinGroupRequest) is None
    solo.poll()
    assert solo.failure is not None
    assert "the assignor 'range' failed" in str(solo.failure)
    assert isinstance(solo.failure.__cause__, KeyError)


def test_9_1_what_went_wrong_is_raised_once_and_the_next_poll_tries_again() -> None:
    solo = Solo().joining()
    solo.join(error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    solo.advance(20_000)
    assert solo.silent
    solo.poll()
    assert solo.failure is not None
    assert "group.max.size" in str(solo.failure)
    solo.poll()
    assert solo.failure is None
    assert solo.asked(JoinGroupRequest) is not None
