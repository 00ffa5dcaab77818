"""Iterating over a consumer: what is not yielded is not read, whatever happens in the middle."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer, ConsumerRecord, OffsetAndMetadata, TopicPartition
from equipoise.wire.errors import UsageError
from tests.client.consumer.consuming import PATIENCE_S, read, wait
from tests.client.writing import produce


def offsets(consumer: Consumer, count: int) -> list[int]:
    return [record.offset for record in islice(consumer, count)]


@pytest.fixture
def place(broker: Broker, topic: str) -> TopicPartition:
    """The only partition that has records: 20."""
    produce(broker, topic, 20, partitions=1)
    return TopicPartition(topic, 0)


@pytest.fixture
def one(place: TopicPartition, consumer: Callable[..., Consumer]) -> Consumer:
    """Subscribed; it commits by itself."""
    made = consumer()
    made.subscribe(place.topic)
    return made


@pytest.fixture
def committed(place: TopicPartition, consumer: Callable[..., Consumer]) -> Callable[[], int | None]:
    """What the group has committed."""

    def look() -> int | None:
        at = consumer(enable_auto_commit=False).committed(place).get(place)
        return None if at is None else at.offset

    return look


def until(consumer: Consumer, offset: int) -> None:
    for record in consumer:
        if record.offset == offset:
            break


def calls_of(work: Callable[[], object]) -> int:
    """How often `work` enters a function or a generator that is written in Python."""
    seen = []
    sys.setprofile(lambda _frame, event, _: seen.append(event) if event == "call" else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(seen)


def test_a_record_costs_an_iteration_no_call(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    """It would be some 15 % of the time that a record takes."""
    produce(broker, topic, 2000, partitions=1)
    mine = consumer()
    mine.subscribe(topic)
    kept = iter(mine)
    next(kept)
    found: list[ConsumerRecord] = []
    assert calls_of(partial(found.extend, islice(kept, 450))) == 0  # one poll returns up to 500
    assert [record.offset for record in found] == list(range(1, 451))
    assert mine.positions()[TopicPartition(topic, 0)].offset == 451


# -- commits


def test_the_record_at_which_an_application_stops_is_read_again(
    one: Consumer, committed: Callable[[], int | None]
) -> None:
    until(one, 4)
    one.close()
    assert committed() == 4


def test_the_record_at_which_an_application_fails_is_read_again(
    one: Consumer, committed: Callable[[], int | None]
) -> None:
    def work() -> None:
        with one:
            for record in one:
                if record.offset == 4:
                    raise ValueError(record.offset)

    with pytest.raises(ValueError, match="4"):
        work()
    assert committed() == 4


def test_an_iteration_that_is_kept_commits_no_more_than_it_has_yielded(
    one: Consumer, committed: Callable[[], int | None]
) -> None:
    kept = iter(one)
    assert [next(kept).offset for _ in range(5)] == [0, 1, 2, 3, 4]
    one.unsubscribe()
    assert committed() == 4


def test_commit_counts_the_record_that_was_yielded(
    place: TopicPartition, one: Consumer, committed: Callable[[], int | None]
) -> None:
    for record in one:
        one.commit()
        assert one.committed(place) == {place: OffsetAndMetadata(record.offset + 1, "", 0)}
        assert (one.position(place), one.positions()[place].offset) == (record.offset + 1, record.offset + 1)
        assert one.lag()[place] == 19 - record.offset
        if record.offset == 4:
            break
    one.close()
    assert committed() == 5


def test_who_commits_a_record_has_processed_it(
    place: TopicPartition, one: Consumer, committed: Callable[[], int | None]
) -> None:
    until(one, 4)
    one.commit({place: 5})
    one.close()
    assert committed() == 5


def test_before_the_first_record_the_position_is_the_old_one_with_its_leader_epoch(
    broker: Broker, topic: str, consumer: Callable[..., Consumer]
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(broker, topic, 4, partitions=2)
    mine = consumer(enable_auto_commit=False)
    mine.assign([first, second])
    read(mine, 4)
    produce(broker, topic, 4, partitions=2)
    end = time.monotonic() + PATIENCE_S
    while len(mine._engine.subscriptions.ready) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    seen = next(iter(mine))
    other = second if seen.partition == 0 else first
    assert mine.positions()[other] == OffsetAndMetadata(2, "", 0)
    assert mine.positions()[TopicPartition(topic, seen.partition)] == OffsetAndMetadata(3, "", 0)


# -- going on


def test_another_iteration_and_polls_go_on_where_one_was_left(one: Consumer) -> None:
    assert [offsets(one, 1) for _ in range(3)] == [[0], [1], [2]]
    assert [record.offset for record in read(one, 17)] == list(range(3, 20))
    assert one.poll(0) == []


def test_poll_inside_an_iteration_takes_the_rest(
    place: TopicPartition, one: Consumer, committed: Callable[[], int | None]
) -> None:
    kept = iter(one)
    assert next(kept).offset == 0
    assert [record.offset for record in one.poll()] == list(range(1, 20))
    one.seek(place, 7)
    assert next(kept).offset == 7
    one.close()
    assert committed() == 7


def test_poll_arrow_goes_on_where_an_iteration_was_left(one: Consumer) -> None:
    until(one, 4)
    found: list[int] = []
    while len(found) < 15:
        table = one.poll_arrow()
        found += [] if table is None else table["offset"].to_pylist()
    assert found == list(range(5, 20))


def test_two_partitions_are_counted_apart(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 30)
    mine = consumer(enable_auto_commit=False)
    mine.subscribe(topic)
    places = {TopicPartition(topic, number): 0 for number in range(3)}
    for record in islice(mine, 30):
        places[TopicPartition(topic, record.partition)] += 1
        known = {one: at.offset for one, at in mine.positions().items()}
        assert known == places


# -- changes in the middle


def test_seeking_in_the_middle(place: TopicPartition, one: Consumer, committed: Callable[[], int | None]) -> None:
    kept = iter(one)
    assert [next(kept).offset for _ in range(3)] == [0, 1, 2]
    one.seek(place, 15)
    assert [next(kept).offset for _ in range(2)] == [15, 16]
    one.seek_to_beginning(place)
    assert next(kept).offset == 0
    one.seek(place, 9)
    assert one.position(place) == 9
    one.close()
    assert committed() == 9


def test_a_partition_that_is_paused_is_not_yielded_until_it_is_resumed(
    place: TopicPartition, one: Consumer, committed: Callable[[], int | None]
) -> None:
    kept = iter(one)
    assert [next(kept).offset for _ in range(3)] == [0, 1, 2]
    one.pause(place)
    assert one.position(place) == 3
    assert one.positions()[place] == OffsetAndMetadata(3, "", 0)
    assert one._uncommitted()[place].offset == 2
    assert one.poll(0.05) == []
    one.resume(place)
    assert [next(kept).offset for _ in range(2)] == [3, 4]
    one.close()
    assert committed() == 4


def test_the_others_go_on_while_one_is_paused(broker: Broker, topic: str, consumer: Callable[..., Consumer]) -> None:
    produce(broker, topic, 30)
    mine = consumer()
    mine.subscribe(topic)
    kept = iter(mine)
    first = next(kept)
    mine.pause((topic, first.partition))
    rest = [next(kept) for _ in range(20)]
    assert first.partition not in {record.partition for record in rest}
    mine.resume()
    again = [next(kept) for _ in range(9)]
    assert [(record.partition, record.offset) for record in again] == [(first.partition, n) for n in range(1, 10)]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_partition_that_moves_in_the_middle_is_read_once(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], strategy: str
) -> None:
    """Each iteration polls: the member hears of the rebalance while it has records in hand."""
    produce(broker, topic, 30)
    mine, other = (consumer(partition_assignment_strategy=strategy) for _ in range(2))
    mine.subscribe(topic)
    seen = list(islice(mine, 4))
    other.subscribe(topic)
    found: list[ConsumerRecord] = []
    with ThreadPoolExecutor() as pool:
        joining = pool.submit(wait, other, other.assignment, found)
        while not joining.done():
            seen += islice(mine, 1) if len(seen) < 10 else mine.poll(0.02)
        joining.result()
    while len(seen) + len(found) < 30:
        seen += mine.poll(0.02)
        found += other.poll(0.02)
    assert sorted((record.partition, record.offset) for record in seen + found) == [
        (partition, offset) for partition in range(3) for offset in range(10)
    ]


def test_records_of_a_partition_that_was_lost_are_not_yielded(one: Consumer, place: TopicPartition) -> None:
    kept = iter(one)
    assert next(kept).offset == 0
    one._engine.subscriptions.revoke([place])
    one._engine.subscriptions.assign([place])
    one._engine.subscriptions.seek(place, 12)
    assert next(kept).offset == 12


def test_closing_ends_an_iteration(one: Consumer) -> None:
    kept = iter(one)
    next(kept)
    one.close()
    with pytest.raises(UsageError, match="closed"):
        next(kept)
