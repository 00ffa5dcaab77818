"""Rules 9.9 and 9.10: what makes a member join again, and static members."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.assignors import Topic
from equipoise.member import MemberState
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from equipoise.wire.consumer_protocol import decode_subscription
from equipoise.wire.errors import ErrorCode
from tests.member.alone import places
from tests.member.solo import HEARTBEAT, ME, Solo, cooperative


def rejoins(solo: Solo) -> bool:
    solo.poll()
    return solo.asked(JoinGroupRequest) is not None


def leader(*topics: str, others: tuple[str, ...] = (), rack: str | None = None) -> Solo:
    solo = Solo(client_rack=rack).joining(*topics)
    solo.join(members={ME: topics or ("t",), **({"b-1": others} if others else {})})
    solo.sync(0)
    solo.beat()
    solo.poll()
    return solo


# -- 9.9: any member


def test_9_9_its_topics_have_changed() -> None:
    solo = Solo().stable(0)
    solo.subscribe("t", "u")
    assert rejoins(solo)
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert decode_subscription(request.protocols[0].metadata).topics == ["t", "u"]
    assert request.reason == "the subscription has changed"


def test_9_9_the_same_topics_once_more_are_no_change() -> None:
    solo = Solo().stable(0)
    solo.subscribe("t")
    assert not rejoins(solo)


def test_9_9_topics_that_match_its_pattern_have_come_or_gone() -> None:
    solo = Solo().subscribe(pattern="t.*")
    solo.learn(t=1, u=1)
    solo.poll()
    solo.find()
    solo.join()
    solo.sync(0)
    assert not rejoins(solo)
    solo.learn(t=1, u=1, v=1)
    assert not rejoins(solo)
    solo.learn(t=1, u=1, tt=1)
    assert rejoins(solo)


def test_9_9_a_change_while_it_joins_makes_it_join_once_more() -> None:
    solo = Solo().joining()
    solo.subscribe("u")
    solo.join()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert decode_subscription(request.protocols[0].metadata).topics == ["u"]


def test_9_9_the_application_wants_it() -> None:
    solo = Solo().stable(0)
    solo.do(solo.member.enforce_rebalance("a new machine", solo.now))
    assert rejoins(solo)
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.reason == "a new machine"


def test_9_9_a_long_reason_is_cut() -> None:
    solo = Solo().stable(0)
    solo.do(solo.member.enforce_rebalance("because " * 100, solo.now))
    assert rejoins(solo)
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.reason == ("because " * 100)[:255]


def test_9_9_a_consumer_without_subscription_cannot_want_it() -> None:
    solo = Solo()
    solo.do(solo.member.enforce_rebalance("nothing to share", solo.now))
    assert not rejoins(solo)
    assert solo.silent


@pytest.mark.parametrize(
    "error", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]
)
@pytest.mark.parametrize("api", ["heartbeat", "commit"])
def test_9_9_27_22_25_in_heartbeat_and_commit(api: str, error: ErrorCode) -> None:
    solo = Solo().stable(0)
    if api == "heartbeat":
        solo.advance(HEARTBEAT)
        solo.beat(error)
    else:
        solo.commit(p0=1)
        solo.committed(error)
    assert rejoins(solo)


def test_9_9_the_first_reason_stands() -> None:
    solo = Solo().stable(0)
    solo.told_to_rejoin()
    solo.subscribe("t", "u")
    assert rejoins(solo)
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert request.reason == "the group is rebalancing"


# -- 9.9: the leader


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"t": 3, "u": 2}, False),
        ({"t": 4, "u": 2}, True),
        ({"t": 3, "u": 3}, True),  # a topic of another member
        ({"t": 3}, True),
        ({"t": 3, "u": 2, "v": 1}, False),
    ],
)
def test_9_9_the_leader_watches_the_topics_of_all_members(change: dict[str, Any], expected: bool) -> None:
    solo = leader(others=("u",))
    solo.learn(**change)
    assert rejoins(solo) is expected


@pytest.mark.parametrize("change", [{"t": 4}, {}])
def test_9_9_a_follower_does_not(change: dict[str, Any]) -> None:
    solo = Solo().stable(0)
    solo.learn(**change)
    assert not rejoins(solo)


def test_9_9_a_leader_that_becomes_a_follower_watches_no_longer() -> None:
    solo = leader(others=("u",))
    solo.told_to_rejoin()
    solo.poll()
    solo.join(2)
    assert solo.member.subscription.wanted == {"t"}
    solo.sync(0)
    solo.poll()
    solo.learn(t=4, u=9)
    assert not rejoins(solo)


def test_9_9_a_topic_that_does_not_exist_yet_is_waited_for() -> None:
    solo = leader("t", "new")
    assert not rejoins(solo)
    solo.learn(t=3, u=2, new=1)
    assert rejoins(solo)


def test_9_9_a_change_between_assigning_and_its_answer_is_not_missed() -> None:
    solo = Solo().joining()
    solo.join(members={ME: ["t"]})
    solo.learn(t=4, u=2)
    solo.sync(0, 1, 2)
    assert rejoins(solo)


@pytest.mark.parametrize(("rack", "expected"), [("r1", True), (None, False)])
def test_9_9_racks_matter_to_a_leader_that_has_one(rack: str | None, expected: bool) -> None:
    solo = leader(rack=rack)
    solo.learn(t=Topic(3, ({"r1"}, {"r2"}, {"r1"})), u=2)
    assert rejoins(solo) is expected


def test_9_9_metadata_that_does_not_cover_the_topics_says_nothing() -> None:
    solo = leader(others=("u",))
    solo.learn(covered=frozenset({"t"}), t=3)
    assert not rejoins(solo)


# -- 9.9: after a revocation


def test_9_9_a_cooperative_member_that_has_revoked() -> None:
    solo = cooperative().stable(0, 1)
    solo.told_to_rejoin()
    solo.join(2)
    solo.sync(0)
    assert rejoins(solo)
    assert solo.told == [("on_revoked", places(1)), ("on_assigned", frozenset())]


# -- 9.10


def test_9_10_every_request_but_leave_group_carries_the_instance_id() -> None:
    solo = Solo(group_instance_id="i").joining()
    requests: list[JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | OffsetCommitRequest | None] = []
    requests.append(solo.asked(JoinGroupRequest))
    solo.join()
    requests.append(solo.asked(SyncGroupRequest))
    solo.sync(0)
    requests.append(solo.asked(HeartbeatRequest))
    solo.poll()
    solo.commit(p0=1)
    requests.append(solo.asked(OffsetCommitRequest))
    assert [request.group_instance_id for request in requests if request is not None] == ["i"] * 4


def test_9_10_a_static_member_is_given_its_id_with_the_first_answer_and_keeps_it() -> None:
    solo = Solo(group_instance_id="i").stable(0)
    solo.told_to_rejoin()
    assert rejoins(solo)
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert (request.member_id, request.group_instance_id) == (ME, "i")


def test_9_10_a_new_process_begins_without_a_member_id() -> None:
    solo = Solo(group_instance_id="i").joining()
    request = solo.asked(JoinGroupRequest)
    assert request is not None
    assert (request.member_id, request.group_instance_id) == ("", "i")
    assert solo.member.state is MemberState.PREPARING_REBALANCE
