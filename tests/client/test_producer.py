"""The public producers: records stored once and in order, futures and reports that tell, errors that are not lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer as Confluent

from equipoise import Admin, AsyncProducer, Broker, Consumer, ConsumerRecord, Producer, RecordMetadata, TopicPartition
from equipoise.client.producer import sender
from equipoise.client.producer.accumulator import PartitionQueue
from equipoise.client.producer.partitioner import StickyPartitioner, murmur2, partition_for_key
from equipoise.errors import EquipoiseError, ErrorCode, KafkaConnectionError, KafkaError, UsageError
from equipoise.server_process import free_port
from equipoise.testing import Delay
from equipoise.wire.records.batch import BatchHeader, Buffer, Codec
from equipoise.wire.records.build import Row, close_batch
from proving.brokers import SOON_BACK, EquipoiseBroker, KafkaBroker
from tests.client.writing import Reachable
from tests.interop.lossy import LossyProxy

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
QUICK = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "50", "reconnect.backoff.ms": "10"}


def settings(broker: Reachable | str, **more: object) -> dict[str, object]:
    address = broker if isinstance(broker, str) else broker.bootstrap_servers
    return {"bootstrap.servers": address, **QUICK} | {name.replace("_", "."): value for name, value in more.items()}


def create(broker: Reachable, topic: str = "orders", partitions: int = 3, **configs: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, {name.replace("_", "."): value for name, value in configs.items()})


def read(broker: Reachable, topic: str = "orders") -> dict[int, list[ConsumerRecord]]:
    with Admin(broker.bootstrap_servers) as admin:
        ends = {TopicPartition(topic, number): at.latest for number, at in admin.offsets(topic).items()}
    found: dict[int, list[ConsumerRecord]] = {place.partition: [] for place in ends}
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(list(ends))
        while any(len(found[place.partition]) < end for place, end in ends.items()):
            for record in consumer.poll():
                found[record.partition].append(record)
    return found


def assert_once_and_in_order(found: dict[int, list[ConsumerRecord]], count: int) -> None:
    assert sorted(int(record.value or b"") for records in found.values() for record in records) == list(range(count))
    for records in found.values():
        values = [int(record.value or b"") for record in records]
        assert values == sorted(values)


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:
    create(broker)
    with Producer(settings(broker)) as running:
        yield running


# -- what is sent


def test_the_future_tells_where_a_record_is_stored(producer: Producer) -> None:
    first = producer.send("orders", b"value", key=b"key", partition=1, timestamp=1_700_000_000_000)
    second = producer.send("orders", b"value", partition=1)
    assert first.result(30) == RecordMetadata("orders", 1, 0, 1_700_000_000_000)
    assert second.result(30).offset == 1
    assert first.done()
    assert first.exception() is None


def test_a_record_has_key_value_headers_and_timestamp(producer: Producer, broker: Broker) -> None:
    producer.send("orders", "text", key="key", partition=0, timestamp=5, headers={"a": "1", "b": None})
    producer.send("orders", None, key=b"gone", partition=0, headers=[("h", b"1"), ("h", b"2")])
    producer.send("orders", bytearray(b"bytes"), partition=0)  # type: ignore[arg-type]  # what is bytes-like will do
    producer.flush()
    first, second, third = read(broker)[0]
    assert (first.key, first.value, first.timestamp) == (b"key", b"text", 5)
    assert list(first.headers) == [("a", b"1"), ("b", None)]
    assert (second.key, second.value, list(second.headers)) == (b"gone", None, [("h", b"1"), ("h", b"2")])
    assert third.value == b"bytes"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_records_are_stored_once_and_in_order(broker: Broker, codec: str, acks: str) -> None:
    create(broker)
    with Producer(settings(broker, compression_type=codec, acks=acks, batch_size=2000)) as producer:
        deliveries = [producer.send("orders", str(number).encode(), key=b"%d" % (number % 9)) for number in range(3000)]
    assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)
    if acks == "0":  # closed behind the last one: the broker may still be reading
        _wait_for(broker, 3000)
    assert_once_and_in_order(read(broker), 3000)


def _wait_for(broker: Broker, records: int) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        while sum(at.latest for at in admin.offsets("orders").values()) < records:
            pass


def test_large_records_and_rows_of_every_size(producer: Producer, broker: Broker) -> None:
    sizes = [0, 1, 63, 64, 8000, 8191, 8192, 100_000, 1_000_000]
    for number, size in enumerate(sizes):
        producer.send("orders", b"x" * size, key=b"k" * size if size < 10_000 else None, partition=0, timestamp=number)
    producer.flush()
    found = read(broker)[0]
    assert [len(record.value or b"") for record in found] == sizes
    assert [record.timestamp for record in found] == list(range(len(sizes)))


def test_keys_go_where_other_clients_put_them(producer: Producer, broker: Broker) -> None:
    create(broker, "theirs", 3)
    other = Confluent({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for number in range(300):
        producer.send("orders", b"%d" % number, key=b"key-%d" % number)
        other.produce("theirs", b"%d" % number, key=b"key-%d" % number)
    producer.flush()
    assert other.flush(30) == 0
    ours, theirs = read(broker), read(broker, "theirs")
    assert [{r.key for r in ours[n]} for n in range(3)] == [{r.key for r in theirs[n]} for n in range(3)]


def test_murmur2_is_javas() -> None:
    """From the tests of Kafka's own client."""
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    for data, expected in known.items():
        assert murmur2(data) == expected & 0xFFFFFFFF
    assert partition_for_key(b"foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7


def test_records_without_a_key_fill_one_batch_after_the_other() -> None:
    sticky = StickyPartitioner()
    chosen = [sticky.take(100, 5, 1000) for _ in range(1000)]
    runs = [chosen[at : at + 10] for at in range(0, 1000, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(one[0] != other[0] for one, other in pairwise(runs))
    assert set(chosen) == set(range(5))


def test_a_topic_that_grows(producer: Producer, broker: Broker) -> None:
    producer.send("orders", b"").result(30)
    with Admin(broker.bootstrap_servers) as admin:
        admin.add_partitions("orders", 5)
    assert len(producer.topic("orders", wanted=5).partitions) == 5
    assert producer.send("orders", b"", partition=4).result(30).partition == 4


# -- Arrow


def test_rows_of_arrow(producer: Producer, broker: Broker) -> None:
    rows = {"value": [b"%d" % n for n in range(1000)], "key": [b"%d" % (n % 7) for n in range(1000)]}
    assert producer.send_arrow(pa.table(rows), "orders") == 1000
    producer.flush()
    assert_once_and_in_order(read(broker), 1000)


def test_rows_of_arrow_say_partition_topic_and_time(producer: Producer, broker: Broker) -> None:
    rows = pa.record_batch(
        {
            "topic": ["orders", "orders"],
            "value": [b"a", b"b"],
            "partition": pa.array([2, 0], pa.int32()),
            "timestamp": pa.array([7, 8], pa.timestamp("ms")),
        }
    )
    producer.send_arrow(rows)
    producer.flush()
    found = read(broker)
    assert [(r.value, r.timestamp) for r in found[2]] == [(b"a", 7)]
    assert [(r.value, r.timestamp) for r in found[0]] == [(b"b", 8)]


def test_records_and_rows_keep_their_order(producer: Producer, broker: Broker) -> None:
    producer.send("orders", b"0", partition=0)
    producer.send_arrow(pa.table({"value": [b"1"], "partition": pa.array([0], pa.int32())}), "orders")
    producer.send("orders", b"2", partition=0)
    producer.flush()
    assert [record.value for record in read(broker)[0]] == [b"0", b"1", b"2"]


# -- what is told


def test_reports_are_called_once_for_each_record(producer: Producer) -> None:
    told: list[tuple[RecordMetadata | None, EquipoiseError | None]] = []
    for number in range(100):
        producer.send("orders", b"", partition=number % 3, on_delivery=lambda *what: told.append(what))
    producer.flush()
    assert len(told) == 100
    assert all(error is None for _, error in told)
    assert sorted((m.partition, m.offset) for m, _ in told if m) == sorted((n % 3, n // 3) for n in range(100))


def test_a_report_that_raises_harms_nobody(producer: Producer, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the application's own")

    first = producer.send("orders", b"", partition=0, on_delivery=fail)
    second = producer.send("orders", b"", partition=0)
    assert (first.result(30).offset, second.result(30).offset) == (0, 1)
    producer.flush()
    assert "a delivery report of orders-0 failed" in caplog.text


def test_a_callback_after_the_end_is_called_at_once(producer: Producer) -> None:
    delivery = producer.send("orders", b"")
    delivery.result(30)
    told: list[object] = []
    delivery.add_done_callback(told.append)
    assert told == [delivery]


def test_an_error_that_nobody_asked_for_is_raised_by_flush(broker: Broker) -> None:
    create(broker, "compacted", 1, cleanup_policy="compact")
    with Producer(settings(broker)) as producer:
        producer.send("compacted", b"without a key")
        with pytest.raises(KafkaError, match="a record, for compacted-0, not stored"):
            producer.flush()
        refused = producer.send("compacted", b"without a key")
        assert isinstance(refused.exception(30), KafkaError)
        producer.flush()  # somebody has asked
        assert producer.send("compacted", b"", key=b"k").result(30).offset == 0


def test_after_a_refused_batch_the_next_ones_are_stored(broker: Broker) -> None:
    """The refused one leaves a gap in the numbers of its partition, with others under way behind it."""
    create(broker, "compacted", 1, cleanup_policy="compact")
    errors: list[EquipoiseError | None] = []
    with Producer(settings(broker, linger_ms=0, batch_size=1)) as producer:
        for number in range(200):
            key = None if number % 20 == 7 else b"%d" % number
            producer.send("compacted", b"", key=key, on_delivery=lambda _, error: errors.append(error))
    expected = [b"%d" % number for number in range(200) if number % 20 != 7]
    assert [record.key for record in read(broker, "compacted")[0]] == expected
    assert len([error for error in errors if error is not None]) == 10
    assert len(errors) == 200


def test_the_end_of_with_raises_what_was_not_stored(broker: Broker) -> None:
    create(broker, "compacted", 1, cleanup_policy="compact")

    def send(then: Callable[[], object]) -> None:
        with Producer(settings(broker)) as producer:
            producer.send("compacted", b"without a key")
            then()

    with pytest.raises(KafkaError, match="not stored"):
        send(lambda: None)
    with pytest.raises(ZeroDivisionError):  # the application's own error goes first
        send(lambda: 1 // 0)


# -- what is refused


def test_settings_that_cannot_be(broker: Broker) -> None:
    refused: list[tuple[dict[str, object], str]] = [
        ({}, "bootstrap.servers is missing"),
        ({"lingerms": 1}, "unknown setting 'lingerms'; did you mean 'linger.ms'"),
        ({"transactional.id": ""}, "transactional.id is empty"),
        ({"transactional.id": "x", "acks": "1"}, "transactional.id needs acks=all"),
        ({"acks": "2"}, "must be one of all, 1, 0"),
        ({"acks": "1", "enable.idempotence": "true"}, "enable.idempotence=true needs acks=all"),
    ]
    for given, words in refused:
        with pytest.raises(UsageError, match=words):
            Producer({"bootstrap.servers": "127.0.0.1:1"} | given if given else {})


def test_records_that_cannot_be(producer: Producer) -> None:
    with pytest.raises(UsageError, match="dict cannot be sent: give bytes or text"):
        producer.send("orders", {"a": 1})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="partition=3: topic 'orders' has 3, from 0 to 2"):
        producer.send("orders", b"", partition=3)
    with pytest.raises(UsageError, match=r"takes 2000\d\d\d bytes, and max.request.size is 1048576: raise it"):
        producer.send("orders", b"x" * 2_000_000)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"timestamp": 1_700_000_000_000.5}, "is a float: give milliseconds since 1970 as an int"),
        ({"timestamp": "5"}, "timestamp='5' is a str"),
        ({"timestamp": 2**63}, r"timestamp=9223372036854775808 is not from 0 to 2\^63-1"),
        ({"timestamp": -1}, "timestamp=-1 is not from 0"),
        ({"headers": {"\udcff": b""}}, "cannot be sent as UTF-8"),
        ({"headers": {b"name": b""}}, "b'name' cannot be the name of a header: give text"),
        ({"key": "\udcff"}, "cannot be sent as UTF-8"),
    ],
)
def test_what_cannot_be_encoded_is_refused_alone(
    producer: Producer, broker: Broker, more: dict[str, Any], words: str
) -> None:
    """It would take the other records of its batch with it."""
    producer.send("orders", b"0", partition=0)
    with pytest.raises(UsageError, match=words):
        producer.send("orders", b"refused", partition=0, **more)
    producer.send("orders", b"1", partition=0, timestamp=np.int64(7))  # type: ignore[arg-type]  # an int to Python
    producer.flush()
    assert [record.value for record in read(broker)[0]] == [b"0", b"1"]


def _cannot_build(rows: Sequence[Row], codec: Codec) -> tuple[BatchHeader, Buffer]:
    if rows[0][2] == b"odd":
        raise OverflowError("too odd")
    return close_batch(rows, codec)


def test_a_batch_that_cannot_be_built_tells_each_of_its_records(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other partitions' batches go with the same look of the sender, and are stored."""
    monkeypatch.setattr(sender, "close_batch", _cannot_build)
    create(broker)
    errors: list[EquipoiseError | None] = []
    with Producer(settings(broker, linger_ms=10_000)) as producer:
        for _ in range(3):
            producer.send("orders", b"odd", partition=1, on_delivery=lambda _, error: errors.append(error))
        good = [producer.send("orders", b"good", partition=number) for number in (0, 2)]
        producer.flush(60)
        assert [one.result(0).offset for one in good] == [0, 0]
        assert len(errors) == 3
        assert "a record and 2 more, for orders-1, not stored: the batch cannot be built: Over" in str(errors[0])
        producer.send("orders", b"odd", partition=1)
        with pytest.raises(KafkaError, match="too odd"):  # nobody has asked
            producer.flush(60)
        producer.send("orders", b"good", partition=1)
        producer.flush(60)
        assert producer._engine.accumulator._used == 0
    assert len(read(broker)[1]) == 1


def test_a_topic_that_does_not_exist() -> None:
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        producer = Producer(settings(broker, max_block_ms=500))
        with producer, pytest.raises(KafkaError, match="topic 'orders' does not exist"):
            producer.send("orders", b"")


def test_a_topic_whose_limits_are_not_told_in_time(broker: Broker) -> None:
    """It was said not to exist."""
    create(broker)
    with broker.control(Delay(apis=["DescribeConfigs"], ms=60_000)):
        producer = Producer(settings(broker, max_block_ms=500))
        with producer, pytest.raises(KafkaConnectionError, match="told the limits of topic 'orders' in 500 ms"):
            producer.send("orders", b"")


def test_nobody_there() -> None:
    producer = Producer(settings(f"127.0.0.1:{free_port()}", max_block_ms=200))
    with producer, pytest.raises(KafkaConnectionError, match=r"cannot connect to 127.0.0.1:\d+.*\(tried for 200 ms\)"):
        producer.send("orders", b"")


def test_a_closed_producer(broker: Broker) -> None:
    producer = Producer(settings(broker))
    producer.close()
    producer.close()
    with pytest.raises(UsageError, match="this producer is closed"):
        producer.send("orders", b"")


def test_memory_is_bounded(broker: Broker) -> None:
    """Room for ten records: the eleventh waits until one is stored."""
    create(broker)
    with Producer(settings(broker, buffer_memory=11_000, linger_ms=10_000)) as producer:
        for _ in range(100):
            producer.send("orders", b"x" * 1000)
    assert sum(map(len, read(broker).values())) == 100


def test_no_room_is_an_error_in_time() -> None:
    with EquipoiseBroker() as broker:
        create(broker)
        producer = Producer(settings(broker, buffer_memory=11_000, max_block_ms=1000, delivery_timeout_ms=4000))
        producer.send("orders", b"").result(30)
        broker.kill()
        for _ in range(10):
            producer.send("orders", b"x" * 1000)
        with pytest.raises(KafkaError, match=r"buffer.memory is 11000: no room for 10\d\d more within 1000 ms"):
            producer.send("orders", b"x" * 1000)
        with pytest.raises(KafkaError, match="not stored within 4000 ms"):
            producer.close()


def test_who_waits_for_room_is_told_that_the_producer_closes() -> None:
    """Another thread closes it; the record is not taken, and send() says so."""
    with EquipoiseBroker() as broker:
        create(broker)
        producer = Producer(settings(broker, buffer_memory=2_000, batch_size=1_000))
        producer.send("orders", b"").result(30)
        broker.kill()
        taken = [producer.send("orders", b"x" * 900, partition=0) for _ in range(2)]
        with ThreadPoolExecutor() as other:
            waiting = other.submit(producer.send, "orders", b"x" * 900, partition=0)
            while not producer._engine.accumulator._room._waiters:  # type: ignore[attr-defined]
                time.sleep(0.01)
            with pytest.raises(KafkaError, match=r"not all records were stored within 0\.5 s"):
                producer.close(timeout=0.5)
            with pytest.raises(UsageError, match="this producer is closed"):
                waiting.result(30)
        for delivery in taken:
            with pytest.raises(KafkaError, match="closed before the record was stored"):
                delivery.result(0)


def test_asyncio_tells_who_waits_for_room_that_the_producer_closes() -> None:
    async def main(broker: EquipoiseBroker) -> None:
        producer = await AsyncProducer(settings(broker, buffer_memory=2_000, batch_size=1_000)).start()
        await producer.send_and_wait("orders", b"")
        broker.kill()
        for _ in range(2):
            await producer.send("orders", b"x" * 900, partition=0)
        waiting = asyncio.create_task(producer.send("orders", b"x" * 900, partition=0))
        await asyncio.sleep(0)
        with pytest.raises(KafkaError, match=r"not all records were stored within 0\.5 s"):
            await producer.close(timeout=0.5)
        with pytest.raises(UsageError, match="this producer is closed"):
            await asyncio.wait_for(waiting, 30)

    with EquipoiseBroker() as broker:
        create(broker)
        asyncio.run(main(broker))


# -- what goes wrong on the way


def test_lost_answers_do_not_store_anything_twice() -> None:
    with LossyProxy(answers_to_lose=6) as proxy, Broker({"advertised.listeners": proxy.address}) as broker:
        proxy.target = broker.server.address
        create(broker)
        with Producer(settings(proxy.address, batch_size=1000)) as producer:
            for number in range(20_000):
                producer.send("orders", b"%d" % number, key=b"%d" % (number % 50))
        assert proxy.lost == 6
        assert_once_and_in_order(read(broker), 20_000)


def test_a_broker_that_is_killed_and_comes_back_has_every_record_once() -> None:
    with EquipoiseBroker() as broker:
        _send_while_killed(broker)


@pytest.mark.kafka
def test_apache_kafka_killed_and_back_has_every_record_once() -> None:
    with KafkaBroker(SOON_BACK) as broker:
        _send_while_killed(broker)


def _send_while_killed(broker: EquipoiseBroker | KafkaBroker) -> None:
    restart = threading.Thread(target=broker.start)
    create(broker)
    with Producer(settings(broker, batch_size=20_000)) as producer:
        for number in range(40_000):
            producer.send("orders", str(number).rjust(200).encode(), key=b"%d" % (number % 50))
            if number == 10_000:
                broker.kill()
                restart.start()
    restart.join()
    assert_once_and_in_order(read(broker), 40_000)


@pytest.mark.kafka
@pytest.mark.parametrize("codec", CODECS)
def test_apache_kafka_takes_the_same_records(kafka: KafkaBroker, codec: str) -> None:
    topic = f"produced-{codec}"
    create(kafka, topic)
    with Producer(settings(kafka, compression_type=codec)) as producer:
        for number in range(2000):
            producer.send(topic, b"%d" % number, key=b"%d" % (number % 9), headers={"n": str(number)})
    assert_once_and_in_order(read(kafka, topic), 2000)


def test_a_broker_that_stays_away_is_an_error_in_time() -> None:
    with EquipoiseBroker() as broker:
        create(broker)
        with Producer(settings(broker, delivery_timeout_ms=500)) as producer:
            producer.send("orders", b"").result(30)
            broker.kill()
            late = producer.send("orders", b"")
            error = late.exception(30)
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.REQUEST_TIMED_OUT
    assert "a record, for orders-" in str(error)
    assert "not stored within 500 ms (delivery.timeout.ms): cannot connect to" in str(error)


def test_all_that_is_overdue_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it one batch for each look of the sender, the last would wait for as many looks."""
    left: list[int] = []
    expire = sender.Sender._expire

    def expire_and_count(self: sender.Sender, queue: PartitionQueue, now: float) -> None:
        expire(self, queue, now)
        left.append(sum(batch.deadline < now for batch in queue.waiting))

    monkeypatch.setattr(sender.Sender, "_expire", expire_and_count)
    failed: list[EquipoiseError | None] = []
    with EquipoiseBroker() as broker:
        create(broker)
        with Producer(settings(broker, delivery_timeout_ms=500, batch_size=1000)) as producer:
            producer.send("orders", b"").result(30)
            broker.kill()
            for _ in range(20):
                producer.send("orders", b"x" * 900, partition=0, on_delivery=lambda _, error: failed.append(error))
            producer.flush(30)
    assert len(failed) == 20
    assert all("not stored within 500 ms" in str(error) for error in failed)
    assert not any(left)


def test_threads_share_a_producer(broker: Broker) -> None:
    create(broker)
    with Producer(settings(broker, batch_size=5000)) as producer:

        def send(first: int) -> None:
            for number in range(first, first + 2000):
                producer.send("orders", b"%d" % number, partition=first // 2000 % 3)

        threads = [threading.Thread(target=send, args=(first,)) for first in range(0, 12_000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    values = [int(record.value or b"") for records in read(broker).values() for record in records]
    assert sorted(values) == list(range(12_000))


# -- asyncio


def test_the_same_for_asyncio(broker: Broker) -> None:
    create(broker)

    async def main() -> None:
        async with AsyncProducer(settings(broker, batch_size=2000)) as producer:
            sent = [await producer.send("orders", b"%d" % n, key=b"%d" % (n % 9)) for n in range(2000)]
            stored = await asyncio.gather(*sent)
            assert len({(one.partition, one.offset) for one in stored}) == 2000
            last = await producer.send_and_wait("orders", b"2000", key=b"%d" % (2000 % 9))
            assert last.topic == "orders"

    asyncio.run(main())
    assert_once_and_in_order(read(broker), 2001)


def test_asyncio_waits_for_room_and_goes_on_meanwhile(broker: Broker) -> None:
    create(broker)

    async def main() -> int:
        turns = 0
        async with AsyncProducer(settings(broker, buffer_memory=11_000, linger_ms=1000)) as producer:

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            for _ in range(60):
                await producer.send("orders", b"x" * 1000)
            await producer.flush()
            counting.cancel()
        return turns

    assert asyncio.run(main()) > 10
    assert sum(map(len, read(broker).values())) == 60


def test_asyncio_errors_are_raised(broker: Broker) -> None:
    create(broker, "compacted", 1, cleanup_policy="compact")

    async def main() -> None:
        async with AsyncProducer(settings(broker)) as producer:
            with pytest.raises(KafkaError, match="not stored"):
                await producer.send_and_wait("compacted", b"without a key")
            await producer.send("compacted", b"without a key")
            with pytest.raises(KafkaError, match="not stored"):
                await producer.flush()
        with pytest.raises(UsageError, match="not running"):
            await producer.send("compacted", b"")

    asyncio.run(main())
