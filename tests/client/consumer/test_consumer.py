"""The blocking consumer on our broker: what an application does with it, and what it is told."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import (
    Admin,
    CommitFailedError,
    Consumer,
    FencedInstanceIdError,
    OffsetAndMetadata,
    RebalanceListener,
    TopicPartition,
)
from equipoise.client.fetch.subscription_state import NoOffsetForPartitionError
from equipoise.member import CommitFailure
from equipoise.member.commits import Commit
from equipoise.wire.errors import KafkaError
from tests.client.consumer.consuming import PATIENCE_S, Told, polling, read, wait
from tests.client.writing import produce

# -- reading


def test_a_group_of_one_reads_everything_once(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 300)
    one = consumer(max_poll_records=100)
    one.subscribe(topic)
    records = read(one, 300)
    assert sorted((row.partition, row.offset) for row in records) == [(p, o) for p in range(3) for o in range(100)]
    assert all(row.topic == topic and row.value is not None for row in records)


def test_iterating_goes_on_for_ever(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 30)
    one = consumer()
    one.subscribe([topic])
    rows = [row for _, row in zip(range(30), one, strict=False)]
    assert len({(row.partition, row.offset) for row in rows}) == 30


def test_a_poll_with_nothing_ends_in_time(topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.subscribe(topic)
    assert one.poll(0) == []
    wait(one, one.assignment)
    assert one.poll(0.01) == []


def test_poll_arrow_gives_one_table(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 300)
    one = consumer()
    one.subscribe(topic)
    rows = 0
    end = time.monotonic() + PATIENCE_S
    while rows < 300 and time.monotonic() < end:
        table = one.poll_arrow(0.1)
        if table is not None:
            rows += table.num_rows
            assert {"topic", "partition", "offset", "timestamp", "key", "value", "headers"} <= set(table.column_names)
    assert rows == 300


def test_a_pattern_takes_in_topics_as_they_come(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.subscribe(pattern=re.escape(topic) + r"(-\d)?$")
    wait(one, lambda: len(one.assignment()) == 3)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(f"{topic}-1", 2)
    wait(one, lambda: len(one.assignment()) == 5)
    assert one.subscription() == {topic, f"{topic}-1"}


def test_added_partitions_are_shared_out(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.subscribe(topic)
    wait(one, lambda: len(one.assignment()) == 3)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions(topic, 5)
    wait(one, lambda: len(one.assignment()) == 5)


def test_a_topic_that_does_not_exist_yet_is_waited_for(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    one = consumer(allow_auto_create_topics=False)
    one.subscribe(f"{topic}-later")
    assert one.poll(0.2) == []
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(f"{topic}-later", 1)
    produce(broker, f"{topic}-later", 5, partitions=1)
    assert len(read(one, 5)) == 5


def test_a_topic_that_can_never_be_is_an_error(consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.subscribe("not a topic")
    with pytest.raises(KafkaError, match="'not a topic' cannot be read"):
        wait(one, lambda: False)


# -- the group


@pytest.mark.parametrize(
    "strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky"]
)
def test_two_share_and_hand_over(topic: str, consumer: Callable[..., Consumer], strategy: str) -> None:
    first, second = (consumer(partition_assignment_strategy=strategy) for _ in range(2))
    told = Told(), Told()
    first.subscribe(topic, told[0])
    wait(first, lambda: len(first.assignment()) == 3)
    second.subscribe(topic, told[1])
    with polling(first):
        wait(second, lambda: sorted((len(first.assignment()), len(second.assignment()))) == [1, 2])
    assert first.assignment() | second.assignment() == {TopicPartition(topic, number) for number in range(3)}
    second.close()
    wait(first, lambda: len(first.assignment()) == 3)
    revoked = [numbers for kind, numbers in told[0].events if kind == "revoked"]
    if strategy == "cooperative-sticky":
        assert [len(numbers) for numbers in revoked] in ([1], [2])
    else:
        assert {0, 1, 2} in revoked
    assert told[1].events[-1][0] == "revoked"


def test_callbacks_are_deltas_that_add_up(topic: str, consumer: Callable[..., Consumer]) -> None:
    told = Told()
    one, other = (consumer(partition_assignment_strategy="cooperative-sticky") for _ in range(2))
    one.subscribe(topic, told)
    wait(one, lambda: len(one.assignment()) == 3)
    other.subscribe(topic)
    with polling(other):
        wait(one, lambda: len(one.assignment()) == 2)
    other.close()
    wait(one, lambda: len(one.assignment()) == 3)
    owned: set[int] = set()
    for kind, numbers in told.events:
        assert numbers.isdisjoint(owned) if kind == "assigned" else numbers <= owned
        owned ^= numbers
    assert owned == {0, 1, 2}


def test_offsets_can_be_committed_and_sought_in_callbacks(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(broker, topic, 30)

    class Store(RebalanceListener):
        """Offsets kept elsewhere."""

        saved: dict[TopicPartition, int] = {}  # noqa: RUF012

        def on_revoked(self, consumer: Consumer, removed: Any) -> None:
            self.saved |= {one: consumer.position(one) for one in removed}

        def on_assigned(self, consumer: Consumer, added: Any) -> None:
            for one in added:
                consumer.seek(one, self.saved.get(one, 4))

    first = consumer(enable_auto_commit=False)
    first.subscribe(topic, Store())
    assert {row.offset for row in read(first, 18)} == {4, 5, 6, 7, 8, 9}
    first.close()
    assert set(Store.saved.values()) == {10}
    produce(broker, topic, 3)
    second = consumer(enable_auto_commit=False)
    second.subscribe(topic, Store())
    assert [row.offset for row in read(second, 3)] == [10, 10, 10]


def test_an_exception_in_a_callback_comes_out_of_poll(topic: str, consumer: Callable[..., Consumer]) -> None:
    class Bad(RebalanceListener):
        def on_assigned(self, consumer: Consumer, added: Any) -> None:
            raise RuntimeError("no")

    one = consumer()
    one.subscribe(topic, Bad())
    with pytest.raises(RuntimeError, match="no"):
        wait(one, lambda: False)
    wait(one, lambda: len(one.assignment()) == 3)


def test_enforce_rebalance_gives_a_new_generation(topic: str, consumer: Callable[..., Consumer]) -> None:
    one = consumer()
    one.subscribe(topic)
    wait(one, one.assignment)
    before = one.generation_id
    one.enforce_rebalance("a test")
    wait(one, lambda: one.generation_id > before)
    assert len(one.assignment()) == 3


def test_a_static_member_restarts_without_a_rebalance(topic: str, consumer: Callable[..., Consumer]) -> None:
    other = consumer(group_instance_id="other")
    one = consumer(group_instance_id="one")
    for each in (one, other):
        each.subscribe(topic)
    with polling(other):
        wait(one, lambda: one.assignment() and other.assignment())
        generation, owned = other.generation_id, one.assignment()
        one.close()
        again = consumer(group_instance_id="one")
        again.subscribe(topic)
        wait(again, lambda: again.assignment() == owned)
    assert other.generation_id == generation


def test_a_fenced_static_member_is_out_for_good(topic: str, consumer: Callable[..., Consumer]) -> None:
    told = Told()
    one = consumer(group_instance_id="one", heartbeat_interval_ms=100)
    one.subscribe(topic, told)
    wait(one, one.assignment)
    usurper = consumer(group_instance_id="one")
    usurper.subscribe(topic)
    wait(usurper, usurper.assignment)
    with pytest.raises(FencedInstanceIdError, match=r"group\.instance\.id 'one'"):
        wait(one, lambda: False)
    assert told.events[-1] == ("lost", {0, 1, 2})
    assert one.assignment() == frozenset()


# -- offsets


def test_commits_are_where_the_next_member_begins(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(broker, topic, 30)
    first = consumer(enable_auto_commit=False)
    first.subscribe(topic)
    read(first, 30)
    places = [TopicPartition(topic, number) for number in range(3)]
    first.commit({places[0]: OffsetAndMetadata(4, "half way"), places[1]: 5})
    assert first.committed() == {places[0]: OffsetAndMetadata(4, "half way", -1), places[1]: OffsetAndMetadata(5)}
    first.close()
    second = consumer(enable_auto_commit=False)
    second.subscribe(topic)
    assert len(read(second, 21)) == 21
    assert [second.position(place) for place in places] == [10, 10, 10]
    second.commit()
    assert {at.offset for at in second.committed(*places).values()} == {10}


def test_auto_commit_happens_on_time_before_revoking_and_at_the_end(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(broker, topic, 30)
    first = consumer(auto_commit_interval_ms=10)
    first.subscribe(topic)
    read(first, 30)
    wait(first, lambda: {at.offset for at in first.committed().values()} == {10})
    produce(broker, topic, 30)
    first.config  # noqa: B018
    read(first, 30)
    first.close()
    second = consumer()
    second.subscribe(topic)
    wait(second, second.assignment)
    assert {at.offset for at in second.committed().values()} == {20}
    assert second.poll(0.1) == []


def test_auto_commits_do_not_queue_up_behind_one_that_is_not_answered(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a coordinator hangs, each would fail with the same warning, all at the same moment."""
    first = consumer(auto_commit_interval_ms=1)
    first.subscribe(topic)
    wait(first, first.assignment)
    begun: list[Callable[[Commit], None]] = []
    monkeypatch.setattr(first._engine, "commit", lambda offsets, on_done: begun.append(on_done))
    for _ in range(5):
        produce(broker, topic, 3)
        read(first, 3)
    first.poll(0.01)
    assert len(begun) == 1
    begun[0](Commit({}, 0))
    wait(first, lambda: len(begun) == 2)
    monkeypatch.undo()


