"""Rule A16: a group changes its kind while it has members."""

from __future__ import annotations

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k13_leave_group import MemberIdentity
from equipoise.wire.consumer_protocol import Assignment, encode_assignment
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord, encode_key
from tests.consumer_guests.mixed import REBALANCE_TIMEOUT, TOPIC_ID, Guest, Mixed, Modern
from tests.spec.context import DELAY, TOPIC, Client, assignment, partitions_in, protocols

POLICIES = ["bidirectional", "upgrade", "downgrade", "disabled"]


def kinds(ctx: Mixed, since: int = 0) -> list[str]:
    """The records by the number of their key, t behind a tombstone's."""
    return [kind(record) for record in ctx.records[since:]]


def kind(record: CoordinatorRecord) -> str:
    number = int.from_bytes(encode_key(record.key)[:2], "big")
    return f"{number}{'t' if record.value is None else ''}"


def members_of(ctx: Mixed) -> dict[str, ConsumerGroupMember]:
    return ctx.consumer_group.members


# -- without members


@pytest.mark.parametrize("policy", POLICIES)
def test_a16_8_an_empty_classic_group_gives_way_and_its_offsets_stay(policy: str) -> None:
    ctx = Mixed(group_consumer_migration_policy=policy)
    (a,) = ctx.guests("a")
    a.commit({0: 7}, topic_id=TOPIC_ID)
    a.leave()
    assert ctx.modern("n").join().error is ErrorCode.NONE
    assert ctx.fetch_offset(0, topic_id=TOPIC_ID) == 7


@pytest.mark.parametrize("policy", POLICIES)
def test_a16_8_an_empty_consumer_group_gives_way_and_its_offsets_stay(policy: str) -> None:
    ctx = Mixed(group_consumer_migration_policy=policy)
    n = ctx.modern("n")
    n.join()
    ctx.commit({0: 7}, ("g", "n", n.generation_id, None), topic_id=TOPIC_ID, version=9)
    n.leave()
    (a,) = ctx.guests("a")
    assert (ctx.state, a.generation_id, ctx.fetch_offset(0, topic_id=TOPIC_ID)) == (State.STABLE, 1, 7)


def test_a16_8_the_tombstones_come_first() -> None:
    ctx = Mixed()
    n = ctx.modern("n")
    n.join()
    n.leave()
    since = len(ctx.records)
    ctx.guest("a").join()
    assert kinds(ctx, since) == ["6t", "4t", "3t", "2"]
    ctx.restart()
    assert ctx.is_classic


# -- upgrade


def test_a16_1_policies_without_upgrade_refuse_with_a_text() -> None:
    for policy in ("downgrade", "disabled"):
        ctx = Mixed(group_consumer_migration_policy=policy)
        ctx.guests("a", "b")
        reply = ctx.modern("n").join().reply
        assert reply.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert reply.error_message == (
            "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
        )
        assert ctx.state is State.STABLE


def test_a16_1_another_protocol_type_is_refused() -> None:
    ctx = Mixed()
    Client(ctx, "a").enter(protocol_type="connect", offered=protocols("range"))
    reply = ctx.modern("n").join().reply
    assert "does not use the consumer embedded protocol" in reply.error_message


def test_a16_1_a_group_that_is_too_large_is_refused() -> None:
    ctx = Mixed(group_consumer_max_size=2)
    ctx.guests("a", "b", "c")
    assert "exceeds the consumer group maximum size" in ctx.modern("n").join().reply.error_message


def test_a16_1_a_custom_assignor_is_refused_until_its_member_has_left() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    custom = encode_assignment(Assignment(assigned_partitions={TOPIC: [0]}, user_data=b"mine"))
    ctx.group().members[b.member_id].assignment = custom
    assert "unsupported custom assignor" in ctx.modern("n").join().reply.error_message
    b.leave()
    a.rejoin()
    a.sync({a: assignment(*range(6))})
    assert ctx.modern("n").join().error is ErrorCode.NONE


@pytest.mark.parametrize("what", ["subscription", "assignment"])
def test_a16_1_bytes_that_cannot_be_read_are_refused(what: str) -> None:
    ctx = Mixed()
    _, b = ctx.guests("a", "b")
    member = ctx.group().members[b.member_id]
    if what == "subscription":
        member.protocols = [("cooperative-sticky", b"\x00")]
    else:
        member.assignment = b"\x00"
    reply = ctx.modern("n").join().reply
    assert (reply.error_code, "malformed" in reply.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, True)
    assert ctx.state is State.STABLE


