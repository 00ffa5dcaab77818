"""Leaders that move, and logs that are cut, on three brokers of ours: epochs (KIP-320) and leader hints (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer, Producer, TopicPartition
from equipoise.client.fetch.subscription_state import LogTruncationError
from equipoise.testing import Delay
from tests.client.truncated import COMMON, LOST, PATIENCE_S, read, reading
from tests.client.writing import produce

FOR_EVER_MS = 600_000


@pytest.fixture
def three() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}, brokers=3, topics={"t": 1}) as broker:
        yield broker


# -- unclean elections


@pytest.mark.parametrize("new", [50, 250])
def test_a_reader_goes_on_where_the_logs_part(three: Broker, new: int) -> None:
    """With fewer new records than were lost, and with more: with `latest` none of them is passed over."""
    produce(three, "t", COMMON, partitions=1)
    produce(three, "t", LOST, partitions=1)
    with reading(three, "t", auto_offset_reset="latest") as consumer:
        consumer.seek(("t", 0), 0)
        assert [one.offset for one in read(consumer, COMMON + LOST)] == list(range(COMMON + LOST))
        cut = three.elect_unclean("t", 0, to=2, lose=LOST)
        assert cut <= COMMON
        produce(three, "t", new, partitions=1)
        taken = read(consumer, new)
        assert [one.offset for one in taken] == list(range(cut, cut + new))
        assert [int(one.value or b"") for one in taken] == list(range(new))
        assert consumer.poll(0.2) == []


def test_a_commit_from_before_the_election_is_checked_and_without_a_policy_raised(three: Broker) -> None:
    produce(three, "t", COMMON, partitions=1)
    produce(three, "t", LOST, partitions=1)
    with reading(three, "t", auto_offset_reset="earliest") as consumer:
        read(consumer, COMMON + LOST)
        consumer.commit()
        assert consumer.committed()[TopicPartition("t", 0)].leader_epoch == 0
    cut = three.elect_unclean("t", 0, to=3, lose=LOST)
    produce(three, "t", 250, partitions=1)
    with reading(three, "t", auto_offset_reset="none") as consumer:
        with pytest.raises(LogTruncationError) as told:
            read(consumer, 1)
        assert told.value.divergent_offset is not None
        assert (told.value.offset, told.value.divergent_offset.offset) == (COMMON + LOST, cut)
        consumer.seek(("t", 0), told.value.divergent_offset)
        assert [one.offset for one in read(consumer, 250)] == list(range(cut, cut + 250))
    with reading(three, "t", auto_offset_reset="latest") as consumer:
        assert [one.offset for one in read(consumer, 250)] == list(range(cut, cut + 250))


def test_a_clean_move_is_no_truncation(three: Broker, caplog: pytest.LogCaptureFixture) -> None:
    with reading(three, "t", auto_offset_reset="earliest") as consumer:
        for to in (2, 3, 1):
            produce(three, "t", 20, partitions=1)
            assert len(read(consumer, 20)) == 20
            three.move_leader("t", 0, to=to)
        assert consumer.poll(0.2) == []
    assert "lost" not in caplog.text


# -- leader hints: without Metadata they are the only way to the new leader


def test_our_producer_follows_the_hint(three: Broker) -> None:
    with Producer(bootstrap_servers=three.bootstrap_servers) as producer:
        producer.send("t", b"one").result(PATIENCE_S)
        with three.control(Delay(apis=["Metadata"], ms=FOR_EVER_MS)):
            for to in (2, 3, 1):
                three.move_leader("t", 0, to=to)
                producer.send("t", b"next").result(PATIENCE_S)
    assert three.topics["t"].end_offsets == [4]


def test_a_producer_that_has_a_hint_does_not_wait(three: Broker) -> None:
    """However long it would wait before it asks the same broker again, and with several batches under way."""
    settings = {"bootstrap.servers": three.bootstrap_servers, "batch.size": 1}
    patient = {"retry.backoff.ms": FOR_EVER_MS, "retry.backoff.max.ms": FOR_EVER_MS}
    with Producer({**settings, **patient}) as producer:
        producer.send("t", b"one").result(PATIENCE_S)
        three.move_leader("t", 0, to=2)
        for sent in [producer.send("t", b"next") for _ in range(4)]:
            sent.result(PATIENCE_S)
    assert three.topics["t"].end_offsets == [5]


def test_our_consumer_follows_the_hint(three: Broker) -> None:
    with (
        Producer(bootstrap_servers=three.bootstrap_servers) as producer,
        Consumer(bootstrap_servers=three.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([("t", 0)])
        producer.send("t", b"one").result(PATIENCE_S)
        assert [one.value for one in read(consumer, 1)] == [b"one"]
        with three.control(Delay(apis=["Metadata"], ms=FOR_EVER_MS)):
            for to in (2, 3, 1):
                three.move_leader("t", 0, to=to)
                producer.send("t", b"next").result(PATIENCE_S)
                assert [one.value for one in read(consumer, 1)] == [b"next"]
