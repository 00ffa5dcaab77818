"""Requests that change several topics: what others do between the check of a topic and its change."""

from __future__ import annotations

from typing import Any, cast

from equipoise.broker import Broker
from equipoise.broker.handlers.k37_create_partitions import _Growing
from equipoise.broker.server import Server
from equipoise.wire.apis.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from equipoise.wire.errors import ErrorCode

NOBODY = cast(Any, None)  # who calls: without an authorizer nobody asks


def growing(server: Server, **counts: int) -> _Growing:
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
    return _Growing(server, CreatePartitionsRequest(topics=topics, timeout_ms=1000), NOBODY)


def test_topics_that_grow_or_go_between_check_and_change_are_refused() -> None:
    def play(server: Server) -> tuple[dict[str, int], int]:
        late = growing(server, grown=3, gone=3, other=3)
        steps = late.steps()
        for _ in range(3):
            next(steps)  # each topic is checked
        list(growing(server, grown=4).steps())
        server.topics.delete([server.topics.require("gone")])
        list(steps)
        return {row.name: row.error_code for row in late.response().results}, len(
            server.topics.require("grown").partitions
        )

    with Broker(topics={"grown": 1, "gone": 1, "other": 1}) as broker:
        answers, partitions = broker.call(play)
        assert answers == {
            "grown": ErrorCode.INVALID_PARTITIONS,
            "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "other": ErrorCode.NONE,
        }
        assert partitions == 4
        assert broker.topics["other"].partitions == 3
