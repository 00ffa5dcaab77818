"""Rule 6.3: what is written when, and nothing else. The bytes of the records are in tests/wire."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import GroupDeleted
from equipoise.coordinator.step import Step, Write
from equipoise.wire.errors import ErrorCode, ProtocolError
from equipoise.wire.offsets_records import GroupMetadataKey, GroupMetadataValue
from tests.spec.context import DELAY, REBALANCE, SESSION, Context, assignment, protocols, subscription

EMPTY, PR, CR, STABLE, DEAD = State


def last(ctx: Context) -> Any:
    key, value = ctx.records[-1]
    assert key == GroupMetadataKey(group="g")
    assert isinstance(value, GroupMetadataValue)
    return value


@pytest.mark.parametrize("kind", ["dynamic", "dynamic v3", "static", "refused"])
def test_6_3_a_new_group_created_by_a_join(kind: str) -> None:
    ctx = Context()
    version = 3 if kind == "dynamic v3" else 9
    ctx.join(
        version=version, instance="i" if kind == "static" else None, protocol_type="" if kind == "refused" else "x"
    )
    value = last(ctx)
    assert (value.protocol_type, value.generation, value.protocol, value.leader, value.members) == (
        "",
        0,
        None,
        None,
        [],
    )
    assert value.current_state_timestamp == ctx.now
    assert len(ctx.records) == 1


def test_6_3_the_value_of_a_new_empty_group_is_the_vector_of_6_5() -> None:
    ctx = Context()
    ctx.join()
    key, value = ctx.log[0]
    assert key.hex() == "0002000167"
    assert value is not None
    assert value.hex() == "0003000000000000ffffffff0000018bcfe5680000000000"  # the clock stands at 1700000000000


def test_6_3_the_leaders_sync() -> None:
    ctx = Context()
    a, s = ctx.completing(
        ctx.client("a", offered=[("range", b"ra"), ("sticky", b"sa")], rebalance=50_000),
        ctx.client("s", offered=[("range", b"rs")], session=20_000, instance="i"),
    )
    before = len(ctx.records)
    ctx.advance(100)
    a.sync({a: assignment(0), s: assignment(1)})
    value = last(ctx)
    assert len(ctx.records) == before + 1
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == (
        "consumer",
        1,
        "range",
        a.member_id,
    )
    first, second = value.members
    assert (first.member_id, first.group_instance_id, first.client_id) == (a.member_id, None, "a")
    assert (first.client_host, first.rebalance_timeout, first.session_timeout) == ("/10.0.0.1", 50_000, SESSION)
    assert (first.subscription, first.assignment) == (b"ra", assignment(0))  # of the selected protocol only
    assert (second.member_id, second.group_instance_id, second.session_timeout) == (s.member_id, "i", 20_000)
    assert (second.subscription, second.assignment) == (b"rs", assignment(1))


def test_6_3_a_join_phase_that_ends_empty() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    before = len(ctx.records)
    a.leave()
    value = last(ctx)
    assert len(ctx.records) == before + 1
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 2, None, None)
    assert (value.members, value.current_state_timestamp) == ([], ctx.now)


def test_6_3_a_static_replacement_in_stable() -> None:
    ctx = Context()
    (s,) = ctx.stable(ctx.client("s", instance="i"))
    before = len(ctx.records)
    s.restart(offered=protocols("range", metadata=subscription("u")))
    value = last(ctx)
    assert len(ctx.records) == before + 1
    assert (value.generation, value.leader) == (1, s.member_id)
    (row,) = value.members
    assert (row.member_id, row.subscription, row.assignment) == (s.member_id, subscription("u"), assignment(0))


def test_6_3_nothing_when_a_rebalance_starts_or_a_member_joins_heartbeats_leaves_or_expires() -> None:
    ctx = Context()
    a, b, c, d = ctx.stable("a", "b", "c", "d")
    before = len(ctx.records)
    a.heartbeat()
    ctx.client("p").join()
    a.join()
    b.heartbeat()
    c.leave()
    ctx.advance(SESSION)  # b and d expire
    assert ctx.state is CR
    assert (list(ctx.group().members), d.member_id in ctx.group().members) == ([a.member_id], False)
    a.heartbeat()
    a.join()
    assert len(ctx.records) == before


def test_6_3_nothing_for_a_static_replacement_that_rebalances() -> None:
    ctx = Context()
    _, s = ctx.completing("a", ctx.client("s", instance="i"))
    before = len(ctx.records)
    s.restart()
    assert (ctx.state, len(ctx.records)) == (PR, before)


def test_6_3_nothing_for_refused_requests_and_answers_from_memory() -> None:
    ctx = Context()
    _, b = ctx.stable("a", "b")
    before = len(ctx.records)
    b.join()
    b.sync()
    ctx.join("stranger")
    ctx.commit({0: 1})
    ctx.leave(("stranger", None))
    ctx.delete_group()
    assert len(ctx.records) == before


def test_6_3_if_the_empty_record_cannot_be_written_the_group_is_empty_all_the_same() -> None:
    """Until the next failover the memory counts; then the last generation that was written is back, and expires."""
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.hold_writes()
    call = a.leave()
    ctx.fail_writes()
    assert call.reply.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)
    ctx.holds_writes = False
    ctx.restart()
    assert (ctx.state, ctx.group().generation_id) == (STABLE, 1)
    ctx.advance(SESSION)
    assert (ctx.state, ctx.group().generation_id) == (EMPTY, 2)


def test_6_3_writes_are_in_the_order_of_the_decisions() -> None:
    ctx = Context()
    (a,) = ctx.stable("a")
    ctx.hold_writes()
    a.commit({0: 1})
    a.leave()
    ctx.commit({0: 2})
    ctx.durable()
    kinds = [type(record.key).__name__ for record in ctx.records[-3:]]
    assert kinds == ["OffsetCommitKey", "GroupMetadataKey", "OffsetCommitKey"]


def test_0_3_joins_are_answered_from_memory_while_writes_are_under_way() -> None:
    ctx = Context()
    ctx.hold_writes()
    a = ctx.client("a")
    call = a.enter()
    ctx.advance(DELAY)
    assert (len(ctx.under_way), call.reply.generation_id) == (1, 1)
    ctx.advance(REBALANCE)


# -- whatever a client sends, what is to be written can be written: else the writes of others would fail with it

LONG = "x" * 32_768  # a byte more than a string in a request or a record can have


def times_out(ctx: Context) -> Write:
    """The write under way is in the log, and its time has run out."""
    (write,) = ctx.under_way
    ctx.under_way.clear()
    ctx.run(ctx.shard.written(write, ErrorCode.REQUEST_TIMED_OUT, ctx.now, is_lost=False))
    return write


def settle_late(ctx: Context, write: Write, error: ErrorCode) -> None:
    step = Step(ctx.now)
    ctx.shard.settle_late(write, error, step)
    ctx.run(step)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_0_3_a_commit_whose_time_ran_out_is_under_way_until_the_log_decides(error: ErrorCode) -> None:
    """Else the sweep would take its group away before it takes effect."""
    ctx = Context()
    ctx.hold_writes()
    call = ctx.commit({0: 5})
    write = times_out(ctx)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ctx.shard.offsets.commits_under_way == {"g": 1}
    settle_late(ctx, write, error)
    assert ctx.shard.offsets.commits_under_way == {}
    assert ctx.fetch_offset() == (5 if error is ErrorCode.NONE else -1)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_0_3_a_group_whose_tombstone_is_late_is_back_only_if_that_fails(error: ErrorCode) -> None:
    ctx = Context()
    ctx.commit({0: 5})
    ctx.hold_writes()
    call = ctx.delete_group()
    write = times_out(ctx)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ctx.shard.find("g") is None
    settle_late(ctx, write, error)
    is_back = error is not ErrorCode.NONE
    assert ctx.fetch_offset() == (5 if is_back else -1)
    assert (ctx.shard.find("g") is not None) == is_back
    assert len(ctx.all_events(GroupDeleted)) == (not is_back)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR])
def test_0_3_a_replacement_whose_time_ran_out_is_taken_back_in_the_log_too(error: ErrorCode) -> None:
    """After a restart the member had an id that nobody had been told, and who had the old one was fenced."""
    ctx = Context()
    s, a = ctx.stable(ctx.client("s", instance="i"), "a")
    old = s.member_id
    ctx.hold_writes()
    call = s.restart()
    write = times_out(ctx)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(ctx.group().members) == {old, a.member_id}
    if error is ErrorCode.NONE:
        ctx._append(write)
    settle_late(ctx, write, error)
    assert len(ctx.under_way) == (error is ErrorCode.NONE)
    ctx.durable()
    ctx.restart()
    assert set(ctx.group().members) == {old, a.member_id}


def test_0_3_a_replacement_whose_time_ran_out_is_left_alone_if_the_member_came_again() -> None:
    ctx = Context()
    s, a = ctx.stable(ctx.client("s", instance="i"), "a")
    ctx.hold_writes()
    s.restart()
    write = times_out(ctx)
    call = s.restart()
    ctx._append(write)
    settle_late(ctx, write, ErrorCode.NONE)
    ctx.durable()
    assert call.error is ErrorCode.NONE
    ctx.restart()
    assert set(ctx.group().members) == {s.member_id, a.member_id}


@pytest.mark.parametrize(
    "fields",
    [
        {"group": LONG},
        {"group": "\U0001f600" * 8_192},
        {"protocol_type": LONG},
        {"offered": [("range", b""), (LONG, b"")]},
    ],
)
def test_6_3_a_join_with_a_string_that_no_record_can_have_is_no_request(fields: dict[str, Any]) -> None:
    ctx = Context()
    with pytest.raises(ProtocolError):
        ctx.join(**fields)
    assert ctx.shard.groups == {}


@pytest.mark.parametrize("fields", [{"instance": LONG[37:]}, {"client_id": LONG[37:]}])
def test_6_3_a_join_whose_member_id_no_record_can_have_is_refused(fields: dict[str, Any]) -> None:
    """With a dash and a UUID it is the member id."""
    ctx = Context()
    assert ctx.join(**fields).error is ErrorCode.INVALID_REQUEST
    assert ctx.shard.groups == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"group": LONG[1:]},
        {"group": "\U0001f600" * 8_191},
        {"protocol_type": LONG[1:]},
        {"offered": [(LONG[1:], b"")]},
        {"instance": LONG[38:]},
        {"client_id": LONG[38:]},
    ],
)
def test_6_3_the_longest_strings_are_written(fields: dict[str, Any]) -> None:
    ctx = Context()
    a = ctx.client("a", **fields)
    a.enter()
    ctx.advance(DELAY)
    a.sync()
    ctx.restart()
    group = ctx.group(fields.get("group", "g"))
    assert (group.state, list(group.members)) == (STABLE, [a.member_id])


def test_6_3_a_commit_for_a_group_id_that_no_record_can_have_is_no_request() -> None:
    ctx = Context()
    with pytest.raises(ProtocolError):
        ctx.commit({0: 1, 1: 2}, (LONG, "", -1, None))
    assert ctx.commit({0: 1}, (LONG[1:], "", -1, None)).error is ErrorCode.NONE


@pytest.mark.parametrize("retention", [2**63 - 1, -(2**63), -2, 0])
def test_6_3_any_retention_can_be_written(retention: int) -> None:
    ctx = Context()
    assert ctx.commit({0: 1}, retention_ms=retention, version=4).error is ErrorCode.NONE
    ctx.restart()
    assert ctx.fetch_offset() == 1
