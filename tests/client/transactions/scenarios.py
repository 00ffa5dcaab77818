"""Scenarios that hold on our broker and on Apache Kafka alike, in both versions of transactions."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from equipoise import AsyncProducer, Consumer, ConsumerGroupMetadata, ConsumerRecord, Producer, TopicPartition
from equipoise.errors import (
    ErrorCode,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    UsageError,
)
from tests.client.transactions.stage import (
    consumer,
    new_topic,
    producer,
    read,
    read_arrow,
    settings,
    values,
    version_of,
)
from tests.client.writing import Reachable

Scenario = Callable[[Reachable], None]
_PATIENCE_S = 120.0


def a_commit_is_seen_and_an_abort_is_not(broker: Reachable) -> None:
    topic = new_topic(broker)
    with producer(broker, topic) as transacting:
        with transacting.transaction() as transaction:
            sent = [transaction.send(topic, f"kept-{n}", partition=n % 3) for n in range(6)]
        with pytest.raises(ZeroDivisionError):
            _fail_inside(transacting, topic)
        with transacting.transaction() as transaction:
            transaction.send(topic, "kept-6", partition=1)
    assert all(one.result(0).offset >= 0 for one in sent)
    kept = sorted(f"kept-{n}".encode() for n in range(7))
    assert values(read(broker, topic)) == kept
    assert sorted(read_arrow(broker, topic)) == kept
    assert values(read(broker, topic, "read_uncommitted")) == sorted([*kept, b"dropped"])


def _fail_inside(one: Producer, topic: str) -> None:
    with one.transaction() as transaction:
        transaction.send(topic, "dropped", partition=0)
        transaction.flush()
        raise ZeroDivisionError


def nothing_is_read_behind_an_open_transaction(broker: Reachable) -> None:
    """Ends and lag of a read_committed reader count to the last stable offset."""
    topic = new_topic(broker, 1)
    place = TopicPartition(topic, 0)
    with producer(broker, f"{topic}-a") as first, producer(broker, f"{topic}-b") as second:
        with first.transaction() as transaction:
            transaction.send(topic, "before")
        first.begin_transaction()
        first.send(topic, "open").result(60)
        with second.transaction() as transaction:
            transaction.send(topic, "behind")
        with consumer(broker, topic) as reader, consumer(broker, topic, "read_uncommitted") as any_reader:
            assert reader.end_offsets() == {place: 2}  # the record, and its marker
            assert any_reader.end_offsets() == {place: 5}
            assert [one.value for one in _until(reader, 2)] == [b"before"]
            assert (reader.position(place), reader.lag()) == (2, {place: 0})
            first.commit_transaction()
            assert [one.value for one in _until(reader, 6)] == [b"open", b"behind"]
            assert (reader.position(place), reader.lag()) == (6, {place: 0})


def _until(reader: Consumer, position: int) -> list[ConsumerRecord]:
    (place,) = reader.assignment()
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + _PATIENCE_S
    while reader.position(place) < position:
        assert time.monotonic() < deadline
        found += reader.poll(0.1)
    return found


def interleaved_transactions_are_told_apart(broker: Reachable) -> None:
    """Three producers in one topic, by chance: a reader sees what was committed, by records and by columns."""
    topic, chance, kept = new_topic(broker, 2), random.Random(19), list[bytes]()
    with producer(broker, f"{topic}-0") as a, producer(broker, f"{topic}-1") as b, producer(broker, f"{topic}-2") as c:
        plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        writing: dict[Producer, list[bytes]] = {}
        for number in range(150):
            value, one = f"{number}".encode(), chance.choice([a, b, c, plain])
            if one is not plain and one not in writing:
                one.begin_transaction()
                writing[one] = []
            one.send(topic, value, partition=chance.randrange(2)).result(60)
            (kept if one is plain else writing[one]).append(value)
            if one is not plain and chance.random() < 0.3:
                _finish(one, writing.pop(one), kept, commits=chance.random() < 0.6)
        for one, written in writing.items():
            _finish(one, written, kept, commits=True)
        plain.close()
    assert values(read(broker, topic)) == sorted(kept)
    assert sorted(read_arrow(broker, topic)) == sorted(kept)
    assert len(read(broker, topic, "read_uncommitted")) == 150


def _finish(one: Producer, written: list[bytes], kept: list[bytes], *, commits: bool) -> None:
    if commits:
        one.commit_transaction()
        kept += written
    else:
        one.abort_transaction()


def a_second_instance_fences_the_first(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    with producer(broker, topic) as old, producer(broker, topic) as new:
        old.begin_transaction()
        old.send(topic, "of the old one").result(60)
        new.init_transactions()
        with pytest.raises((ProducerFencedError, TransactionAbortableError)):
            old.commit_transaction()
        with new.transaction() as transaction:
            transaction.send(topic, "of the new one")
        with pytest.raises(ProducerFencedError, match=r"another one has begun with transactional\.id"):
            _use(old, topic)
        with pytest.raises(ProducerFencedError):  # for good
            old.begin_transaction()
    assert values(read(broker, topic)) == [b"of the new one"]


def _use(one: Producer, topic: str) -> None:
    """Where the transaction could be aborted the fence shows then, at the latest in the next one."""
    one.abort_transaction()
    with one.transaction() as transaction:
        transaction.send(topic, "of the old one")


def a_fence_shows_at_the_end_of_with(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    with producer(broker, topic) as old, producer(broker, topic) as new:
        old.init_transactions()
        new.init_transactions()
        with pytest.raises(ProducerFencedError), old.transaction() as transaction:
            transaction.send(topic, "of the old one")
    assert read(broker, topic) == []


def a_transaction_that_takes_too_long_is_aborted(broker: Reachable) -> None:
    """Version 2 tells a time-out from a fence, and the producer goes on; version 1 does not."""
    topic = new_topic(broker, 1)
    with producer(broker, topic, transaction_timeout_ms=1_000) as slow:
        slow.begin_transaction()
        slow.send(topic, "too late").result(60)
        with consumer(broker, topic) as reader:
            _until(reader, 2)  # the coordinator's marker has come
        if version_of(broker) < 2:
            with pytest.raises(ProducerFencedError, match=r"transaction\.timeout\.ms \(1000 ms\)"):
                slow.commit_transaction()
            return
        assert isinstance(slow.send(topic, "later").exception(60), KafkaError)
        with pytest.raises(TransactionAbortableError, match="abort it, then begin it anew"):
            slow.commit_transaction()
        slow.abort_transaction()
        with slow.transaction() as transaction:
            transaction.send(topic, "in time")
    assert values(read(broker, topic)) == [b"in time"]


def a_commit_after_the_timeout_fails(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    with producer(broker, topic, transaction_timeout_ms=1_000) as slow:
        slow.begin_transaction()
        slow.send(topic, "too late").result(60)
        with consumer(broker, topic) as reader:
            _until(reader, 2)
        with pytest.raises(KafkaError, match="Close this producer"):
            slow.commit_transaction()
    assert read(broker, topic) == []


def a_refused_record_takes_the_transaction_with_it(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    with producer(broker, topic, compression_type="none", max_request_size=5_000_000, batch_size=3_000_000) as one:
        with pytest.raises(TransactionAbortableError, match="abort it, then begin it anew"):
            _send_too_much(one, topic)
        with one.transaction() as transaction:
            transaction.send(topic, "again")
    assert values(read(broker, topic)) == [b"again"]


def _send_too_much(one: Producer, topic: str) -> None:
    with one.transaction() as transaction:
        transaction.send(topic, "small").result(60)
        assert isinstance(transaction.send(topic, b"x" * 2_000_000).exception(60), KafkaError)
        with pytest.raises(TransactionAbortableError):
            transaction.send(topic, "behind it")


def columns_are_sent_in_transactions(broker: Reachable) -> None:
    topic = new_topic(broker)
    rows = pa.table({"value": [f"{n}".encode() for n in range(5_000)], "key": [f"{n % 97}" for n in range(5_000)]})
    with producer(broker, topic) as one:
        with pytest.raises(UsageError, match="no transaction is open"):
            one.send_arrow(rows, topic)
        one.begin_transaction()
        one.send_arrow(rows, topic)
        one.abort_transaction()
        with one.transaction() as transaction:
            assert transaction.send_arrow(rows, topic) == 5_000
    assert sorted(map(int, read_arrow(broker, topic))) == list(range(5_000))


def calls_out_of_place_say_what_to_do(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    with plain, pytest.raises(UsageError, match=r"set transactional\.id"):
        plain.begin_transaction()
    with producer(broker, topic) as one:
        with pytest.raises(UsageError, match="begin_transaction"):
            one.send(topic, "outside")
        for call in (one.commit_transaction, one.abort_transaction):
            with pytest.raises(UsageError, match="there is no transaction to"):
                call()
        one.begin_transaction()
        with pytest.raises(UsageError, match="one is open"):
            one.begin_transaction()
        one.commit_transaction()  # of nothing
        one.begin_transaction()
        one.abort_transaction()
        one.begin_transaction()
        one.send_offsets({}, "nobody")  # of nothing
        one.commit_transaction()
    long = producer(broker, topic, transaction_timeout_ms=2**31 - 1)
    with long, pytest.raises(KafkaError, match=r"more than the broker's transaction\.max\.timeout\.ms"):
        long.init_transactions()


def close_aborts_what_is_open(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    with producer(broker, topic) as one:
        one.begin_transaction()
        one.send(topic, "open").result(60)
    with consumer(broker, topic) as reader:
        assert _until(reader, 2) == []


def a_producer_for_asyncio_transacts(broker: Reachable) -> None:
    topic = new_topic(broker, 2)

    async def main() -> None:
        async with AsyncProducer(settings(broker, topic)) as one:
            await one.init_transactions()
            async with one.transaction() as transaction:
                await transaction.send(topic, "kept")
                await transaction.send_offsets({TopicPartition(topic, 0): 7}, f"{topic}-group")
            with pytest.raises(ZeroDivisionError):
                await _fail_inside_async(one, topic)
            await one.begin_transaction()
            await one.send(topic, "kept")
            await one.commit_transaction()
            await one.begin_transaction()
            await one.send(topic, "dropped")
            await one.abort_transaction()

    asyncio.run(main())
    assert values(read(broker, topic)) == [b"kept", b"kept"]
    assert _committed(broker, topic, 0) == 7


async def _fail_inside_async(one: AsyncProducer, topic: str) -> None:
    async with one.transaction() as transaction:
        await transaction.send_and_wait(topic, "dropped")
        raise ZeroDivisionError


def _committed(broker: Reachable, topic: str, partition: int) -> int | None:
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{topic}-group"}) as reader:
        found = reader.committed(TopicPartition(topic, partition))
    return found[TopicPartition(topic, partition)].offset if found else None


def offsets_count_with_the_transaction(broker: Reachable) -> None:
    topic = new_topic(broker)
    group, place = f"{topic}-group", TopicPartition(topic, 0)
    with producer(broker, topic) as one:
        with one.transaction() as transaction:
            transaction.send_offsets({place: 3}, group)
        assert _committed(broker, topic, 0) == 3
        one.begin_transaction()
        one.send_offsets({place: 4}, group)
        one.abort_transaction()
        assert _committed(broker, topic, 0) == 3


def _offsets_of_a_member(broker: Reachable, protocol: str) -> None:
    """What a member commits counts; what it would commit after it has lost its place does not (KIP-447)."""
    topic, output = new_topic(broker, 2), new_topic(broker, 1)
    member = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"{topic}-group",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
        }
    )
    with producer(broker, topic) as one, member:
        with one.transaction() as transaction:
            for number in range(20):
                transaction.send(topic, f"{number}", partition=number % 2)
        member.subscribe([topic])
        taken = _polled(member, 20)
        assert len(taken) == 20
        before = member.group_metadata()
        assert before.generation_id >= 0
        with one.transaction() as transaction:
            for record in taken:
                transaction.send(output, record.value)
            transaction.send_offsets(member.positions(), before)
        assert sum(at.offset for at in member.committed().values()) >= 20
        stale = ConsumerGroupMetadata(before.group_id, before.generation_id, "nobody")
        with pytest.raises(TransactionAbortableError, match="refuses TxnOffsetCommit"), one.transaction():
            one.send_offsets({TopicPartition(topic, 0): 0}, stale)
        member.seek_to_committed()
        with one.transaction() as transaction:
            transaction.send(topic, "20", partition=0)
        assert [record.value for record in _polled(member, 1)] == [b"20"]
    assert len(read(broker, output)) == 20


def _polled(member: Consumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    deadline = time.monotonic() + _PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += member.poll(0.2)
    return found


def offsets_of_a_member_of_a_classic_group(broker: Reachable) -> None:
    _offsets_of_a_member(broker, "classic")


def offsets_of_a_member_of_a_consumer_group(broker: Reachable) -> None:
    _offsets_of_a_member(broker, "consumer")


def errors_have_codes(broker: Reachable) -> None:
    topic = new_topic(broker, 1)
    with producer(broker, topic) as old, producer(broker, topic) as new:
        old.init_transactions()
        new.init_transactions()
        with pytest.raises(ProducerFencedError) as caught, old.transaction() as transaction:
            transaction.send(topic, "zombie")
        assert caught.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


SCENARIOS: list[Scenario] = [
    a_commit_is_seen_and_an_abort_is_not,
    nothing_is_read_behind_an_open_transaction,
    interleaved_transactions_are_told_apart,
    a_second_instance_fences_the_first,
    a_fence_shows_at_the_end_of_with,
    a_transaction_that_takes_too_long_is_aborted,
    a_commit_after_the_timeout_fails,
    a_refused_record_takes_the_transaction_with_it,
    columns_are_sent_in_transactions,
    calls_out_of_place_say_what_to_do,
    close_aborts_what_is_open,
    a_producer_for_asyncio_transacts,
    offsets_count_with_the_transaction,
    offsets_of_a_member_of_a_classic_group,
    offsets_of_a_member_of_a_consumer_group,
    errors_have_codes,
]