def test_a16_3_members_keep_generation_and_assignment() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    n = ctx.modern("n")
    assert n.join().error is ErrorCode.NONE
    group = ctx.consumer_group
    assert (group.group_epoch, group.target_epoch) == (a.generation_id + 1, a.generation_id + 1)
    for one in (a, b):
        member = group.members[one.member_id]
        assert (member.state, member.member_epoch, member.previous_member_epoch) == (MemberState.STABLE, 1, 1)
        assert member.assigned == {(TOPIC_ID, number): 1 for number in one.owned}
        assert member.classic is not None
    assert (n.generation_id, n.owned) == (2, set())


def test_a23_4_the_journal_goes_on_and_guests_have_what_they_had() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    classic = len(ctx.group().journal.entries)
    n = ctx.modern("n")
    n.join()
    ctx.settle(a, b, n)
    upgraded = ctx.consumer_group.journal
    entry = upgraded.entries[-1]
    assert len(upgraded.entries) == classic + 1
    assert {owner for _, owner in entry.moved.values()} == {"n"}
    assert {before for before, _ in entry.moved.values()} <= {a.member_id, b.member_id}
    assert (len(entry.moved), entry.kept, entry.revoked) == (2, 4, [])
    assert entry.called.keys() == {a.member_id, b.member_id, "n"}
    n.leave()
    assert ctx.is_classic
    assert list(ctx.group().journal.entries)[: classic + 1] == list(upgraded.entries)


def test_a16_4_the_records_are_one_batch_in_kafkas_order() -> None:
    ctx = Mixed()
    ctx.guests("a", "b")
    ctx.hold_writes()
    ctx.modern("n").join()
    (write,) = ctx.under_way
    found = [kind(record) for record in write.records]
    upgrade, own = found[:9], found[9:]
    assert upgrade == ["2t", "5", "5", "3", "7", "7", "6", "8", "8"]
    assert own == ["5", "3", "7", "7", "7", "6", "8"]


def test_a16_4_the_log_reads_back_as_what_was_in_memory() -> None:
    ctx = Mixed()
    ctx.guests("a", "b")
    ctx.modern("n").join()
    before = ctx.consumer_group
    ctx.restart()
    assert ctx.consumer_group == before
    assert not ctx.is_classic


def test_a16_4_an_upgrade_that_cannot_be_written_has_not_happened() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    ctx.hold_writes()
    call = ctx.modern("n").join()
    ctx.fail_writes()
    assert call.error is not ErrorCode.NONE
    assert ctx.state is State.STABLE
    assert (a.heartbeat().error, b.heartbeat().error) == (ErrorCode.NONE, ErrorCode.NONE)
    ctx.advance(10_000)
    assert ctx.state is not State.STABLE


@pytest.mark.parametrize("phase", ["preparing", "completing"])
def test_a16_2_who_waits_is_told_to_rejoin(phase: str) -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    call = a.join()
    if phase == "completing":
        b.join()
        call = b.sync()
    assert call.is_parked
    n = ctx.modern("n")
    assert n.join().error is ErrorCode.NONE
    assert call.error is ErrorCode.REBALANCE_IN_PROGRESS
    for one in (a, b):
        one.rejoin_and_sync()
    ctx.settle(a, b, n)
    assert [len(one.owned) for one in (a, b, n)] == [2, 2, 2]


@pytest.mark.parametrize("strict", [False, True])
def test_a16_3_in_a_rebalance_that_was_overtaken_members_have_what_they_claim(strict: bool) -> None:
    """Their assignments are reset, but cooperative members go on with their partitions. Kafka gives them away."""
    ctx = Mixed(strict=strict)
    a, b = ctx.guests("a", "b")
    ctx.guest("c").enter()
    for one in (a, b):
        one.rejoin()
    assert ctx.state is State.COMPLETING_REBALANCE
    ctx.guest("d").enter()
    assert not ctx.group().members[a.member_id].assignment
    n = ctx.modern("n")
    n.join()
    assert set(n.owned).isdisjoint(a.owned | b.owned) is not strict


