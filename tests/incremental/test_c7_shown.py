"""Rule C7: what is written of an incremental group, and what tools see."""

from __future__ import annotations

from equipoise.coordinator.consumer.describe import describe_consumer_group
from equipoise.coordinator.journal import Wait
from equipoise.coordinator.reasons import Trigger
from equipoise.coordinator.shard import Shard
from equipoise.wire.consumer_protocol import decode_subscription
from equipoise.wire.errors import ErrorCode
from tests.incremental.stage import Kept
from tests.spec.context import TOPIC, partitions_in

NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


def types(ctx: Kept, since: int = 0) -> list[str]:
    return [f"{key.versions.last}{'t' if value is None else ''}" for key, value in ctx.written(since)]


def test_c7_1_the_records_are_those_of_a_consumer_group_of_classic_members() -> None:
    ctx = Kept()
    ctx.members("a", "b")
    assert types(ctx)[-10:] == ["2", "2t", "5", "5", "3", "7", "7", "6", "8", "8"]
    since = len(ctx.written())
    ctx.entered("c")
    assert types(ctx, since) == ["5", "3", "7", "7", "7", "6", "8"]


def test_c7_1_replay_is_memory() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    b.sync()
    a.again()
    read = Shard(ctx.config, lambda: "x")
    for record in ctx.records:
        read.apply(record, ctx.now)
    assert read.consumer_groups == ctx.shard.consumer_groups


def test_c7_2_a_restart_keeps_the_mode() -> None:
    ctx = Kept()
    ctx.members("a", "b")
    ctx.restart()
    assert (ctx.is_classic, ctx.consumer_group.incremental is not None) == (False, True)


def test_c7_3_it_is_listed_as_a_classic_group() -> None:
    ctx = Kept()
    ctx.members("a")
    (row,) = ctx.list(types=["classic"])
    assert (row.group_type, row.protocol_type, row.group_state) == ("classic", "consumer", "Stable")
    assert ctx.list(types=["consumer"]) == []
    assert [one.group_id for one in ctx.list(states=["Stable"])] == ["g"]
    described = describe_consumer_group(ctx.shard, "g")
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )


def test_c7_4_it_is_described_in_every_state() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    b = ctx.entered("b")
    b.sync()
    assert a.told is REJOIN
    a.again()
    a.got()
    described = ctx.describe()
    assert (described.error_code, described.protocol_type, described.protocol_data) == (
        NONE,
        "consumer",
        "cooperative-sticky",
    )
    rows = {row.member_id: row for row in described.members}
    assert partitions_in(rows[a.member_id].member_assignment) == [*range(6)]  # what it has still to give up counts
    assert decode_subscription(rows[a.member_id].member_metadata).topics == [TOPIC]
    assert (rows[a.member_id].client_id, rows[a.member_id].client_host) == ("a", "/10.0.0.1")


def test_c7_5_the_states_on_the_way() -> None:
    ctx = Kept()
    (a,) = ctx.members("a")
    assert ctx.word == "Stable"
    b = ctx.entered("b")
    call = b.sync()
    assert ctx.word == "CompletingRebalance"
    assert a.told is REJOIN
    assert ctx.word == "PreparingRebalance"
    a.again()
    a.got()
    assert ctx.word == "CompletingRebalance"
    a.again()
    a.got()
    b.late(call)
    assert ctx.word == "Stable"
    a.leave()
    b.leave()
    assert ctx.word == "Empty"


def test_c7_6_a_member_of_the_consumer_protocol_joins_and_leaves() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    n = ctx.modern("n")
    assert n.join().error is NONE
    assert ctx.list()[0].group_type == "consumer"
    called = [one.told for one in (a, b)]
    assert called == [REJOIN, REJOIN]
    a.again()
    a.got()
    a.again()
    a.got()
    assert a.told is NONE
    b.again()
    b.got()
    b.again()
    b.got()
    n.live()
    assert sorted((*a.owned, *b.owned, *n.owned)) == [*range(6)]
    epoch = ctx.consumer_group.group_epoch
    n.leave()
    ctx.advance(1)
    assert (ctx.list()[0].group_type, ctx.is_classic, ctx.consumer_group.group_epoch) == ("classic", False, epoch + 1)
    ctx.settle(a, b)
    assert (a.losses, b.losses, sorted((*a.owned, *b.owned))) == ([], [], [*range(6)])


def test_c7_6_the_policy_may_forbid_it() -> None:
    ctx = Kept(group_consumer_migration_policy="downgrade")
    ctx.members("a")
    assert ctx.modern("n").join().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert ctx.modern("n").beat(member_epoch=3).error is ErrorCode.GROUP_ID_NOT_FOUND


def test_c7_6_a_newcomer_that_is_not_eligible_makes_the_others_guests() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    ctx.modern("n").join()
    c = ctx.guest("c", metadata_version=3)
    c.protocols = [("cooperative-sticky", c.offer(user_data=b"other").protocols[0][1])]
    assert c.enter().error is NONE
    assert ctx.consumer_group.incremental is None
    assert (a.told, b.told) == (REJOIN, REJOIN)


def test_c7_7_the_journal_has_one_entry_per_target() -> None:
    ctx = Kept()
    a, b = ctx.members("a", "b")
    c = ctx.entered("c")
    call = c.sync()
    ctx.advance(10)
    a.yield_up()
    ctx.advance(20)
    b.yield_up()
    c.late(call)
    group = ctx.consumer_group
    while group.journal.settle() is not None:
        pass
    first, entry = group.journal.entries
    assert (first.generation, first.is_target) == (1, False)
    assert (entry.old_generation, entry.generation, entry.is_target) == (1, 2, True)
    assert (entry.cause.trigger, entry.cause.who.member_id) == (Trigger.MEMBER_JOINED, c.member_id)
    assert set(entry.moved.values()) == {(a.member_id, c.member_id), (b.member_id, c.member_id)}
    assert entry.called[a.member_id] == 10
    assert entry.called[b.member_id] == 30
    assert entry.waits == [Wait(c.member_id, b.member_id, 1, 30), Wait(c.member_id, a.member_id, 1, 10)]