def test_async_commits_tell_their_outcome(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 3)
    one = consumer(enable_auto_commit=False)
    one.subscribe(topic)
    read(one, 3)
    told: list[KafkaError | None] = []
    one.commit_async(on_done=told.append)
    wait(one, lambda: told)
    assert told == [None]
    assert {at.offset for at in one.committed().values()} == {1}


def test_too_late_a_poll_leaves_the_group_and_the_commit_says_why(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(broker, topic, 30)
    told = Told()
    slow = consumer(max_poll_interval_ms=700, enable_auto_commit=False, max_poll_records=50)
    slow.subscribe(topic, told)
    in_hand = len(read(slow, 1))
    other = consumer()
    other.subscribe(topic)
    wait(other, lambda: len(other.assignment()) == 3)
    with pytest.raises(CommitFailedError) as raised:
        slow.commit()
    assert raised.value.failure is CommitFailure.POLL_OVERRUN
    assert raised.value.overrun is not None
    assert 0 < raised.value.overrun.records <= in_hand
    assert raised.value.overrun.late_ms > 0
    for remedy in ("max.poll.interval.ms (now 700)", "max.poll.records (now 50)", "faster", "more threads"):
        assert remedy in str(raised.value)
    with polling(other):
        wait(slow, lambda: 1 <= len(slow.assignment()) <= 2)
    assert ("lost", {0, 1, 2}) in told.events


def test_a_standalone_consumer_cannot_commit_for_a_live_group(topic: str, consumer: Callable[..., Consumer]) -> None:
    member = consumer()
    member.subscribe(topic)
    wait(member, member.assignment)
    alone = consumer(enable_auto_commit=False)
    alone.assign([(topic, 0)])
    with pytest.raises(CommitFailedError, match=r"used assign\(\), not subscribe\(\)") as raised:
        alone.commit({TopicPartition(topic, 0): 1})
    assert raised.value.failure is CommitFailure.STANDALONE


# -- positions


def test_seeking(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 30, first_timestamp=1_000_000)
    one = consumer()
    places = [TopicPartition(topic, number) for number in range(3)]
    one.assign(places)
    assert len(read(one, 30)) == 30
    one.seek(places[1], 7)
    assert [row.offset for row in read(one, 3)] == [7, 8, 9]
    one.seek_to_beginning(places[0])
    assert len(read(one, 10)) == 10
    one.seek_to_time(1_000_015)
    assert {row.timestamp for row in read(one, 15)} == set(range(1_000_015, 1_000_030))
    one.seek_to_end()
    assert [one.position(place) for place in places] == [10, 10, 10]
    assert one.beginning_offsets() == dict.fromkeys(places, 0)
    assert one.end_offsets(places[0]) == {places[0]: 10}
    assert one.offsets_for_times({places[0]: 1_000_003, places[1]: 9_000_000}) == {places[0]: 1, places[1]: None}
    plain: Any = {tuple(places[0]): 1_000_003}
    assert one.offsets_for_times(plain) == {places[0]: 1}


def test_pausing_stops_one_partition(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 30)
    one = consumer()
    one.assign([(topic, 0), (topic, 1)])
    one.pause((topic, 0))
    assert {row.partition for row in read(one, 10)} == {1}
    assert one.paused() == {TopicPartition(topic, 0)}
    one.resume()
    assert {row.partition for row in read(one, 10)} == {0}
    assert set(one.lag().values()) == {0}


def test_a_position_that_nobody_can_tell_is_not_waited_for(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    one = consumer(auto_offset_reset="none")
    one.assign([(topic, 0), (topic, 1)])
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError, match=f"{topic}-1"):
            one.position((topic, 1), timeout=PATIENCE_S)
    one.seek((topic, 1), 0)
    with pytest.raises(NoOffsetForPartitionError, match=f"{topic}-0"):
        wait(one, lambda: False)  # poll() tells of the other one


def test_without_an_offset_and_without_a_policy_the_application_is_asked(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    produce(broker, topic, 3)
    one = consumer(auto_offset_reset="none")
    one.assign([(topic, 0)])
    with pytest.raises(NoOffsetForPartitionError):
        wait(one, lambda: False)
    with pytest.raises(NoOffsetForPartitionError):
        one.position((topic, 0))
    one.seek((topic, 0), 0)
    assert one.position((topic, 0)) == 0
    assert len(read(one, 1)) == 1