@pytest.mark.parametrize(
    ("config", "regex", "error"),
    [
        ({}, "([", ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"group_consumer_max_size": 2}, None, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
@pytest.mark.parametrize("waiting", ["held", "parked"])
def test_a16_2_a_newcomer_that_is_refused_disturbs_nobody(
    config: dict[str, int], regex: str | None, error: ErrorCode, waiting: str
) -> None:
    """Its answers cannot be taken back: they are given when nothing can refuse it any more."""
    ctx = Mixed(**config)
    a, b = ctx.guests("a", "b")
    if waiting == "parked":
        a.join()
        b.join()
    calls = [b.sync() if waiting == "parked" else b.heartbeat(hold_ms=3_000), a.heartbeat(hold_ms=3_000)]
    state, deadline = ctx.state, ctx.shard.timers.deadline(TimerKey(TimerKind.SESSION, "g", a.member_id))
    ctx.advance(100)
    refused = ctx.modern("n").join(**({} if regex is None else {"subscribed_topic_regex": regex}))
    assert (refused.error, ctx.is_classic, ctx.state) == (error, True, state)
    assert calls[0].is_parked
    assert calls[1].is_parked is (waiting == "held")
    assert ctx.shard.timers.deadline(TimerKey(TimerKind.SESSION, "g", a.member_id)) == deadline


def test_a16_2_a_member_that_changes_its_protocol_is_told_too() -> None:
    """A static member that comes back with the other protocol: its old heartbeat is answered, its new id lives."""
    ctx = Mixed()
    a, b = ctx.guest("a", instance="A"), ctx.guest("b")
    for one in (a, b):
        one.enter()
    ctx.advance(2 * DELAY)
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment(3, 4, 5)})
    held = [a.heartbeat(hold_ms=3_000), b.heartbeat(hold_ms=3_000)]
    n = ctx.modern("n", instance="A")
    assert n.join().error is ErrorCode.NONE
    assert [one.error for one in held] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert ctx.consumer_group.presence.keys() == {b.member_id, "n"}


def test_a16_2_the_timers_of_the_classic_group_do_no_harm() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    a.join()
    n = ctx.modern("n")
    n.join()
    for one in (a, b):
        one.rejoin_and_sync()
    for _ in range(15):
        ctx.advance(5_000)
        ctx.settle(a, b, n)
    assert len(members_of(ctx)) == 3


def test_a16_15_the_timers_of_guests_do_not_end_a_join_phase() -> None:
    """A guest that is told to rejoin comes back under another id; its old timer is for nobody."""
    ctx = Mixed()
    a, b = ctx.guest("a", instance="A"), ctx.guest("b")
    for one in (a, b):
        one.enter()
    ctx.advance(2 * DELAY)
    b.sync()
    a.sync({a: assignment(0, 1, 2), b: assignment(3, 4, 5)})
    a.owned, b.owned = {0, 1, 2}, {3, 4, 5}
    n = ctx.modern("n")
    n.join()
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    told, a.owned = ctx.now, set[int]()
    a.protocols = a.offers()
    a.join("")
    ctx.settle(a, b, n)
    n.leave()
    ctx.settle(a, b)
    while ctx.now < told + REBALANCE_TIMEOUT - 2_500:
        ctx.advance(2_500)
        assert {a.heartbeat().error, b.heartbeat().error} == {ErrorCode.NONE}
    a.join(protocols=protocols("cooperative-sticky", "range"))
    ctx.advance(5_000)
    assert (ctx.state, len(ctx.group().members)) == (State.PREPARING_REBALANCE, 2)


@pytest.mark.parametrize("kind", [TimerKind.JOIN, TimerKind.SYNC])
def test_a16_15_a_timer_of_a_guest_is_none_of_the_classic_group(kind: TimerKind) -> None:
    """Also if there was no downgrade, but an upgrade that was undone."""
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    b.join(protocols=protocols("cooperative-sticky", "range"))
    if kind is TimerKind.SYNC:
        a.join()
    state = ctx.state
    ctx.shard.timers.arm(TimerKey(kind, "g", a.member_id), ctx.now + 1)
    ctx.advance(10)
    assert (ctx.state, len(ctx.group().members)) == (state, 2)


def test_a16_6_topics_that_are_gone_are_dropped() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b")
    ctx.group().members[a.member_id].assignment = assignment(0, 1, 2, topic="gone")
    ctx.modern("n").join()
    assert (members_of(ctx)[a.member_id].assigned, len(members_of(ctx)[b.member_id].assigned)) == ({}, 3)


def test_a16_7_during_the_initial_delay_it_is_accepted() -> None:
    ctx = Mixed()
    a = ctx.guest("a")
    call = a.enter()
    assert call.is_parked
    n = ctx.modern("n")
    assert n.join().error is ErrorCode.NONE
    assert call.error is ErrorCode.REBALANCE_IN_PROGRESS
    a.rejoin_and_sync()
    ctx.settle(a, n)
    assert (len(a.owned), len(n.owned)) == (3, 3)
    ctx.advance(DELAY)


