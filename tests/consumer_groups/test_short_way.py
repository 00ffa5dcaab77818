"""A heartbeat that changes nothing goes a short way; an answer waits for what it rests on."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.consumer_groups.stage import SESSION, Member, Stage, settle


def interval(member: Member, client: str | None = None, host: str = "/h", **fields: Any) -> int | None:
    known = {"group_id": "g", "member_id": member.member_id, "member_epoch": member.epoch, **fields}
    request = ConsumerGroupHeartbeatRequest(**known)
    return member.stage.shard.quiet_interval(request, client or member.client_id, host, member.stage.now)


def pair() -> tuple[Stage, Member, Member]:
    stage = Stage(t=4)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    b.join("t")
    settle(stage, a, b)
    return stage, a, b


def test_the_short_way_is_a_sign_of_life_and_nothing_else() -> None:
    """Rule A5.10."""
    stage, a, b = pair()
    written = len(stage.log)
    for _ in range(3):
        stage.advance(SESSION - 2_000)
        assert (interval(a), interval(b)) == (5_000, 5_000)
    assert (set(stage.group.members), len(stage.log)) == ({"a", "b"}, written)


@pytest.mark.parametrize(
    "fields",
    [
        {"member_epoch": 2},
        {"member_epoch": 0},
        {"member_id": "x"},
        {"group_id": "x"},
        {"client": "other"},
        {"host": "/other"},
        {"instance_id": "i"},
        {"rack_id": "r"},
        {"rebalance_timeout_ms": 1},
        {"subscribed_topic_names": ["t"]},
        {"subscribed_topic_regex": ""},
        {"server_assignor": "range"},
        {"topic_partitions": []},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_whoever_says_something_goes_the_whole_way(fields: dict[str, Any]) -> None:
    _, a, _ = pair()
    assert interval(a, **fields) is None


def test_news_go_the_whole_way() -> None:
    stage, a, b = pair()
    stage.set_topics(t=5)
    assert interval(a) is None
    a.beat()
    assert interval(b) is None
    settle(stage, a, b)
    assert interval(b) == 5_000
    b.leave()
    assert interval(a) is None


def test_an_answer_waits_for_the_writes_that_it_may_have_read() -> None:
    """Rule A21.3: and fails with them."""
    stage, a, b = pair()
    stage.holds_writes = True
    assert b.leave() is None
    assert interval(a) is None
    assert a.beat() is None
    beat = stage.last_token
    stage.fail(writes=2)
    answer: Any = stage.replies[beat]
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(stage.group.members) == {"a", "b"}
    assert b.leave() is None
    assert a.beat() is None
    beat = stage.last_token
    stage.durable()
    answer = stage.replies[beat]
    assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, stage.group.target_epoch)
