"""Rule A15: classic members inside a `consumer` group."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.events import MemberLeft
from equipoise.coordinator.reasons import Departure
from equipoise.wire.consumer_protocol import (
    MOST_ELEMENTS,
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from equipoise.wire.errors import ErrorCode
from tests.consumer_guests.mixed import REBALANCE_TIMEOUT, TOPIC_ID, Guest, Mixed, Modern
from tests.spec.context import REBALANCE, SESSION, TOPIC, partitions_in, protocols, subscription


def with_modern(**config: object) -> tuple[Mixed, Modern]:
    """A consumer group with one member of the new protocol, which has all six partitions."""
    ctx = Mixed(**config)  # type: ignore[arg-type]
    n = ctx.modern("n")
    n.join()
    assert n.owned == set(range(6))
    return ctx, n


def entered(ctx: Mixed, name: str, **settings: object) -> Guest:
    """A guest that has joined, and not yet synced."""
    guest = ctx.guest(name, **settings)  # type: ignore[arg-type]
    assert guest.enter().error is ErrorCode.NONE
    return guest


# -- JoinGroup


def test_a15_2_the_policy_disabled_takes_no_guests() -> None:
    ctx, _ = with_modern(group_consumer_migration_policy="disabled")
    reply = ctx.guest("a").join().reply
    assert (reply.error_code, reply.member_id, reply.generation_id, reply.protocol_name) == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "",
        -1,
        None,
    )


def test_a15_3_a_full_group_has_no_room_but_for_a_static_member_it_knows() -> None:
    ctx, _ = with_modern(group_consumer_max_size=2)
    s = entered(ctx, "s", instance="i")
    assert ctx.guest("a").join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert s.restart().error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("protocol_type", "names", "error"),
    [
        ("connect", ["cooperative-sticky"], ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", ["range"], ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", ["range", "cooperative-sticky"], ErrorCode.NONE),
    ],
)
def test_a15_4_guests_must_have_a_protocol_in_common(protocol_type: str, names: list[str], error: ErrorCode) -> None:
    ctx, _ = with_modern()
    entered(ctx, "a")
    assert ctx.guest("b").join("b-9", protocol_type=protocol_type, offered=protocols(*names)).error is error


def test_a15_4_the_first_guest_may_offer_anything() -> None:
    ctx, _ = with_modern()
    assert ctx.guest("a").join("a-9", offered=protocols("mine")).error is ErrorCode.NONE


def test_a15_5_a_new_guest_is_given_an_id_that_is_not_remembered() -> None:
    ctx, _ = with_modern()
    a = ctx.guest("a")
    reply = a.join().reply
    assert (reply.error_code, reply.member_id != "") == (ErrorCode.MEMBER_ID_REQUIRED, True)
    assert list(ctx.consumer_group.members) == ["n"]
    assert a.join("any id").error is ErrorCode.NONE
    assert "any id" in ctx.consumer_group.members


def test_a15_5_before_v4_it_joins_at_once() -> None:
    ctx, _ = with_modern()
    assert ctx.guest("a").join(version=3).error is ErrorCode.NONE
    assert len(ctx.consumer_group.members) == 2


def test_a15_6_a_member_of_the_new_protocol_may_turn_classic_and_back() -> None:
    ctx, n = with_modern()
    a = ctx.guest("a")
    a.owned = set(n.owned)
    a.protocols = a.offers()
    assert a.join("n").error is ErrorCode.NONE
    assert ctx.consumer_group.members["n"].classic is not None
    assert ctx.consumer_group.classic_members == 1
    assert n.join().error is ErrorCode.NONE
    assert ctx.consumer_group.classic_members == 0


@pytest.mark.parametrize(("strict", "error"), [(False, ErrorCode.UNKNOWN_MEMBER_ID), (True, ErrorCode.NONE)])
def test_a15_19_who_was_removed_and_claims_partitions_is_told(strict: bool, error: ErrorCode) -> None:
    """Kafka takes it in as a new member, and it goes on with what is another's by then."""
    ctx, _ = with_modern(strict=strict)
    a = ctx.guest("a")
    a.owned = {0, 1}
    a.protocols = a.offers()
    assert a.join("removed").error is error
    assert ("removed" in ctx.consumer_group.members) is strict
    a.owned = set()
    a.protocols = a.offers()
    assert a.join("removed").error is ErrorCode.NONE  # whoever has nothing may have any id