def test_a16_7_strict_is_kafka() -> None:
    ctx = Mixed(strict=True)
    ctx.guest("a").enter()
    assert ctx.modern("n").join().error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a11_sessions_go_on_with_the_timeouts_of_the_members() -> None:
    ctx = Mixed()
    a, _ = ctx.guests("a", "b", session=20_000)
    n = ctx.modern("n")
    n.join()
    ctx.advance(19_999)
    assert a.member_id in members_of(ctx)
    ctx.advance(1)
    assert list(members_of(ctx)) == ["n"]


# -- downgrade


def mixed_group(**config: object) -> tuple[Mixed, Guest, Guest, Modern]:
    """Two guests and one member of the new protocol, settled."""
    ctx = Mixed(**config)  # type: ignore[arg-type]
    a, b = ctx.guests("a", "b")
    n = ctx.modern("n")
    n.join()
    ctx.settle(a, b, n)
    return ctx, a, b, n


def test_a16_9_the_last_one_leaves_and_the_group_is_classic_again() -> None:
    ctx, a, b, n = mixed_group()
    epoch, since = ctx.consumer_group.group_epoch, len(ctx.records)
    n.leave()
    group = ctx.group()
    assert (group.state, group.generation_id, group.protocol_name) == (
        State.PREPARING_REBALANCE,
        epoch,
        "cooperative-sticky",
    )
    assert kinds(ctx, since) == ["8t", "8t", "8t", "7t", "7t", "7t", "6t", "5t", "5t", "5t", "4t", "3t", "2"]
    ctx.settle(a, b)
    assert (ctx.state, sorted([*a.owned, *b.owned])) == (State.STABLE, [*range(6)])


def test_a16_9_each_has_its_target_in_the_version_of_its_subscription() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b", metadata_version=1)
    n = ctx.modern("n")
    n.join()
    ctx.settle(a, b, n)
    owned = {one.member_id: sorted(one.owned) for one in (a, b)}
    n.leave()
    for member_id, member in ctx.group().members.items():
        expected = Assignment(assigned_partitions={TOPIC: owned[member_id]})
        assert member.assignment == encode_assignment(expected, 1)


def test_a16_9_the_log_reads_back_as_a_classic_group() -> None:
    ctx, a, b, n = mixed_group()
    n.leave()
    ctx.restart()
    assert ctx.is_classic
    assert (ctx.state, sorted(ctx.group().members)) == (State.STABLE, sorted([a.member_id, b.member_id]))


def leave(ctx: Mixed, n: Modern) -> None:
    n.leave()


def expire(ctx: Mixed, n: Modern) -> None:
    for _ in range(9):
        ctx.advance(5_000)
        for member in list(ctx.consumer_group.members.values()) if not ctx.is_classic else ():
            if member.classic is not None:
                ctx.heartbeat(("g", member.member_id, member.member_epoch, None))


