"""What callbacks may ask of their consumer: rebalance listeners in both group protocols, and those of commits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer, RebalanceListener, TopicPartition
from equipoise.wire.errors import KafkaError, UsageError
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
    assert way == "close" or one.assignment() == frozenset()
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


def test_calls_that_wait_are_refused_in_the_callback_of_a_commit(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    """They would wait for the thread that they are in, for ever, and with it everything else."""
    produce(broker, topic, 9)
    place = TopicPartition(topic, 0)
    one = consumer(enable_auto_commit=False)
    one.subscribe(topic)
    read(one, 9)
    refused: list[str] = []

    def ask(error: KafkaError | None) -> None:
        calls: list[Callable[[], object]] = [
            lambda: one.commit({place: 3}),
            lambda: one.committed(place),
            lambda: one.position(place),
            lambda: one.poll(0),
            one.unsubscribe,
            one.close,
        ]
        for call in calls:
            with pytest.raises(UsageError, match="inside a callback of commit_async") as raised:
                call()
            refused.append(str(raised.value).split("(")[0])
        one.commit_async({place: 3})
        raise RuntimeError("the application's")

    one.commit_async({place: 2}, ask)
    wait(one, lambda: one.committed(place)[place].offset == 3)
    assert refused == ["commit", "committed", "position", "poll", "unsubscribe", "close"]
    assert "the callback of commit_async() has failed" in caplog.text
    assert "could not be taken in" not in caplog.text
    one.commit({place: 1})
    refused.clear()
    one.commit_async({}, ask)  # there is nothing to wait for: the application's thread calls it at once
    assert len(refused) == 6