def test_a15_7_static_guests() -> None:
    ctx, _ = with_modern()
    s = entered(ctx, "s", instance="i")
    old = s.member_id
    assert ctx.guest("t", instance="j").join("unknown").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert s.restart().error is ErrorCode.NONE
    assert s.member_id != old
    assert ctx.guest("s", instance="i").join(old).error is ErrorCode.FENCED_INSTANCE_ID


def test_a15_7_a_guest_takes_the_place_of_a_static_member_of_the_new_protocol() -> None:
    ctx, n = with_modern()
    m = ctx.modern("m", instance="i")
    m.join()
    ctx.settle(n, m)
    s = ctx.guest("s", instance="i")
    assert s.join().error is ErrorCode.NONE
    s.sync()
    assert set(partitions_in(s.assignment)) == m.owned
    assert m.beat().error is ErrorCode.FENCED_INSTANCE_ID


def test_a15_8_a_subscription_that_cannot_be_read_is_refused_and_nothing_happens() -> None:
    ctx, _ = with_modern()
    before = ctx.consumer_group.group_epoch
    assert ctx.guest("a").join("x", offered=[("range", b"\x00")]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(ctx.consumer_group.members) == ["n"]
    assert ctx.consumer_group.group_epoch == before


def test_a15_8_a_subscription_that_takes_long_to_read_is_refused_and_nothing_happens() -> None:
    ctx, _ = with_modern()
    metadata = encode_subscription(Subscription(topics=[TOPIC], owned_partitions={TOPIC: list(range(MOST_ELEMENTS))}))
    call = ctx.guest("a").join("x", offered=[("cooperative-sticky", metadata)])
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert list(ctx.consumer_group.members) == ["n"]


def test_a15_9_what_a_guest_says_is_kept() -> None:
    ctx, _ = with_modern()
    a = ctx.guest("a", session=12_000, rebalance=34_000)
    a.join("a-1")
    member = ctx.consumer_group.members["a-1"]
    assert (member.client_id, member.client_host, member.rebalance_timeout_ms) == ("a", "/10.0.0.1", 34_000)
    assert member.subscribed_topic_names == {TOPIC}
    assert member.classic is not None
    assert (member.classic.session_timeout_ms, [name for name, _ in member.classic.protocols]) == (
        12_000,
        ["cooperative-sticky"],
    )


def test_a15_10_a_new_guest_bumps_and_waits_for_what_others_have() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    group = ctx.consumer_group
    assert (group.group_epoch, group.target_epoch, a.generation_id) == (3, 3, 3)
    assert group.members[a.member_id].state is MemberState.UNRELEASED_PARTITIONS
    assert a.sync().error is ErrorCode.NONE
    assert partitions_in(a.assignment) == []
    ctx.settle(n, a)
    assert (len(n.owned), len(a.owned)) == (3, 3)


def test_a15_10_a_rejoin_that_says_the_same_changes_nothing() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    a.sync()
    ctx.settle(n, a)
    before, records = ctx.consumer_group.group_epoch, len(ctx.records)
    a.protocols = a.offers()
    a.join()
    a.sync()
    again = len(ctx.records)
    a.join()
    assert (ctx.consumer_group.group_epoch, len(ctx.records) - again, again - records <= 1) == (before, 0, True)


def test_a15_11_the_answer_names_no_leader() -> None:
    ctx, _ = with_modern()
    reply = ctx.guest("a").join("a-1", offered=protocols("range", "roundrobin")).reply
    assert (reply.leader, reply.members, reply.protocol_type, reply.protocol_name, reply.skip_assignment) == (
        "",
        [],
        "consumer",
        "range",
        False,
    )


def test_a15_11_the_answer_waits_for_the_disk() -> None:
    ctx, _ = with_modern()
    ctx.hold_writes()
    call = ctx.guest("a").join("a-1")
    assert call.is_parked
    ctx.durable()
    assert call.error is ErrorCode.NONE


def test_a15_11_a_failed_write_leaves_all_as_it_was() -> None:
    ctx, _ = with_modern()
    before = ctx.consumer_group.group_epoch
    ctx.hold_writes()
    call = ctx.guest("a").join("a-1")
    ctx.fail_writes()
    assert call.error is not ErrorCode.NONE
    assert (list(ctx.consumer_group.members), ctx.consumer_group.group_epoch) == (["n"], before)


# -- SyncGroup


def test_a15_13_sync_checks() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    assert a.sync(member_id="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.sync(member_id="n").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.sync(generation_id=a.generation_id + 1).error is ErrorCode.ILLEGAL_GENERATION
    assert a.sync(protocol=("connect", None)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert a.sync(protocol=("consumer", "range")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert a.sync(protocol=("consumer", "cooperative-sticky")).error is ErrorCode.NONE
    assert n.beat().error is ErrorCode.NONE


def test_a15_13_a_target_that_is_overtaken_is_told() -> None:
    ctx, _ = with_modern()
    a = entered(ctx, "a")
    ctx.modern("m").join()
    assert a.sync().error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a15_13_who_has_to_give_something_up_hears_what_is_left() -> None:
    ctx = Mixed()
    a, _ = ctx.guests("a", "b")
    ctx.modern("n").join()
    generation = a.generation_id
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.rejoin().reply.generation_id == generation
    a.sync()
    assert set(partitions_in(a.assignment)) < a.owned
    assert ctx.consumer_group.members[a.member_id].state is MemberState.UNREVOKED_PARTITIONS


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a15_13_the_assignment_is_in_the_version_of_the_subscription(version: int) -> None:
    ctx = Mixed()
    ctx.modern("n", topics=("other",)).join()
    a = entered(ctx, "a", metadata_version=version)
    a.sync()
    assert a.assignment == encode_assignment(Assignment(assigned_partitions={TOPIC: [*range(6)]}), version)


# -- Heartbeat


def test_a15_14_heartbeat_checks() -> None:
    ctx, _ = with_modern()
    a = entered(ctx, "a")
    a.sync()
    assert a.heartbeat(member_id="n").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat(member_id="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat(generation_id=1).error is ErrorCode.ILLEGAL_GENERATION
    s = entered(ctx, "s", instance="i")
    assert s.heartbeat(member_id=a.member_id).error is ErrorCode.FENCED_INSTANCE_ID


def test_a15_14_a_guest_that_waits_is_well_until_all_is_free() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    a.sync()
    assert a.heartbeat().error is ErrorCode.NONE
    n.live()
    assert a.heartbeat().error is ErrorCode.NONE
    n.live()
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    a.rejoin_and_sync()
    assert len(a.owned) == 3
    assert a.heartbeat().error is ErrorCode.NONE


def test_a15_14_a_group_epoch_without_a_target_calls_nobody() -> None:
    ctx, n = with_modern(group_consumer_assignment_interval_ms=5_000)
    a = entered(ctx, "a")
    a.sync()
    assert ctx.consumer_group.group_epoch > ctx.consumer_group.target_epoch
    assert a.heartbeat().error is ErrorCode.NONE
    assert n.beat().error is ErrorCode.NONE


def test_a15_16_an_eager_guest_has_given_up_with_its_join() -> None:
    ctx = Mixed()
    a, b = ctx.guests("a", "b", eager=True)
    n = ctx.modern("n")
    n.join()
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    a.rejoin_and_sync()
    assert len(a.owned) == 2
    ctx.settle(a, b, n)
    assert [len(one.owned) for one in (a, b, n)] == [2, 2, 2]


# -- timers


def test_a11_a_silent_guest_goes_after_its_own_session() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a", session=20_000)
    a.sync()
    ctx.settle(n, a)
    ctx.advance(19_999)
    assert a.member_id in ctx.consumer_group.members
    ctx.advance(1)
    assert a.member_id not in ctx.consumer_group.members
    assert (ctx.last_event(MemberLeft).departure, ctx.last_event(MemberLeft).limit_ms) == (
        Departure.SESSION_EXPIRED,
        20_000,
    )


def beat_for(ctx: Mixed, ms: int, *clients: Guest | Modern) -> None:
    for _ in range(ms // 5_000):
        ctx.advance(5_000)
        for one in clients:
            if isinstance(one, Guest):
                one.heartbeat()
            else:
                one.beat()


def test_a11_a_guest_that_is_told_to_rejoin_and_does_not_goes() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    a.sync()
    ctx.settle(n, a)
    m = ctx.modern("m")
    m.join()
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    beat_for(ctx, REBALANCE - 5_000, a, m)
    assert a.member_id in ctx.consumer_group.members
    beat_for(ctx, 5_000, a, m)
    assert a.member_id not in ctx.consumer_group.members
    departures = {one.who.member_id: one.departure for one in ctx.all_events(MemberLeft)}
    assert departures[a.member_id] is Departure.JOIN_EXPIRED


def test_a11_a_guest_that_never_asks_for_its_assignment_goes() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a", session=10_000)
    beat_for(ctx, REBALANCE - 5_000, a, n)
    assert a.member_id in ctx.consumer_group.members
    beat_for(ctx, 5_000, a, n)
    assert a.member_id not in ctx.consumer_group.members
    assert ctx.last_event(MemberLeft).departure is Departure.SYNC_EXPIRED


def test_a11_a_guest_that_has_turned_to_the_new_protocol_is_not_looked_for() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    ctx.modern(a.member_id).join()
    beat_for(ctx, REBALANCE, n, turned := ctx.modern(a.member_id))
    turned.join()
    assert a.member_id in ctx.consumer_group.members


# -- LeaveGroup, commits


def test_a15_17_any_member_may_be_taken_out() -> None:
    ctx, _ = with_modern()
    m = ctx.modern("m", instance="i")
    m.join()
    a = entered(ctx, "a")
    call = ctx.leave(("n", None), ("", "i"), ("nobody", None))
    assert call.member_errors == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(ctx.shard.groups["g"].members) == [a.member_id]


def test_a17_a_guest_commits_by_its_epoch() -> None:
    ctx, n = with_modern()
    a = entered(ctx, "a")
    a.sync()
    ctx.settle(n, a)
    (owned,) = [sorted(a.owned)]
    assert a.commit({owned[0]: 7}, topic_id=TOPIC_ID).error is ErrorCode.NONE
    before = a.generation_id
    ctx.modern("m").join()
    a.rejoin_and_sync()
    assert a.commit({0: 1}, topic_id=TOPIC_ID, generation_id=a.generation_id + 1).error is ErrorCode.ILLEGAL_GENERATION
    kept = sorted(a.owned)[0]
    assert a.commit({kept: 8}, topic_id=TOPIC_ID, generation_id=before).error is ErrorCode.NONE


def test_a15_18_an_empty_group_knows_nobody() -> None:
    ctx, n = with_modern()
    n.leave()
    assert ctx.heartbeat(("g", "a", 1, None)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ctx.sync(("g", "a", 1, None), {}).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert ctx.join("a-1", offered=protocols("range", metadata=subscription())).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_sessions_of_context_are_shorter_than_rebalances() -> None:
    """What the timers above rest on."""
    assert SESSION < REBALANCE == REBALANCE_TIMEOUT