def exceed(ctx: Mixed, n: Modern) -> None:
    """It does not give up what it is asked for."""
    m = ctx.modern("m")
    m.join()
    n.beat()
    m.leave()
    for _ in range(REBALANCE_TIMEOUT // 5_000):
        ctx.advance(5_000)
        for member in list(ctx.consumer_group.members.values()) if not ctx.is_classic else ():
            if member.classic is not None:
                ctx.heartbeat(("g", member.member_id, member.member_epoch, None))
            else:
                n.beat()


def remove(ctx: Mixed, n: Modern) -> None:
    ctx.leave(("n", None))


@pytest.mark.parametrize("way", [leave, expire, remove, exceed])
def test_a16_13_every_way_out_downgrades(way: object) -> None:
    ctx, a, b, n = mixed_group(group_consumer_assignment_interval_ms=0)
    way(ctx, n)  # type: ignore[operator]
    assert ctx.is_classic
    assert set(ctx.group().members) <= {a.member_id, b.member_id}


def test_a16_12_without_the_policy_it_stays_a_consumer_group_and_works() -> None:
    for config in ({"group_consumer_migration_policy": "upgrade"}, {"group_max_size": 1}):
        ctx = Mixed(**config)
        n = ctx.modern("n")
        n.join()
        a, b = ctx.guest("a"), ctx.guest("b")
        a.enter()
        b.enter()
        ctx.settle(a, b, n)
        n.leave()
        assert not ctx.is_classic
        c = ctx.guest("c")
        assert c.enter().error is ErrorCode.NONE
        c.sync()
        c.take(partitions_in(c.assignment))
        ctx.settle(a, b, c)
        assert [len(one.owned) for one in (a, b, c)] == [2, 2, 2]


def test_a16_10_a_static_successor_of_the_last_one_needs_no_rebalance() -> None:
    ctx = Mixed()
    a = ctx.guest("a")
    n = ctx.modern("n", instance="i")
    n.join()
    a.enter()
    a.sync()
    ctx.settle(a, n)
    n.leave(epoch=-2)
    s = ctx.guest("s", instance="i")
    generation = s.restart().reply.generation_id
    assert (ctx.state, ctx.group().generation_id) == (State.STABLE, generation)
    assert s.sync().error is ErrorCode.NONE
    assert len(partitions_in(s.assignment)) == 3
    assert (a.heartbeat().error, s.heartbeat().error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert {*a.owned, *partitions_in(s.assignment)} == set(range(6))


def test_a16_10_with_other_topics_it_needs_one() -> None:
    ctx = Mixed()
    a = ctx.guest("a")
    n = ctx.modern("n", instance="i", topics=("other",))
    n.join()
    a.enter()
    a.sync()
    ctx.settle(a, n)
    n.leave(epoch=-2)
    assert ctx.guest("s", instance="i").restart().error is ErrorCode.NONE
    assert ctx.state is State.PREPARING_REBALANCE


def test_a16_11_a_member_whose_epoch_lags_is_told_to_rejoin_and_may_commit() -> None:
    ctx, a, b, n = mixed_group()
    m = ctx.modern("m")
    m.join()
    m.leave()
    n.leave()
    assert a.generation_id < ctx.group().generation_id
    first = sorted(a.owned)[0]
    assert a.commit({first: 5}, topic_id=TOPIC_ID).error is ErrorCode.NONE
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.sync().error is ErrorCode.REBALANCE_IN_PROGRESS
    old = a.generation_id
    a.rejoin()
    b.rejoin()
    assert a.heartbeat(generation_id=old).error is ErrorCode.ILLEGAL_GENERATION


def test_a16_11_strict_is_kafka() -> None:
    ctx, a, _, n = mixed_group(strict=True)
    m = ctx.modern("m")
    m.join()
    m.leave()
    n.leave()
    assert a.heartbeat().error is ErrorCode.ILLEGAL_GENERATION


def test_a16_9_a_downgrade_that_cannot_be_written_has_not_happened() -> None:
    ctx, a, b, n = mixed_group()
    before = ctx.consumer_group
    ctx.hold_writes()
    call = ctx.stranger().remove(MemberIdentity(member_id="n"))
    waiting = a.rejoin()
    assert waiting.is_parked
    ctx.fail_writes()
    assert call.error is not ErrorCode.NONE
    assert waiting.error is not ErrorCode.NONE
    assert ctx.consumer_group is before
    ctx.settle(a, b, n)
    assert [len(one.owned) for one in (a, b, n)] == [2, 2, 2]


def test_a16_14_it_can_be_upgraded_again() -> None:
    ctx, a, b, n = mixed_group()
    n.leave()
    ctx.settle(a, b)
    assert ctx.modern("m").join().error is ErrorCode.NONE
    assert not ctx.is_classic


# -- the whole way


@pytest.mark.parametrize("eager", [False, True])
def test_rolling_upgrade_and_back(eager: bool) -> None:
    """Each member is replaced in turn, forth and back; at no step has a partition two owners."""
    ctx = Mixed(partitions=7)
    classic = ctx.guests("a", "b", "c", eager=eager)
    modern: list[Modern] = []
    for old in [*classic]:
        old.leave()
        old.owned = set()
        classic.remove(old)
        ctx.settle(*classic, *modern)
        new = ctx.modern(f"n{len(modern)}")
        new.join()
        modern.append(new)
        ctx.settle(*classic, *modern)
        both: list[Guest | Modern] = [*classic, *modern]
        assert sorted(number for one in both for number in one.owned) == [*range(7)]
    assert ctx.consumer_group.classic_members == 0
    for new in [*modern]:
        new.leave()
        modern.remove(new)
        ctx.settle(*classic, *modern)
        guest = ctx.guest(f"c{len(classic)}", eager=eager)
        guest.enter()
        classic.append(guest)
        ctx.settle(*classic, *modern)
    ctx.settle(*classic)
    assert ctx.is_classic
    assert ctx.state is State.STABLE
    assert sorted(number for guest in classic for number in guest.owned) == [*range(7)]
    assert [guest.losses for guest in classic] == [[], [], []]
