"""Rules 2.1 to 2.7: JoinGroup, its checks and whom it adds. What only a handler knows is in test_handlers."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from equipoise.wire.errors import ErrorCode
from tests.spec.context import (
    DELAY,
    REBALANCE,
    SESSION,
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
    """Also rule 2.12, the shape of an immediate error."""
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
    ctx.load()
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
    ctx.restart()
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
        ([["range", "sticky"], ["sticky", "range"]], "sticky"),  # a tie: the first in Java's hash map
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


# -- an older JoinGroup of the same member


def test_2_a_second_join_replaces_the_parked_one_and_the_older_is_answered_once() -> None:
    """3.1 says it of both: the newest counts; the older is answered, not left open."""
    ctx = Context()
    a, _ = ctx.stable("a", "b")
    first = a.join()
    second = a.join()
    assert (first.error, second.is_parked, ctx.group().joined) == (ErrorCode.REBALANCE_IN_PROGRESS, True, 1)


def test_2_a_new_group_that_cannot_be_written_fails_the_join_that_is_still_open() -> None:
    """Rule 0.3, with the errors of rule 0.2."""
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
