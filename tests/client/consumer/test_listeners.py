"""What a rebalance listener may ask of its consumer, in both group protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer, RebalanceListener, TopicPartition
from tests.client.consumer.consuming import read, wait
from tests.client.writing import produce

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@PROTOCOLS
def test_positions_are_known_when_partitions_are_assigned(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], protocol: str
) -> None:
    """Twenty times: whether anybody looked for them was a matter of luck."""
    produce(broker, topic, 3)

    class Asking(RebalanceListener):
        found: list[int] = []  # noqa: RUF012

        def on_assigned(self, consumer: Consumer, added: Any) -> None:
            self.found += [consumer.position(one, timeout=10) for one in added]

    for number in range(20):
        Asking.found = []
        with consumer(group_id=f"{topic}-{number}", group_protocol=protocol) as one:
            one.subscribe(topic, Asking())
            wait(one, lambda: len(Asking.found) == 3)
        assert Asking.found == [0, 0, 0]


class Committing(RebalanceListener):
    """Commits what it has read, unless the consumer does."""

    def __init__(self, *, commits: bool) -> None:
        self.commits = commits
        self.seen: list[tuple[set[TopicPartition], set[int]]] = []

    def on_revoked(self, consumer: Consumer, removed: Any) -> None:
        self.seen.append((set(consumer.assignment()), {consumer.position(one, timeout=10) for one in removed}))
        if self.commits:
            consumer.commit()


@PROTOCOLS
@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize("way", ["unsubscribe", "close"])
def test_whoever_leaves_still_has_its_partitions_in_on_revoked(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], protocol: str, auto_commit: bool, way: str
) -> None:
    produce(broker, topic, 9)
    told = Committing(commits=not auto_commit)
    one = consumer(group_protocol=protocol, enable_auto_commit=auto_commit)
    one.subscribe(topic, told)
    read(one, 9)
    getattr(one, way)()
    places = {TopicPartition(topic, number) for number in range(3)}
    assert told.seen == [(places, {3})]
    assert one.assignment() == frozenset()
    assert {at.offset for at in consumer().committed(*places).values()} == {3}


@PROTOCOLS
def test_a_listener_that_fails_does_not_keep_the_partitions(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], protocol: str
) -> None:
    class Bad(RebalanceListener):
        def on_revoked(self, consumer: Consumer, removed: Any) -> None:
            raise RuntimeError("no")

    one = consumer(group_protocol=protocol)
    one.subscribe(topic, Bad())
    wait(one, one.assignment)
    with pytest.raises(RuntimeError, match="no"):
        one.unsubscribe()
    assert one.assignment() == frozenset()
    one.assign([(topic, 0)])
    assert one.assignment() == {TopicPartition(topic, 0)}
