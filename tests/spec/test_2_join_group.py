"""Section 2: JoinGroup, from its checks to the end of the join phase. What only a handler knows is in test_handlers."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from equipoise.coordinator.states import State
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
    Client,
    Context,
    assignment,
    partitions_in,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))
RANGE_STICKY = protocols("range", "sticky")


# -- 2.1 fields by version


def test_2_1_in_v0_the_rebalance_timeout_is_the_session_timeout() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.join(version=0, session=7_000, rebalance=99_000)
    (member,) = ctx.group().members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 7_000)


def test_2_1_from_v1_the_rebalance_timeout_is_its_own() -> None:
    ctx = Context()
    ctx.client("a").join(version=1, session=7_000, rebalance=99_000)
    (member,) = ctx.group().members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 99_000)


@pytest.mark.parametrize(("version", "name"), [(v, "" if v < 7 else None) for v in range(10)])
def test_2_1_no_protocol_name_is_empty_before_v7_and_null_from_then(version: int, name: str | None) -> None:
    """Also 2.12, the shape of an immediate error."""
    reply = Context().join("stranger", version=version).reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "")
    assert (reply.protocol_name, reply.protocol_type, reply.members) == (name, None, [])


@pytest.mark.parametrize(("version", "name"), [(5, ""), (7, None)])
def test_2_1_a_protocol_whose_name_is_empty_is_sent_as_no_protocol(version: int, name: str | None) -> None:
    ctx = Context()
    call = ctx.client("a", offered=protocols("")).enter(version=version)
    ctx.advance(DELAY)
    assert (call.reply.error_code, call.reply.protocol_name) == (ErrorCode.NONE, name)


def test_2_1_members_are_filled_for_the_leader_only() -> None:
    ctx = Context()
    a, b = ctx.client("a", instance="i"), ctx.client("b")
    calls = [a.enter(), b.enter()]
    ctx.advance(2 * DELAY)
    leader, follower = (call.reply for call in calls)
    rows = [(row.member_id, row.group_instance_id, row.metadata) for row in leader.members]
    assert rows == [(a.member_id, "i", subscription()), (b.member_id, None, subscription())]
    assert (follower.members, follower.leader, follower.protocol_type) == ([], a.member_id, "consumer")


# -- 2.2 validation order: each row is hit by a request that would also be hit by every later one

UNFIT: dict[str, Any] = {"group": "", "session": 1, "offered": [], "instance": "i"}


@pytest.mark.parametrize(
    ("row", "fixed", "error"),
    [
        ("3 empty group id", {}, ErrorCode.INVALID_GROUP_ID),
        ("4 session timeout", {"group": "g"}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ("5 loading", {"group": "g", "session": SESSION}, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_2_2_order_before_the_group_is_looked_at(row: str, fixed: dict[str, Any], error: ErrorCode) -> None:
    ctx = Context()
    ctx.start_loading()
    reply = ctx.join("stranger", **UNFIT | fixed).reply
    expected = "" if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else "stranger"
    assert (reply.error_code, reply.member_id) == (error, expected), row


def test_2_2_5_not_coordinator_has_an_empty_member_id() -> None:
    ctx = Context()
    ctx.close()
    reply = ctx.join("stranger").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.NOT_COORDINATOR, "")


@pytest.mark.parametrize("session", [5_999, 1_800_001, 0, -1])
def test_2_2_4_session_timeout_out_of_bounds(session: int) -> None:
    assert Context().join(session=session).error is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session", [6_000, 1_800_000])
def test_2_2_4_session_timeout_bounds_are_inclusive(session: int) -> None:
    assert Context().join(session=session).error is ErrorCode.MEMBER_ID_REQUIRED


def test_2_2_4_session_timeout_is_checked_on_every_rejoin() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    reply = a.join(session=5_999).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, a.member_id)
    assert ctx.state is STABLE


def test_2_2_7_group_unknown_and_member_id_given() -> None:
    ctx = Context()
    reply = ctx.join("stranger", offered=[]).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")
    assert ctx.shard.groups == {}


def test_2_2_8_group_unknown_and_member_id_empty_creates_the_group_whatever_follows() -> None:
    ctx = Context()
    assert ctx.join(offered=[]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (ctx.state, ctx.group().generation_id, len(ctx.records)) == (EMPTY, 0, 1)


def test_2_2_9_size_before_protocols_and_before_membership() -> None:
    """In a full group an unknown member id gets 81, not 25."""
    ctx = Context(group_max_size=1)
    ctx.stable("a")
    reply = ctx.join("stranger", offered=protocols("unheard")).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


@pytest.mark.parametrize("member_id", ["", "stranger"])
def test_2_2_11_protocols_before_membership(member_id: str) -> None:
    ctx = Context()
    ctx.stable("a")
    reply = ctx.join(member_id, offered=protocols("unheard")).reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)


@pytest.mark.parametrize("version", range(4, 10))
def test_2_2_12_a_dynamic_newcomer_must_come_back_with_its_id(version: int) -> None:
    ctx = Context()
    reply = ctx.join(version=version, client_id="app").reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-1")


@pytest.mark.parametrize("version", range(4))
def test_2_2_13_before_v4_a_dynamic_newcomer_is_added_at_once(version: int) -> None:
    ctx = Context()
    assert ctx.join(version=version).is_parked
    assert list(ctx.group().members) == ["client-1"]


def test_2_2_13_a_static_newcomer_is_added_at_once_and_named_by_its_instance() -> None:
    ctx = Context()
    assert ctx.join(instance="i", client_id="app").is_parked
    assert list(ctx.group().members) == ["i-1"]


def test_2_2_14_a_pending_id_with_an_instance_id_is_an_internal_error() -> None:
    ctx = Context()
    member_id = ctx.join().reply.member_id
    assert ctx.join(member_id, instance="i").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ctx.join(member_id).is_parked


@pytest.mark.parametrize(
    ("row", "member_id", "instance", "error"),
    [
        ("15 instance not in the group", "a", "unheard", ErrorCode.UNKNOWN_MEMBER_ID),
        ("15 instance of another member", "a", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("15 instance of another member, which is unknown", "stranger", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("16 member not in the group", "stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_2_2_15_16_membership(row: str, member_id: str, instance: str | None, error: ErrorCode) -> None:
    ctx = Context()
    a, _ = ctx.stable("a", ctx.client("s", instance="i"))
    member_id = a.member_id if member_id == "a" else member_id
    reply = ctx.join(member_id, instance=instance).reply
    assert (reply.error_code, reply.member_id) == (error, member_id), row


def test_2_2_17_state_handling_comes_last_and_empty_is_25() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    reply = a.join().reply
    assert (ctx.state, reply.error_code, reply.member_id) == (EMPTY, ErrorCode.UNKNOWN_MEMBER_ID, a.member_id)


# -- 2.3 size limit


def test_2_3_empty_always_accepts() -> None:
    ctx = Context(group_max_size=1)
    first, second = ctx.client("a"), ctx.client("b")
    first.join()
    assert second.join().error is ErrorCode.MEMBER_ID_REQUIRED  # reserved ids do not count


def test_2_3_preparing_counts_parked_joins_and_lets_those_parked_come_again() -> None:
    ctx = Context(group_max_size=2)
    a, b = ctx.client("a"), ctx.client("b")
    a.enter()
    b.enter()
    assert ctx.client("c").join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert b.join().is_parked


@pytest.mark.parametrize("state", [CR, STABLE])
def test_2_3_completing_and_stable_count_members_and_accept_theirs(state: State) -> None:
    ctx = Context(group_max_size=2)
    a, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    reply = ctx.client("c").join().reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert b.join().error is ErrorCode.NONE
    assert a.join(offered=OTHER).is_parked


@pytest.mark.parametrize("state", [CR, STABLE])
def test_2_3_pending_ids_do_not_count(state: State) -> None:
    ctx = Context(group_max_size=2)
    (ctx.stable if state is STABLE else ctx.completing)("a")
    pending = [ctx.client(name) for name in "bcd"]
    for client in pending:
        assert client.join().error is ErrorCode.MEMBER_ID_REQUIRED


def test_2_3_a_pending_id_that_is_turned_away_is_given_up() -> None:
    ctx = Context(group_max_size=1)
    a, b = ctx.client("a"), ctx.client("b")
    a.join()
    b.join()
    a.join()
    assert b.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ctx.group().pending_members == set()
    ctx.advance(DELAY)
    assert a.generation_id == 1


def test_2_3_members_too_many_are_expelled_in_the_order_of_their_rejoins() -> None:
    """After the limit was lowered. The member goes; as on Kafka nothing is completed by that."""
    ctx = Context()
    a, b, c = ctx.stable("a", "b", "c")
    ctx.config = Context(group_max_size=2).config
    ctx.reload()
    assert ctx.state is PR
    accepted = [c.join(), a.join()]
    reply = b.join().reply
    assert (reply.error_code, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert ctx.last_event(MemberLeft).departure is Departure.GROUP_FULL
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert [call.is_parked for call in accepted] == [True, True]
    ctx.advance(REBALANCE)
    assert [call.reply.generation_id for call in accepted] == [2, 2]


def test_2_3_a_static_member_that_restarts_has_no_place_kept_in_a_full_group() -> None:
    ctx = Context(group_max_size=1)
    (s,) = ctx.stable(ctx.client("s", instance="i"))
    assert s.restart().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert s.heartbeat().error is ErrorCode.NONE


# -- 2.4 protocol compatibility


@pytest.mark.parametrize(("protocol_type", "offered"), [("", protocols("range")), ("consumer", [])])
def test_2_4_an_empty_group_needs_a_type_and_a_protocol(protocol_type: str, offered: list[tuple[str, bytes]]) -> None:
    call = Context().join(protocol_type=protocol_type, offered=offered)
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_2_4_an_empty_group_may_change_its_type() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    ctx.client("b", protocol_type="connect").enter()
    assert ctx.group().protocol_type == "connect"


def test_2_4_a_group_with_members_keeps_its_type() -> None:
    ctx = Context()
    ctx.stable("a")
    assert ctx.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_2_4_one_offered_name_must_be_known_to_all() -> None:
    ctx = Context()
    ctx.completing(ctx.client("a", offered=RANGE_STICKY), ctx.client("b", offered=protocols("sticky")))
    assert ctx.join(offered=protocols("range")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ctx.join(offered=protocols("range", "sticky")).error is ErrorCode.MEMBER_ID_REQUIRED


def test_2_4_of_a_member_its_own_old_entry_counts() -> None:
    ctx = Context()
    a, _ = ctx.stable(ctx.client("a", offered=RANGE_STICKY), ctx.client("b", offered=protocols("sticky", "roundrobin")))
    assert a.join(offered=protocols("range", "roundrobin")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert a.join(offered=protocols("roundrobin", "sticky")).is_parked


# -- 2.5 protocol selection


@pytest.mark.parametrize(
    ("offers", "selected"),
    [
        ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
        ([["sticky", "range"], ["range", "sticky"], ["range", "sticky"]], "range"),
        ([["x", "range"], ["range"]], "range"),  # the first choice of some is no candidate
        ([["range", "range", "sticky"], ["sticky", "sticky"]], "sticky"),  # a name given twice counts once
        ([["range", "sticky"], ["sticky", "range"]], "range"),  # a tie: any, here the first in the alphabet
    ],
)
def test_2_5_every_member_votes_for_its_first_candidate(offers: list[list[str]], selected: str) -> None:
    ctx = Context()
    clients = [
        ctx.client(f"c{place}", offered=[(name, f"{place} {name}".encode()) for name in names])
        for place, names in enumerate(offers)
    ]
    calls = [client.enter() for client in clients]
    ctx.advance(REBALANCE)
    assert {call.reply.protocol_name for call in calls} == {selected}
    metadata = [row.metadata for row in calls[0].reply.members]
    assert metadata == [f"{place} {selected}".encode() for place in range(len(offers))]


# -- 2.6 an existing member rejoins


def test_2_6_preparing_any_updates_parks_and_tries_to_complete() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    a.join()
    assert ctx.state is PR
    call = b.join(offered=OTHER, session=20_000, rebalance=30_000)
    assert (ctx.state, call.reply.generation_id) == (CR, 2)
    assert (b.member.session_timeout_ms, b.member.rebalance_timeout_ms, b.member.protocols) == (20_000, 30_000, OTHER)


def test_2_6_completing_equal_is_answered_at_once_with_the_members_for_the_leader() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    leader, follower = a.join().reply, b.join().reply
    assert [len(leader.members), len(follower.members)] == [2, 0]
    assert (leader.generation_id, leader.protocol_name, leader.skip_assignment) == (1, "range", False)
    assert (ctx.state, follower.leader) == (CR, a.member_id)


@pytest.mark.parametrize("state", [CR, STABLE])
def test_2_6_an_answer_from_memory_does_not_touch_the_session_timer(state: State) -> None:
    ctx = Context()
    _, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    ctx.advance(4_000)
    b.join(session=30_000)
    assert (b.deadline, b.member.session_timeout_ms) == (SESSION - 4_000, SESSION)


def test_2_6_completing_different_rebalances() -> None:
    ctx = Context()
    _, b = ctx.completing("a", "b")
    assert b.join(offered=OTHER).is_parked
    assert (ctx.state, b.member.protocols) == (PR, OTHER)


def test_2_6_stable_leader_always_rebalances() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    assert a.join().is_parked
    assert ctx.state is PR


def test_2_6_stable_follower_different_rebalances() -> None:
    ctx = Context()
    _, b = ctx.stable("a", "b")
    assert b.join(offered=OTHER).is_parked
    assert ctx.state is PR


def test_2_6_stable_follower_equal_gets_the_generation_and_then_its_assignment() -> None:
    ctx = Context()
    _, b = ctx.stable("a", "b")
    reply = b.join().reply
    assert (reply.generation_id, reply.members, reply.skip_assignment) == (1, [], False)
    assert partitions_in(b.sync().reply.assignment) == [1]
    assert ctx.state is STABLE


@pytest.mark.parametrize(
    "offered",
    [protocols("sticky", "range"), protocols("range"), [("range", b"x"), ("sticky", subscription())]],
    ids=["other order", "fewer", "other bytes"],
)
def test_2_6_equal_is_byte_equality_including_order(offered: list[tuple[str, bytes]]) -> None:
    ctx = Context()
    _, b = ctx.stable(ctx.client("a", offered=RANGE_STICKY), ctx.client("b", offered=RANGE_STICKY))
    assert not b.join().is_parked
    assert b.join(offered=offered).is_parked


# -- 2.7 adding a member


@pytest.mark.parametrize("kind", ["dynamic v3", "pending", "static"])
def test_2_7_a_new_member_has_five_minutes_not_its_session(kind: str) -> None:
    ctx = Context()
    a = ctx.client("a", instance="i" if kind == "static" else None, version=3 if kind == "dynamic v3" else 9)
    a.enter()
    (member,) = ctx.group().members.values()
    a.member_id = member.member_id
    assert member.is_new
    assert a.deadline == NEW_MEMBER_JOIN_TIMEOUT_MS
    assert (ctx.group().leader, ctx.group().joined, ctx.group().pending_members) == (a.member_id, 1, set())
    ctx.advance(DELAY)
    assert (a.deadline, a.member.is_new) == (SESSION, False)


def test_2_7_only_a_new_member_in_the_initial_phase_extends_the_delay() -> None:
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b")
    a.enter()
    assert not ctx.group().new_member_added  # the first starts the delay, it does not extend it
    b.join()
    assert not ctx.group().new_member_added  # a reserved id is no member
    b.join()
    assert ctx.group().new_member_added


def test_2_7_in_preparing_adding_tries_to_complete() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    c = ctx.client("c")
    c.join()
    a.join()
    b.join()
    assert ctx.state is PR  # c's reserved id is waited for
    c.join()
    assert (ctx.state, c.generation_id) == (CR, 2)


# -- 2.8 prepareRebalance, initial delay, completion


def test_2_8_prepare_1_resets_assignments_and_answers_parked_syncs_with_27_and_rearms_them() -> None:
    ctx = Context()
    _, b, _ = ctx.completing("a", "b", "c")
    call = b.sync()
    ctx.advance(4_000)
    ctx.client("d").enter(version=3)
    assert (call.error, call.reply.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert b.deadline == SESSION


def test_2_8_prepare_2_clears_the_pending_syncs_and_their_timer() -> None:
    ctx = Context()
    ctx.completing("a", "b")
    assert len(ctx.group().pending_sync) == 2
    ctx.client("d").enter(version=3)
    assert ctx.group().pending_sync == set()
    assert ctx.shard.timers.deadline(("sync", "g")) is None


def test_2_8_prepare_4_waits_for_the_largest_rebalance_timeout() -> None:
    ctx = Context()
    a, _ = ctx.stable(ctx.client("a", rebalance=20_000), ctx.client("b", rebalance=90_000))
    call = a.join()
    for _ in range(17):
        ctx.advance(5_000)
        ctx.heartbeat(("g", "b-2", 1, None))
    assert call.is_parked
    ctx.advance(5_000)
    assert call.reply.generation_id == 2


def test_2_8_prepare_4_completes_at_once_if_all_have_joined() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    assert a.join().reply.generation_id == 2


@pytest.mark.parametrize(
    ("delay", "rebalance", "arrivals", "ends"),
    [
        (3_000, 60_000, [0], 3_000),
        (3_000, 60_000, [0, 1_000], 6_000),
        (3_000, 60_000, [0, 2_999], 6_000),
        (3_000, 60_000, [0, 1_000, 1_500], 6_000),
        (3_000, 60_000, [0, 1_000, 4_000], 9_000),
        (3_000, 10_000, [0, 1_000, 4_000, 7_000, 9_500], 10_000),  # the example of 2.8: 3, 6, 9, 10
        (3_000, 2_000, [0, 1_000], 3_000),  # nothing remains
        (3_000, 4_000, [0, 1_000, 3_500], 4_000),
        (0, 60_000, [0], 0),
        (0, 60_000, [0, 0, 0], 0),
    ],
)
def test_2_8_the_initial_delay(delay: int, rebalance: int, arrivals: list[int], ends: int) -> None:
    ctx = Context(group_initial_rebalance_delay_ms=delay)
    calls = []
    for place, at in enumerate(arrivals):
        if place and at > arrivals[place - 1]:
            ctx.advance(at - arrivals[place - 1])
        calls.append(ctx.client(f"c{place}").join(version=3, rebalance=rebalance))
    if delay:
        ctx.advance(ends - arrivals[-1] - 1)
        assert [call.is_parked for call in calls] == [True] * len(calls)
        ctx.advance(1)
    else:
        assert calls[-1].is_parked
        ctx.advance(0)  # the next tick
    assert {call.reply.generation_id for call in calls} == {1}


def test_2_8_the_remaining_delay_is_not_recomputed_for_later_members() -> None:
    ctx = Context()
    first = ctx.client("a").join(version=3, rebalance=5_000)
    ctx.advance(1_000)
    ctx.client("b").join(version=3, rebalance=600_000)
    ctx.advance(2_500)
    ctx.client("c").join(version=3, rebalance=600_000)
    ctx.advance(1_499)
    assert first.is_parked
    ctx.advance(1)
    assert first.reply.generation_id == 1


@pytest.mark.parametrize("rejoin", ["rejoin", "static replacement"])
def test_2_8_rejoins_and_replacements_do_not_extend_the_initial_delay(rejoin: str) -> None:
    ctx = Context()
    a = ctx.client("a", instance="i" if rejoin != "rejoin" else None)
    a.enter()
    ctx.advance(1_000)
    call = a.join() if rejoin == "rejoin" else a.restart()
    ctx.advance(2_000)
    assert call.reply.generation_id == 1


def test_2_8_everybody_joined_does_not_end_the_initial_delay() -> None:
    ctx = Context()
    a, b = ctx.client("a"), ctx.client("b")
    calls = [a.enter(), b.enter(), a.join()]
    assert calls[2].is_parked
    c = ctx.client("c")
    c.join()
    c.leave()  # of a reserved id
    assert calls[2].is_parked


def test_2_8_expiry_of_a_pending_member_ends_the_initial_delay_if_all_others_have_joined() -> None:
    ctx = Context(group_initial_rebalance_delay_ms=30_000)
    a, b = ctx.client("a"), ctx.client("b", session=6_000)
    b.join()
    call = a.enter()
    ctx.advance(5_999)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 1


def test_2_8_expiry_of_a_new_member_ends_the_initial_delay_if_all_others_have_joined() -> None:
    ctx = Context(group_initial_rebalance_delay_ms=400_000)
    a, b = ctx.client("a"), ctx.client("b")
    old = a.enter(rebalance=500_000)
    ctx.advance(1_000)
    call = b.enter()
    ctx.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1_000)
    assert (old.error, old.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert (call.reply.generation_id, call.reply.leader) == (1, b.member_id)


def test_2_8_outside_the_initial_phase_pending_members_hold_the_phase_open_until_they_expire() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    p = ctx.client("p", session=7_000)
    p.join()
    call = a.join()
    b.join()
    ctx.advance(6_999)
    assert call.is_parked
    ctx.advance(1)
    assert call.reply.generation_id == 2


@pytest.mark.parametrize("how", ["join", "leave", "join timer"])
def test_2_8_pending_members_hold_the_phase_open_until(how: str) -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    p = ctx.client("p", session=100_000)
    p.join()
    call = a.join()
    b.join()
    assert call.is_parked
    if how == "join":
        p.join()
    elif how == "leave":
        p.leave()
    else:
        ctx.advance(REBALANCE)
    assert call.reply.generation_id == 2
    assert len(call.reply.members) == (3 if how == "join" else 2)


def test_2_8_complete_1_removes_dynamic_members_that_have_not_rejoined_and_keeps_static_ones() -> None:
    ctx = Context()
    a, b, s = ctx.stable("a", "b", ctx.client("s", instance="i", session=100_000))
    call = a.join()
    for _ in range(12):
        b.heartbeat()
        ctx.advance(5_000)
    assert [row.member_id for row in call.reply.members] == [a.member_id, s.member_id]
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.deadline is None
    left = ctx.last_event(MemberLeft)
    assert (left.who.member_id, left.departure, left.limit_ms) == (b.member_id, Departure.JOIN_EXPIRED, REBALANCE)


def test_2_8_complete_3_keeps_the_leader_if_it_has_rejoined_else_takes_one_that_has() -> None:
    ctx = Context()
    a, b, c = ctx.stable("a", "b", "c")
    c.join(offered=OTHER)
    b.join()
    call = a.join()
    assert call.reply.leader == a.member_id
    c.join(offered=protocols("range"))
    b.join()
    for _ in range(12):
        a.heartbeat()
        ctx.advance(5_000)
    assert b.member.member_id == ctx.group().leader


def test_2_8_complete_3_with_only_absent_static_members_the_join_timer_is_armed_again() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i", session=150_000, rebalance=40_000))
    ctx.leave(("a-1", None))
    assert ctx.state is PR
    for _ in range(3):
        ctx.advance(40_000)
        assert (ctx.state, ctx.group().generation_id) == (PR, 1)
        assert ctx.shard.timers.deadline(("join", "g")) == ctx.now + 40_000
    ctx.advance(30_000)  # its session ends
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)
    assert s.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("rebalance", [0, -1, -(2**31)])
def test_2_8_a_rebalance_timeout_of_nothing_does_no_harm(rebalance: int) -> None:
    ctx = Context()
    ctx.client("a", rebalance=rebalance).enter()
    ctx.client("s", instance="i", rebalance=rebalance).enter()
    ctx.advance(DELAY)
    ctx.advance(10_000)
    assert ctx.state is EMPTY  # who does not sync at once is out at once


def test_2_8_only_absent_static_members_with_a_rebalance_timeout_of_nothing_do_not_stop_the_clock() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    s.member.rebalance_timeout_ms = 0
    a.leave()
    ctx.advance(SESSION - 1)
    assert ctx.state is PR
    ctx.advance(1)
    assert ctx.state is EMPTY


def test_2_8_complete_4_with_members_selects_the_protocol_and_goes_to_completing() -> None:
    ctx = Context()
    a, b = ctx.stable(ctx.client("a", offered=RANGE_STICKY), ctx.client("b", offered=protocols("range")))
    b.leave()
    call = a.join(offered=protocols("sticky", "range"))
    assert (call.reply.protocol_name, ctx.state, ctx.group().generation_id) == ("sticky", CR, 2)
    assert ctx.group().subscribed_topics == {"t"}


def test_2_8_complete_4_without_members_writes_a_record_and_keeps_the_protocol_type() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    group = ctx.group()
    assert (group.state, group.generation_id, group.protocol_name, group.protocol_type) == (EMPTY, 2, None, "consumer")
    value: Any = ctx.records[-1].value
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, [])
    assert value.protocol_type == "consumer"


def test_2_8_complete_5_all_members_get_a_fresh_session_and_must_sync_also_absent_static_ones() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i", session=70_000))
    a.join()
    ctx.advance(REBALANCE)
    assert ctx.state is CR
    assert (a.deadline, s.deadline) == (SESSION, 70_000)
    assert ctx.group().pending_sync == {a.member_id, s.member_id}


def test_2_8_complete_6_the_sync_timer_is_the_largest_rebalance_timeout() -> None:
    ctx = Context()
    ctx.completing(ctx.client("a", rebalance=20_000), ctx.client("b", rebalance=90_000))
    assert ctx.shard.timers.deadline(("sync", "g")) == ctx.now + 90_000


def test_2_8_generation_starts_at_0_and_grows_by_1_with_every_join_phase() -> None:
    ctx = Context()
    a = ctx.client("a")
    a.join()
    assert ctx.group().generation_id == 0
    a.join()
    ctx.advance(DELAY)
    assert a.generation_id == 1
    assert a.join(offered=OTHER).reply.generation_id == 2
    a.leave()
    assert ctx.group().generation_id == 3  # also when it becomes Empty
    a.enter()
    ctx.advance(DELAY)
    assert a.generation_id == 4
    a.leave()
    ctx.delete_group()
    a.enter()
    ctx.advance(DELAY)
    assert a.generation_id == 1  # another group


# -- 2.9 leader rules


def test_2_9_the_first_member_leads() -> None:
    ctx = Context()
    calls = [ctx.client(name).enter() for name in "abc"]
    ctx.advance(2 * DELAY)
    assert {call.reply.leader for call in calls} == {"a-1"}


@pytest.mark.parametrize("how", ["leaves", "expires", "is expelled"])
def test_2_9_when_the_leader_is_removed_the_first_remaining_member_leads(how: str) -> None:
    ctx = Context()
    a, b, c = ctx.stable("a", "b", "c")
    if how == "leaves":
        a.leave()
    elif how == "expires":
        ctx.advance(5_000)
        b.heartbeat()
        c.heartbeat()
        ctx.advance(5_000)
    else:
        ctx.config = Context(group_max_size=2).config
        ctx.reload()
        c.join()
        b.join()
        a.join()
    assert ctx.group().leader == b.member_id


def test_2_9_when_the_last_member_is_removed_nobody_leads() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    a.leave()
    assert ctx.group().leader is None
    ctx.client("b").enter()
    assert ctx.group().leader == "b-2"


@pytest.mark.parametrize("state", [PR, CR, STABLE])
def test_2_9_a_replaced_static_leader_leads_under_its_new_id(state: State) -> None:
    ctx = Context()
    s, b = ctx.client("s", instance="i"), ctx.client("b")
    (ctx.completing if state is CR else ctx.stable)(s, b)
    if state is PR:
        b.join(offered=OTHER)
    s.restart()
    assert ctx.group().leader == "i-3"


def test_2_9_the_leader_is_loaded_from_the_log() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    b.join(offered=OTHER)
    for _ in range(12):
        a.heartbeat()
        ctx.advance(5_000)
    c = ctx.client("c")
    c.enter()
    b.join(offered=OTHER)
    b.sync({b: assignment(0), c: assignment(1)})
    ctx.reload()
    assert ctx.group().leader == b.member_id


# -- 2.10 static members


def replaced(ctx: Context, *, version: int = 9, leader: bool = False) -> tuple[Client, Client, Any]:
    """The members a and s, and the answer to s coming back in Stable."""
    a, s = ctx.client("a"), ctx.client("s", instance="i")
    ctx.stable(*((s, a) if leader else (a, s)))
    return a, s, s.restart(version=version).reply


def test_2_10_the_new_incarnation_inherits_and_the_old_one_is_fenced() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    old = s.member_id
    s.restart(client_id="another")
    assert s.member.client_id == "s"
    assert (s.member_id, s.member.assignment, s.member.is_new) == ("i-3", assignment(1), False)
    assert ctx.heartbeat(("g", old, 1, "i")).error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.sync(("g", old, 1, "i"), {}).error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.join(old, instance="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.commit({0: 1}, ("g", old, 1, "i")).error is ErrorCode.FENCED_INSTANCE_ID
    assert ctx.leave((old, "i")).member_errors == [ErrorCode.FENCED_INSTANCE_ID]
    assert ctx.heartbeat(("g", old, 1, None)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_2_10_a_parked_join_of_the_old_incarnation_is_answered_82() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    a.commit()
    parked, old = s.join(offered=OTHER), s.member_id
    assert parked.is_parked
    s.restart()
    assert (parked.error, parked.reply.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old)
    assert ctx.group().joined == 1


def test_2_10_a_parked_sync_of_the_old_incarnation_is_answered_82() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    parked = s.sync()
    s.restart()
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID


def test_2_10_the_session_timer_has_the_old_value_until_it_is_armed_again() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.advance(4_000)
    s.restart(session=30_000, rebalance=5_000)
    assert (s.deadline, s.member.session_timeout_ms, s.member.rebalance_timeout_ms) == (SESSION, 30_000, 5_000)
    s.heartbeat()
    assert s.deadline == 30_000


def test_2_10_the_timer_of_the_old_id_has_no_effect() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.advance(9_000)
    a.heartbeat()
    s.restart()
    ctx.advance(9_000)
    assert ctx.state is STABLE


def test_2_10_a_replaced_member_does_not_expire_while_it_is_parked_even_if_it_was_new() -> None:
    ctx = Context(group_initial_rebalance_delay_ms=60_000)
    s = ctx.client("s", instance="i")
    s.enter()
    ctx.advance(1_000)
    call = s.restart()
    ctx.advance(SESSION + 1)
    assert call.is_parked
    ctx.advance(60_000)
    assert call.reply.generation_id == 1


def test_2_10_in_preparing_the_replacement_just_tries_to_complete() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    call = a.join()
    assert call.is_parked
    assert s.restart().reply.generation_id == 2
    assert [row.member_id for row in call.reply.members] == [a.member_id, "i-3"]


def test_2_10_in_completing_the_replacement_always_rebalances() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    assert s.restart().is_parked
    assert ctx.state is PR


def test_2_10_in_stable_with_the_same_selected_protocol_nothing_is_rebalanced() -> None:
    """Even though the subscription may have changed: only the name of the protocol is compared."""
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    reply = s.restart(offered=OTHER).reply
    assert (ctx.state, reply.generation_id) == (STABLE, 1)
    assert ctx.group().subscribed_topics == {"t", "other"}


def test_2_10_in_stable_with_another_selected_protocol_it_is() -> None:
    ctx = Context()
    both = protocols("range", "sticky")
    _, s = ctx.stable(ctx.client("a", offered=both), ctx.client("s", instance="i", offered=both))
    assert s.restart(offered=protocols("sticky")).is_parked
    assert ctx.state is PR


def test_2_10_v9_leader_gets_the_members_and_skip_assignment() -> None:
    a, s, reply = replaced(ctx := Context(), leader=True)
    assert (reply.leader, reply.skip_assignment, reply.generation_id) == (s.member_id, True, 1)
    assert [row.member_id for row in reply.members] == [s.member_id, a.member_id]
    assert ctx.group().leader == s.member_id


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_2_10_before_v9_the_leader_is_told_the_old_leaders_id(version: int) -> None:
    _, s, reply = replaced(Context(), version=version, leader=True)
    assert (reply.leader, reply.members, reply.skip_assignment) == ("i-1", [], False)
    assert (reply.member_id, reply.generation_id) == (s.member_id, 1)


@pytest.mark.parametrize("version", [5, 8, 9])
def test_2_10_a_follower_is_told_the_leader(version: int) -> None:
    a, s, reply = replaced(Context(), version=version)
    assert (reply.leader, reply.members, reply.skip_assignment) == (a.member_id, [], False)
    assert (reply.member_id, reply.generation_id) == (s.member_id, 1)


def test_2_10_the_answer_waits_for_the_write_of_the_new_id() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    assert call.is_parked
    ctx.durable()
    assert call.error is ErrorCode.NONE
    value: Any = ctx.records[-1].value
    assert [(row.member_id, row.assignment) for row in value.members] == [
        ("a-1", assignment(0)),
        (s.member_id, assignment(1)),
    ]
    ctx.reload()
    assert s.heartbeat().error is ErrorCode.NONE


def test_2_10_if_the_write_fails_the_old_id_is_back_with_all_it_had() -> None:
    ctx = Context()
    s, a = ctx.stable(ctx.client("s", instance="i"), "a")
    old = s.member_id
    ctx.hold_writes()
    ctx.advance(4_000)
    call = s.restart(offered=OTHER, session=30_000)
    ctx.fail_writes()
    assert (call.error, call.reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    group = ctx.group()
    assert (group.state, group.leader, group.static_members) == (STABLE, old, {"i": old})
    member = group.members[old]
    assert (member.session_timeout_ms, member.protocols) == (SESSION, protocols("range"))
    assert (s.deadline, group.subscribed_topics) == (SESSION, {"t"})
    assert s.heartbeat().error is ErrorCode.NONE
    ctx.advance(5_000)
    a.heartbeat()
    ctx.advance(5_000)  # and it expires as any other
    assert old not in group.members


def test_2_10_a_second_replacement_fences_the_first_which_waits_for_its_write() -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    first, second = s.restart(), s.restart()
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    ctx.durable()
    assert (second.reply.member_id, ctx.group().static_members) == ("i-4", {"i": "i-4"})


@pytest.mark.parametrize("fails", [False, True])
def test_2_10_a_rebalance_before_the_write_is_done_takes_the_member_along(fails: bool) -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    a.join()
    assert (ctx.state, call.reply.generation_id) == (CR, 2)
    (ctx.fail_writes if fails else ctx.durable)()
    assert s.heartbeat().error is ErrorCode.NONE


@pytest.mark.parametrize("fails", [False, True])
def test_2_10_a_member_removed_before_the_write_is_done_stays_removed(fails: bool) -> None:
    ctx = Context()
    _, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    ctx.leave(("", "i"))
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    (ctx.fail_writes if fails else ctx.durable)()
    assert ctx.group().static_members == {}


def test_2_10_a_member_that_waits_longer_than_its_session_for_the_write_has_a_session_afterwards() -> None:
    ctx = Context()
    a, s = ctx.stable("a", ctx.client("s", instance="i"))
    ctx.hold_writes()
    call = s.restart()
    for _ in range(3):
        ctx.advance(5_000)
        a.heartbeat()
    assert call.is_parked
    ctx.durable()
    assert (call.error, s.deadline) == (ErrorCode.NONE, SESSION)


@pytest.mark.parametrize("how", ["session timeout", "pending-sync expiry", "administrative leave"])
def test_2_10_static_members_go_by(how: str) -> None:
    ctx = Context()
    a, s = ctx.completing("a", ctx.client("s", instance="i", session=100_000 if how.startswith("pending") else SESSION))
    a.sync()
    if how == "administrative leave":
        ctx.leave(("", "i"))
    for _ in range(12 if how.startswith("pending") else 2):
        a.heartbeat()
        ctx.advance(5_000)
    assert "i" not in ctx.group().static_members
    assert s.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


# -- 2.11 timers


def test_2_11_a_pending_member_has_the_session_timeout_of_its_request() -> None:
    ctx = Context()
    p = ctx.client("p", session=7_000)
    p.join()
    assert p.deadline == 7_000
    ctx.advance(7_000)
    assert ctx.group().pending_members == set()
    assert p.join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_2_11_a_new_member_expires_after_five_minutes_while_it_is_parked() -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", rebalance=600_000))
    c = ctx.client("c")
    call = c.enter()
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        assert call.is_parked
        a.heartbeat()
        b.heartbeat()
        ctx.advance(5_000)
    assert (call.error, call.reply.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    left = ctx.last_event(MemberLeft)
    assert (left.departure, left.limit_ms) == (Departure.FIRST_JOIN_EXPIRED, NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert (ctx.state, len(ctx.group().members)) == (PR, 2)


def test_2_11_a_member_waiting_in_join_is_ignored_and_armed_again_when_answered() -> None:
    ctx = Context()
    a, b = ctx.stable("a", "b")
    call = a.join()
    for _ in range(6):
        b.heartbeat()
        ctx.advance(5_000)
    assert (call.is_parked, a.deadline) == (True, None)
    b.join()
    assert (call.error, a.deadline) == (ErrorCode.NONE, SESSION)


def test_2_11_a_member_waiting_in_sync_is_ignored_and_armed_again_when_answered() -> None:
    ctx = Context()
    a, b = ctx.completing("a", "b")
    call = b.sync()
    for _ in range(6):
        a.heartbeat()
        ctx.advance(5_000)
    assert (call.is_parked, b.deadline) == (True, None)
    a.sync({b: assignment(0)})
    assert (call.error, b.deadline) == (ErrorCode.NONE, SESSION)


@pytest.mark.parametrize("state", [CR, STABLE])
def test_2_11_a_silent_member_is_removed_and_the_group_rebalanced(state: State) -> None:
    ctx = Context()
    a, b = (ctx.stable if state is STABLE else ctx.completing)("a", "b")
    ctx.advance(SESSION - 1)
    assert len(ctx.group().members) == 2
    a.heartbeat()
    ctx.advance(1)
    assert (ctx.state, list(ctx.group().members)) == (PR, [a.member_id])
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_2_11_in_preparing_the_expiry_of_the_last_one_missing_completes() -> None:
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    call = a.join()
    ctx.advance(SESSION)
    assert (call.reply.generation_id, len(call.reply.members)) == (2, 1)


@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_2_11_static_and_dynamic_members_expire_alike(kind: str) -> None:
    ctx = Context()
    a, b = ctx.stable("a", ctx.client("b", instance="i" if kind == "static" else None))
    ctx.advance(5_000)
    a.heartbeat()
    ctx.advance(5_000)
    assert b.member_id not in ctx.group().members


# -- an older JoinGroup of the same member


def test_2_a_second_join_replaces_the_parked_one_and_the_older_is_answered_once() -> None:
    """3.1 says it of both: the newest counts; the older is answered, not left open."""
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    first = a.join()
    second = a.join()
    assert (first.error, second.is_parked, ctx.group().joined) == (ErrorCode.REBALANCE_IN_PROGRESS, True, 1)


def test_2_a_new_group_that_cannot_be_written_fails_the_join_that_is_still_open() -> None:
    """0.3 (b), with the mapping of 0.2."""
    ctx = Context()
    ctx.hold_writes()
    call = ctx.client("a").join(version=3)
    ctx.fail_writes(ErrorCode.REQUEST_TIMED_OUT)
    assert (call.error, call.reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    again = ctx.client("a").join(version=3)
    ctx.advance(2 * DELAY)
    assert (again.reply.generation_id, len(again.reply.members)) == (1, 1)


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
@pytest.mark.parametrize("request_name", ["JoinGroup", "static JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit"])
def test_0_2_how_a_failed_write_looks_to_the_client(request_name: str, failure: ErrorCode, answer: ErrorCode) -> None:
    ctx = Context()
    s = ctx.client("s", instance="i")
    if request_name != "JoinGroup":
        (ctx.completing if request_name == "SyncGroup" else ctx.stable)(s)
    ctx.hold_writes()
    calls = {
        "JoinGroup": lambda: s.join(),
        "static JoinGroup": lambda: s.restart(),
        "SyncGroup": lambda: s.sync({s: assignment(0)}),
        "LeaveGroup": lambda: s.leave(),
        "OffsetCommit": lambda: s.commit({0: 1, 1: 2}),
    }
    call = calls[request_name]()
    assert call.is_parked
    ctx.fail_writes(failure)
    assert call.error is answer
