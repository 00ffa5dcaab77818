"""Rules C3 to C6: requests to an incremental group, and who is called."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.incremental.calls import PATIENCE_MS
from equipoise.coordinator.reasons import Departure
from equipoise.wire.errors import ErrorCode
from tests.consumer_guests.mixed import TOPIC_ID
from tests.incremental.stage import Kept
from tests.spec.context import REBALANCE, SESSION

NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


# -- C3: data


def test_c3_1_epochs_may_lag_behind_for_ever() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    b.leave()
    ctx.advance(1)
    assert a.told is REJOIN
    a.again()
    assert a.got() == set(range(6))
    c = ctx.entered("c")
    assert (a.generation_id, c.generation_id) == (2, 3)
    c.leave()
    ctx.advance(1)
    assert (a.told, a.generation_id, ctx.consumer_group.group_epoch, ctx.word) == (NONE, 2, 4, "Stable")


def test_c3_2_ids_are_given_out_and_remembered() -> None:
    ctx = Kept()
    ctx.members("a")
    b = ctx.guest("b")
    reply = b.join("").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "b-2")
    assert ctx.kept.pending_members == {"b-2"}
    assert ctx.guest("x").join("x-9").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.join("b-2", instance="i").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert b.join("b-2").error is NONE
    assert ctx.kept.pending_members == set()


def test_c3_2_an_id_that_is_not_used_is_forgotten() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    ctx.guest("b").join("")
    for _ in range(3):
        ctx.advance(SESSION // 2)
        a.heartbeat()
    assert ctx.kept.pending_members == set()
    assert ctx.guest("b").join("b-2").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_c3_2_an_id_that_is_not_used_may_leave() -> None:
    ctx = Kept()
    ctx.members("a")
    b = ctx.guest("b")
    b.join("")
    assert b.leave().member_errors == [NONE]
    assert ctx.kept.pending_members == set()


def test_c3_4_the_coordinator_watches_topics() -> None:
    ctx = Kept(partitions=4)
    a, b = ctx.members("a", "b")
    ctx.add_partitions(1)
    ctx.advance(1)
    told = [one.told for one in (a, b)]
    assert sorted(told) == [NONE, REJOIN]
    gainer = (a, b)[told.index(REJOIN)]
    gainer.again()
    assert len(gainer.got()) == 3


# -- C4: JoinGroup


def test_c4_1_who_has_nothing_to_give_up_gets_the_group_epoch() -> None:
    ctx = Kept()
    a, _ = ctx.members("a", "b")
    assert a.generation_id == 1
    c = ctx.entered("c")
    assert c.generation_id == ctx.consumer_group.group_epoch == 2


def test_c4_1_who_has_something_to_give_up_stays_at_its_generation() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    ctx.entered("b")
    assert a.again().reply.generation_id == 1
    assert a.got() == {0, 1, 2}
    assert ctx.consumer_group.members[a.member_id].state is MemberState.UNREVOKED_PARTITIONS
    assert a.again().reply.generation_id == 2


def test_c4_1_the_answer_waits_for_the_disk() -> None:
    ctx = Kept()
    ctx.members("a")
    ctx.hold_writes()
    b = ctx.guest("b")
    b.join("")
    call = b.join()
    assert call.is_parked
    ctx.durable()
    assert call.error is NONE


def test_c4_2_what_is_not_claimed_is_free_at_once() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    a.again(owned={0, 1, 2})
    assert b.got() == {3, 4, 5}


def test_c4_2_what_is_claimed_at_an_old_generation_is_kept() -> None:
    """The answer to its JoinGroup was lost: it still has what it had."""
    ctx = Kept()
    (a,) = ctx.members("a")
    ctx.entered("b")
    first = a.again().reply
    a.offer(generation_id=-1)
    second = a.join().reply
    assert (first.generation_id, second.generation_id) == (1, 1)
    member = ctx.consumer_group.members[a.member_id]
    assert sorted(number for _, number in (*member.assigned, *member.revoking)) == [*range(6)]


def test_c4_2_claims_beyond_its_own_are_ignored() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    a.again(owned=range(6))
    assert a.got() == {0, 1, 2}
    assert b.told is NONE


def test_c4_3_nobody_leads() -> None:
    ctx = Kept()
    ctx.members("a", "b")
    c = ctx.guest("c")
    c.join("")
    reply = c.join().reply
    assert (reply.leader, reply.members, reply.protocol_name, reply.protocol_type, reply.skip_assignment) == (
        "",
        [],
        "cooperative-sticky",
        "consumer",
        False,
    )


def test_c4_11_a_rejoin_that_changes_nothing_changes_nothing() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    before = ctx.consumer_group.group_epoch, dict(ctx.consumer_group.targets)
    assert a.again().reply.generation_id == 1
    assert a.got() == {0, 1, 2}
    assert (b.told, a.told, ctx.word) == (NONE, NONE, "Stable")
    assert (ctx.consumer_group.group_epoch, ctx.consumer_group.targets) == before


# -- C4: SyncGroup


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_name": "range"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_c4_4_sync_checks(other: dict[str, object], error: ErrorCode) -> None:
    ctx = Kept()
    a, _ = ctx.members("a", "b")
    a.again()
    assert a.sync(**other).error is error  # type: ignore[arg-type]


def test_c4_4_sync_is_never_told_to_rejoin_because_of_others() -> None:
    ctx = Kept()
    a, _ = ctx.members("a", "b")
    a.again()
    ctx.entered("c")
    assert a.got() == {0, 1, 2}


def test_c4_5_who_claims_something_is_answered_at_once() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    c = ctx.entered("c")
    c.sync()
    b.again()
    assert b.got() < {3, 4, 5}
    assert a.again().error is NONE


def test_c4_6_a_newcomer_waits_until_all_is_free() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    c = ctx.entered("c")
    call = c.sync()
    assert call.is_parked
    a.yield_up()
    assert call.is_parked
    b.yield_up()
    assert len(c.late(call)) == 2
    assert ctx.word == "Stable"


def test_c4_6_it_does_not_wait_for_ever() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b", session=30_000)
    c = ctx.entered("c", session=30_000)
    call = c.sync()
    a.yield_up()
    ctx.advance(PATIENCE_MS - 1)
    assert call.is_parked
    ctx.advance(1)
    assert len(c.late(call)) == 1
    assert c.told is NONE
    b.yield_up()
    assert c.told is REJOIN
    c.again()
    assert len(c.got()) == 2


def test_c4_6_the_limit_is_a_third_of_a_short_session() -> None:
    ctx = Kept()
    ctx.members("a")
    call = ctx.entered("b", session=6_000).sync()
    ctx.advance(2_000)
    assert call.error is NONE


def test_c4_7_a_parked_sync_mutes_nobody() -> None:
    ctx = Kept()
    ctx.members("a")
    b = ctx.entered("b")
    first = b.sync()
    assert b.told is NONE
    second = b.sync()
    assert (first.error, second.is_parked) == (REJOIN, True)
    b.again(owned=())
    assert second.error is REJOIN
    third = b.sync()
    assert b.leave().member_errors == [NONE]
    assert third.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_c4_8_heartbeat_checks() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    assert a.heartbeat(generation_id=9).error is ErrorCode.ILLEGAL_GENERATION
    assert a.heartbeat(member_id="x").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (a.told, b.told) == (NONE, NONE)


def test_c4_9_commits_of_a_generation_before_are_accepted_for_what_it_still_has() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    b.leave()
    ctx.advance(1)
    a.again()
    a.got()
    assert (a.generation_id, ctx.consumer_group.members[a.member_id].member_epoch) == (2, 2)
    assert a.commit({0: 5}, generation_id=1, topic_id=TOPIC_ID).error is NONE
    assert a.commit({3: 5}, generation_id=1, topic_id=TOPIC_ID).error is ErrorCode.ILLEGAL_GENERATION
    assert a.commit({0: 5}, generation_id=3, topic_id=TOPIC_ID).error is ErrorCode.ILLEGAL_GENERATION
    assert ctx.commit({0: 5}).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_c4_9_never_told_to_rejoin() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    ctx.entered("b")
    assert a.told is REJOIN
    assert a.commit({5: 9}, topic_id=TOPIC_ID).error is NONE
    a.again()
    assert a.commit({5: 10}, topic_id=TOPIC_ID).error is NONE


def test_c4_10_who_leaves_wakes_who_waits() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    call = b.sync()
    a.leave()
    ctx.advance(1)
    assert b.late(call) == set(range(6))


def test_c4_12_sync_tells_what_it_has_though_the_target_has_moved_on() -> None:
    ctx = Kept()
    a, _ = ctx.members("a", "b")
    a.again()
    ctx.entered("c")
    assert a.got() == {0, 1, 2}
    assert a.told is REJOIN


# -- C5: who is called


def test_c5_1_losers_are_called_at_once_and_others_never() -> None:
    ctx = Kept()
    a, b, c = ctx.members("a", "b", "c")
    held = [one.heartbeat(hold_ms=3_000) for one in (a, b, c)]
    ctx.entered("d").sync()
    assert [call.is_parked for call in held] == [True, True, False]
    assert held[2].error is REJOIN
    c.again()
    c.got()
    c.again()
    assert len(c.got()) == 1
    assert [one.joins for one in (a, b, c)] == [2, 2, 4]
    assert (ctx.word, [call.is_parked for call in held]) == ("Stable", [True, True, False])


def test_c5_2_who_gives_up_is_reminded_after_a_while() -> None:
    ctx = Kept()
    (a,) = ctx.members("a", session=30_000)
    ctx.entered("b", session=30_000).sync()
    a.again()
    assert a.told is NONE
    a.got()
    assert a.told is NONE
    ctx.advance(PATIENCE_MS)
    assert a.told is REJOIN


def test_c5_3_gainers_are_called_when_all_is_free() -> None:
    ctx = Kept()
    a, b, c = ctx.members("a", "b", "c")
    b.leave()
    ctx.advance(1)
    assert (a.told, c.told) == (REJOIN, REJOIN)
    a.again()
    assert len(a.got()) == 3
    assert a.told is NONE


def test_c5_3_or_when_some_of_it_was_free_for_a_while() -> None:
    ctx = Kept()
    a, b, c = ctx.members("a", "b", "c", session=60_000)
    c.offer(topics=["other"]).join()  # its two partitions are asked back: it still claims them
    b.leave()
    ctx.advance(1)
    assert ctx.consumer_group.target_of(a.member_id) == frozenset((TOPIC_ID, number) for number in range(6))
    assert a.told is NONE
    ctx.advance(PATIENCE_MS)
    assert a.told is REJOIN


def test_c5_4_a_loser_that_gains_is_called_as_a_loser() -> None:
    ctx = Kept()
    a, b, c = ctx.members("a", "b", "c", eager=True)
    a.leave()
    ctx.advance(1)
    assert (b.told, c.told) == (REJOIN, NONE)
    b.rejoin()
    assert b.got() == {0, 1, 2}
    assert c.told is REJOIN
    c.rejoin()
    assert c.got() == {3, 4, 5}


def test_c5_6_a_held_heartbeat_is_released_at_that_moment() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    held = [one.heartbeat(hold_ms=5_000) for one in (a, b)]
    ctx.entered("c")
    assert [call.error for call in held] == [REJOIN, REJOIN]


def test_c5_6_a_hold_ends_when_its_time_is_over_and_with_the_next_request() -> None:
    ctx = Kept()
    a, _ = ctx.members("a", "b")
    held = a.heartbeat(hold_ms=2_000)
    ctx.advance(2_000)
    assert held.error is NONE
    held = a.heartbeat(hold_ms=2_000)
    assert a.told is NONE
    assert held.error is NONE
    held = a.heartbeat(hold_ms=2_000)
    a.again()
    assert held.error is NONE


def test_c5_7_a_topic_that_is_dropped_is_asked_back_at_once() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    a.offer(topics=["other"])
    assert a.join().reply.generation_id == 1
    assert a.got() == set()
    assert a.offer(owned=(), topics=["other"]).join().reply.generation_id == ctx.consumer_group.group_epoch


def test_c5_8_who_does_not_rejoin_goes() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    call = b.sync()
    for _ in range(REBALANCE // 5_000 + 1):
        a.heartbeat()
        if not call.is_parked:
            b.heartbeat()
        ctx.advance(5_000)
    assert a.told is ErrorCode.UNKNOWN_MEMBER_ID
    assert ctx.last_event(MemberLeft).departure is Departure.JOIN_EXPIRED


def test_c5_8_who_does_not_sync_goes() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    for _ in range(REBALANCE // 5_000 + 1):
        a.live()
        b.heartbeat()
        ctx.advance(5_000)
    assert b.told is ErrorCode.UNKNOWN_MEMBER_ID
    assert Departure.SYNC_EXPIRED in [event.departure for event in ctx.all_events(MemberLeft)]


def test_c5_8_who_needs_not_rejoin_any_more_is_not_waited_for() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    assert a.told is REJOIN
    b.leave()
    ctx.advance(1)
    for _ in range(REBALANCE // 5_000 + 1):
        assert a.told is NONE
        ctx.advance(5_000)


def test_c5_9_while_a_target_is_pending_nobody_is_called_for_the_old_one() -> None:
    ctx = Kept(group_rebalance_debounce_ms=100)
    a, b = ctx.members("a", "b")
    c = ctx.entered("c")
    assert (a.told, b.told, ctx.word) == (NONE, NONE, "PreparingRebalance")
    call = c.sync()
    ctx.advance(100)
    assert (a.told, b.told) == (REJOIN, REJOIN)
    d = ctx.entered("d")
    assert a.told is REJOIN  # it is waited for
    assert (call.is_parked, d.sync().is_parked) == (True, True)


# -- C6: static members, failures


def test_c6_1_a_static_member_that_is_back_has_what_it_had() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b", instance=None)
    s = ctx.entered("s", instance="i")
    call = s.sync()
    a.yield_up()
    b.yield_up()
    had = s.late(call)
    before = ctx.consumer_group.group_epoch
    old = s.member_id
    held = s.heartbeat(hold_ms=1_000)
    assert s.offer(owned=()).restart().error is NONE
    assert held.error is ErrorCode.FENCED_INSTANCE_ID
    assert (s.member_id != old, s.got(), ctx.consumer_group.group_epoch) == (True, had, before)
    assert s.heartbeat(member_id=old).error is ErrorCode.FENCED_INSTANCE_ID
    assert (a.told, b.told) == (NONE, NONE)


def test_c6_1_a_parked_sync_of_the_old_one_is_fenced() -> None:
    ctx = Kept()
    ctx.members("a")
    s = ctx.entered("s", instance="i")
    call = s.sync()
    s.restart()
    assert call.error is ErrorCode.FENCED_INSTANCE_ID


def test_c6_3_a_loser_that_dies_is_waited_for_until_its_session_ends() -> None:
    ctx = Kept()
    ctx.members("a")
    b = ctx.entered("b", session=30_000)
    call = b.sync()
    ctx.advance(PATIENCE_MS)
    assert b.late(call) == set()
    ctx.advance(SESSION - PATIENCE_MS)
    assert b.told is REJOIN
    b.again()
    assert b.got() == set(range(6))


def test_c6_4_a_gainer_that_dies_is_forgotten() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    b.sync()
    assert a.told is REJOIN
    a.again()
    a.got()
    b.leave()
    ctx.advance(1)
    a.again()
    assert a.got() == set(range(6))


def test_c6_5_a_lost_sync_answer_is_given_again() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    b.leave()
    ctx.advance(1)
    a.again()
    a.sync()  # lost
    assert a.again(owned={0, 1, 2}).error is NONE
    assert a.got() == set(range(6))


def test_c6_6_eager_members_free_all_with_their_join() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b", eager=True)
    c = ctx.entered("c", eager=True)
    call = c.sync()
    for one in (a, b):
        assert one.told is REJOIN
        assert one.rejoin().error is NONE
    assert c.late(call) == {4, 5}
    assert (a.got(), b.got()) == ({0, 1}, {2, 3})


def test_c6_7_a_join_that_cannot_be_written_has_not_happened() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    before = ctx.consumer_group
    epochs = before.group_epoch, before.target_epoch, dict(before.members)
    ctx.hold_writes()
    b = ctx.guest("b")
    b.join("")
    call = b.join()
    ctx.fail_writes()
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    group = ctx.consumer_group
    assert (group.group_epoch, group.target_epoch, dict(group.members)) == epochs
    ctx.holds_writes = False
    assert a.told is NONE


def test_c6_8_after_a_restart_members_go_on() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    before = ctx.consumer_group
    ctx.restart()
    assert ctx.consumer_group == before
    assert ctx.consumer_group.incremental is not None
    assert (a.told, b.told, ctx.word) == (NONE, NONE, "Stable")


def test_c6_8_a_restart_in_the_middle_of_a_move() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    b.sync()
    a.again()
    a.got()
    ctx.restart()
    assert a.told is REJOIN  # nothing is known of what it has heard
    a.again()
    assert b.again(owned=()).error is NONE
    assert (a.got(), b.got()) == ({0, 1, 2}, {3, 4, 5})
