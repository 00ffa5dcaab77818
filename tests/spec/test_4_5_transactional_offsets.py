"""Rules 4.5 and T.65 to T.74: offsets that a group commits within a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.events import CommitRefused
from equipoise.coordinator.offsets.transactional import commit_transactional_offsets
from equipoise.coordinator.step import Caller
from equipoise.simulate import Call
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic
from equipoise.wire.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from equipoise.wire.errors import ErrorCode
from equipoise.wire.schema import ZERO_UUID
from tests.spec.context import RETENTION, SWEEP, TOPIC, Client, Context

NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def ctx() -> Context:
    return Context()


def send(ctx: Context, offsets: dict[int, int], *, producer: int = 1, metadata: str = "", **member: Any) -> Call:
    rows = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
        for index, offset in offsets.items()
    ]
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
        **member,
    )
    call = Call(request, 5)
    assert isinstance(call.request, TxnOffsetCommitRequest)
    caller = Caller(call, 5, call.client_id, call.host)
    ctx.run(commit_transactional_offsets(ctx.shard, call.request, caller, ctx.now, topic_ids={TOPIC: ZERO_UUID}))
    return call


def of(client: Client, **other: Any) -> dict[str, Any]:
    """The member as it speaks of itself."""
    return {
        "generation_id": client.generation_id,
        "member_id": client.member_id,
        "group_instance_id": client.instance,
        **other,
    }


def end(ctx: Context, *, commit: bool, producer: int = 1) -> None:
    ctx.shard.offsets.end_transaction(producer, commit=commit)


def fetched(ctx: Context, partition: int = 0, *, stable: bool = True) -> tuple[ErrorCode, int]:
    asked = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[partition])]
    ((row,),) = [topic.partitions for topic in ctx.shard.fetch_offsets("g", asked, require_stable=stable)]
    return ErrorCode(row.error_code), row.committed_offset


# -- T.65 who may


def test_a_member_of_the_generation_may(ctx: Context) -> None:
    (client,) = ctx.stable("a")
    assert send(ctx, {0: 5}, **of(client)).error is NONE


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_is_no_member_of_the_generation_may_not(ctx: Context, changed: dict[str, Any], error: ErrorCode) -> None:
    (client,) = ctx.stable("a")
    assert send(ctx, {0: 5}, **of(client, **changed)).error is error
    assert fetched(ctx) == (NONE, -1)
    assert ctx.last_event(CommitRefused).group_id == "g"


def test_an_earlier_process_of_a_static_member_is_fenced(ctx: Context) -> None:
    (client,) = ctx.stable(ctx.client("a", instance="i"))
    old = of(client)
    client.restart()
    assert send(ctx, {0: 5}, **old).error is ErrorCode.FENCED_INSTANCE_ID


def test_who_names_no_member_is_believed(ctx: Context) -> None:
    ctx.stable("a")
    assert send(ctx, {0: 5}).error is NONE


@pytest.mark.parametrize("state", [State.STABLE, State.COMPLETING_REBALANCE, State.PREPARING_REBALANCE])
def test_4_5_no_state_of_the_group_refuses_it(ctx: Context, state: State) -> None:
    clients = ctx.completing("a", "b") if state is State.COMPLETING_REBALANCE else ctx.stable("a", "b")
    if state is State.PREPARING_REBALANCE:
        clients[0].join()  # of the leader
    assert ctx.state is state
    assert send(ctx, {0: 5}, **of(clients[1])).error is NONE


def test_an_empty_group_takes_it_from_anybody(ctx: Context) -> None:
    (client,) = ctx.stable("a")
    client.leave()
    assert ctx.state is State.EMPTY
    assert send(ctx, {0: 5}, member_id="gone").error is NONE
    assert send(ctx, {0: 5}, generation_id=1, member_id="gone").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_is_made_for_who_speaks_for_none(ctx: Context) -> None:
    assert send(ctx, {0: 5}, generation_id=3, member_id="m").error is ErrorCode.ILLEGAL_GENERATION
    assert ctx.shard.find("g") is None
    assert send(ctx, {0: 5}).error is NONE
    assert ctx.group().is_simple


def test_long_metadata_is_refused_by_partition(ctx: Context) -> None:
    assert send(ctx, {0: 5}, metadata="x" * 4097).error is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetched(ctx) == (NONE, -1)


def test_it_is_no_heartbeat(ctx: Context) -> None:
    (client,) = ctx.stable("a")
    ctx.advance(5000)
    before = client.deadline
    assert send(ctx, {0: 5}, **of(client)).error is NONE
    assert client.deadline == before


# -- T.67 to T.70 what follows


def test_a_write_that_fails_leaves_nothing(ctx: Context) -> None:
    ctx.hold_writes()
    call = send(ctx, {0: 5})
    assert call.is_parked
    assert fetched(ctx) == (NONE, -1)
    ctx.fail_writes(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert call.error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not ctx.shard.offsets.pending
    end(ctx, commit=True)
    assert fetched(ctx) == (NONE, -1)


def test_pending_offsets_count_for_nobody(ctx: Context) -> None:
    ctx.commit({0: 3, 1: 4})
    send(ctx, {0: 5})
    assert (fetched(ctx), fetched(ctx, stable=False)) == ((UNSTABLE, -1), (NONE, 3))
    assert fetched(ctx, 1) == (NONE, 4)
    assert ctx.fetch_all() == {(TOPIC, 0): 3, (TOPIC, 1): 4}


@pytest.mark.parametrize(("commit", "offset"), [(True, 5), (False, 3)])
def test_the_marker_decides(ctx: Context, commit: bool, offset: int) -> None:
    ctx.commit({0: 3})
    send(ctx, {0: 5})
    end(ctx, commit=commit)
    assert fetched(ctx) == (NONE, offset)


def test_a_later_record_wins_whatever_the_order_of_markers(ctx: Context) -> None:
    send(ctx, {0: 5}, producer=1)
    send(ctx, {0: 6}, producer=2)
    end(ctx, commit=True, producer=2)
    assert fetched(ctx) == (UNSTABLE, -1)
    assert fetched(ctx, stable=False) == (NONE, 6)
    end(ctx, commit=True, producer=1)
    assert fetched(ctx) == (NONE, 6)


def test_an_aborted_record_overtakes_nothing(ctx: Context) -> None:
    send(ctx, {0: 5}, producer=1)
    send(ctx, {0: 6}, producer=2)
    end(ctx, commit=False, producer=2)
    end(ctx, commit=True, producer=1)
    assert fetched(ctx) == (NONE, 5)


def test_a_marker_of_nothing_is_harmless(ctx: Context) -> None:
    end(ctx, commit=True, producer=9)
    assert fetched(ctx) == (NONE, -1)


# -- T.71, T.72 deletion and expiry


@pytest.mark.parametrize("what", ["offset", "group", "topic"])
def test_deletion_takes_pending_offsets_with_it(ctx: Context, what: str) -> None:
    send(ctx, {0: 5, 1: 6})
    if what == "offset":
        assert ctx.delete_offsets(0, 1).error is NONE
    elif what == "group":
        assert ctx.delete_group().error is NONE
    else:
        ctx.delete_topic(TOPIC, ZERO_UUID)
    assert not ctx.shard.offsets.pending
    assert len([record for record in ctx.records if record.value is None and hasattr(record.key, "topic")]) == 2
    end(ctx, commit=True)
    assert fetched(ctx) == (NONE, -1)


def test_what_is_pending_does_not_expire_nor_does_its_group(ctx: Context) -> None:
    ctx.commit({0: 3, 1: 4})
    send(ctx, {0: 5})
    ctx.advance(RETENTION + SWEEP)
    assert ctx.fetch_all() == {(TOPIC, 0): 3}
    assert ctx.shard.find("g") is not None
    end(ctx, commit=False)
    ctx.advance(SWEEP)
    assert ctx.shard.find("g") is None


def test_a_group_with_nothing_but_pending_offsets_stays(ctx: Context) -> None:
    send(ctx, {0: 5})
    ctx.advance(RETENTION + SWEEP)
    assert ctx.shard.find("g") is not None
    end(ctx, commit=True)
    assert fetched(ctx) == (NONE, 5)
