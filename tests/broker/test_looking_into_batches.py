"""What a broker must look into records for, and what that may cost: keys of compacted topics, look-ups by time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from equipoise.broker import Broker
from equipoise.log import batch_validation
from equipoise.log.batch_validation import BatchValidation
from equipoise.log.timestamp_lookup import TimestampLookup
from equipoise.wire.apis.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import BatchHeader, Codec
from equipoise.wire.records.build import Record, build_batch, frame_batch
from equipoise.wire.records.codecs import compress
from tests.broker.calls import (
    BY_NAME,
    NOW,
    append,
    batch_of,
    create_topic,
    delete_topic,
    list_offsets,
    produce,
    produce_request,
    produced,
    read_partition,
)
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient

COMPACTED = {"cleanup.policy": "compact"}
_RECORD_OF_SEVEN_BYTES = b"\x0c\0\0\0\x01\x01\0"  # no key, no value, no headers: nothing is smaller
_KEYED_RECORD = b"\x0e\0\0\0\x02k\x01\0"


def hostile(body: bytes, count: int, codec: Codec = Codec.ZSTD, max_timestamp: int = NOW) -> bytearray:
    """A batch that says what it likes of its records."""
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, NOW, max_timestamp, -1, -1, -1, count)
    return frame_batch(header, compress(codec, body))


@pytest.fixture
def cpu() -> Callable[[], float]:
    """CPU of this process, which is the broker's too, since the test began."""
    begin = time.process_time()
    return lambda: time.process_time() - begin


class Held:
    """A function that waits until the test lets it go on."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.entered, self.let_go = threading.Event(), threading.Event()
        self._function = function

    def __call__(self, *arguments: object) -> object:
        self.entered.set()
        assert self.let_go.wait(60)
        return self._function(*arguments)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type, str], Held]]:
    """`held(Class, "method")`: whoever calls the method waits."""
    made: list[Held] = []

    def hold(owner: type, name: str) -> Held:
        one = Held(getattr(owner, name))
        monkeypatch.setattr(owner, name, lambda *arguments: one(*arguments))
        made.append(one)
        return one

    yield hold
    for one in made:
        one.let_go.set()


# -- keys


@pytest.mark.parametrize("count", [20_000_000, 2**31 - 1])
@pytest.mark.parametrize("body", [b"\x14\0\0\0\x09" + bytes(20), b"\x01" + bytes(24)])
def test_a_record_that_ends_where_it_begins_costs_nothing(
    client: RawClient, cpu: Callable[[], float], count: int, body: bytes
) -> None:
    create_topic(client, configs=COMPACTED)
    batch = hostile(body, count, Codec.SNAPPY)
    assert len(batch) < 120
    assert produce(client, batch).error_code == ErrorCode.CORRUPT_MESSAGE
    assert cpu() < 2


def test_each_record_without_a_key_is_named(client: RawClient) -> None:
    create_topic(client, configs=COMPACTED)
    missing = [0, 3, 41, 77, 99]
    records = [Record(i, NOW, None if i in missing else b"k%d" % i, b"v") for i in range(100)]
    for batch in (build_batch(records), build_batch(records, codec=Codec.LZ4)):
        answer = produce(client, batch)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
        assert [error.batch_index for error in answer.record_errors] == missing
        assert all("needs a key" in str(error.batch_index_error_message) for error in answer.record_errors)
        assert "5 of 100 records have no key" in str(answer.error_message)
    assert read_partition(client) == []


def test_however_many_records_have_no_key_the_answer_is_small(client: RawClient) -> None:
    create_topic(client, configs=COMPACTED | {"max.message.bytes": "10000000"})
    count = 300_000
    answer = produce(client, hostile(_RECORD_OF_SEVEN_BYTES * count, count))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == list(range(batch_validation.MAX_RECORD_ERRORS))
    assert f"{count} of {count}" in str(answer.error_message)


def test_more_records_than_a_batch_can_have_are_refused_unseen(client: RawClient, cpu: Callable[[], float]) -> None:
    """Else two kilobytes would cost five seconds of a thread."""
    create_topic(client, configs=COMPACTED)
    assert produce(client, hostile(_KEYED_RECORD * 500_000, 500_000)).error_code == ErrorCode.NONE
    batch = hostile(_KEYED_RECORD * MANY, MANY)
    assert len(batch) < 10_000
    before = cpu()
    assert produce(client, batch).error_code == ErrorCode.CORRUPT_MESSAGE
    assert cpu() - before < 1


def test_others_are_served_while_keys_are_looked_at(
    client: RawClient, broker: Broker, connect: Connect, held: Callable[[type, str], Held]
) -> None:
    create_topic(client, configs=COMPACTED)
    create_topic(client, "plain")
    gate = held(BatchValidation, "run")
    client.send(produce_request(batch_of(b"v", key=b"k", codec=Codec.ZSTD)), BY_NAME)
    assert gate.entered.wait(60)
    other = connect(broker)
    assert append(other, b"served", topic="plain") == 0
    gate.let_go.set()
    assert produced(client.receive()).base_offset == 0


def test_batches_keep_their_order_behind_one_that_is_looked_into(
    client: RawClient, held: Callable[[type, str], Held]
) -> None:
    create_topic(client, configs=COMPACTED)
    gate = held(BatchValidation, "run")
    codecs = [Codec.ZSTD, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.NONE]
    for number, codec in enumerate(codecs):
        client.send(produce_request(batch_of(b"%d" % number, key=b"k%d" % number, codec=codec)), BY_NAME)
    assert gate.entered.wait(60)
    gate.let_go.set()
    assert [produced(client.receive()).base_offset for _ in codecs] == [0, 1, 2, 3, 4]
    assert [record.value for record in read_partition(client)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_bad_batch_does_not_hold_up_those_behind_it(client: RawClient) -> None:
    create_topic(client, configs=COMPACTED)
    good, bad = batch_of(b"v", key=b"k", codec=Codec.ZSTD), batch_of(b"v", codec=Codec.ZSTD)
    for batch in (good, bad, good):
        client.send(produce_request(batch), BY_NAME)
    assert [produced(client.receive()).error_code for _ in range(3)] == [0, ErrorCode.INVALID_RECORD, 0]


def test_without_acks_a_batch_that_is_refused_later_ends_the_connection(
    broker: Broker, client: RawClient, connect: Connect
) -> None:
    create_topic(client, configs=COMPACTED)
    silent = connect(broker)
    silent.send(produce_request(batch_of(b"v", key=b"k", codec=Codec.ZSTD), acks=0), BY_NAME, answered=False)
    eventually(lambda: list_offsets(client, -1).offset == 1, "what has keys is appended")
    silent.send(produce_request(batch_of(b"v", codec=Codec.ZSTD), acks=0), BY_NAME, answered=False)
    silent.wait_closed()


def test_a_connection_whose_batches_wait_is_not_read_from(
    broker: Broker, client: RawClient, connect: Connect, held: Callable[[type, str], Held]
) -> None:
    """Else one client could have the broker keep whatever it sends."""
    create_topic(client, configs=COMPACTED | {"max.message.bytes": "2000000"})
    gate = held(BatchValidation, "run")
    batch = batch_of(bytes(400_000), key=b"k")
    flood = connect(broker)

    def send() -> None:
        for _ in range(40):
            flood.send(produce_request(batch), BY_NAME)

    thread = threading.Thread(target=send)
    thread.start()
    assert gate.entered.wait(60)

    def waiting(server: object) -> int:
        return sum(connection.held_bytes for connection in server.connections)  # type: ignore[attr-defined]

    eventually(lambda: broker.call(waiting) > 1 << 20, "the connection is full")
    for _ in range(20):
        assert broker.call(waiting) < (1 << 20) + 2 * len(batch)
    gate.let_go.set()
    assert [produced(flood.receive()).base_offset for _ in range(40)] == list(range(40))
    thread.join()
    assert broker.call(waiting) == 0


def test_a_topic_deleted_while_its_batches_wait_harms_nobody(
    broker: Broker, client: RawClient, connect: Connect, held: Callable[[type, str], Held]
) -> None:
    create_topic(client, configs=COMPACTED)
    gate = held(BatchValidation, "run")
    client.send(produce_request(batch_of(b"v", key=b"k", codec=Codec.ZSTD)), BY_NAME)
    assert gate.entered.wait(60)
    assert delete_topic(connect(broker), "t") == ErrorCode.NONE
    gate.let_go.set()
    assert produced(client.receive()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    create_topic(client, configs=COMPACTED)
    assert append(client, b"v", key=b"k", codec=Codec.ZSTD) == 0


def test_a_broker_that_stops_answers_what_waits(
    start: Start, connect: Connect, held: Callable[[type, str], Held]
) -> None:
    broker = start()
    client, other = connect(broker), connect(broker)
    create_topic(client, configs=COMPACTED)
    append(client, b"v", key=b"k")
    keys, times = held(BatchValidation, "run"), held(TimestampLookup, "search")
    client.send(produce_request(batch_of(b"v", key=b"k", codec=Codec.ZSTD)), BY_NAME)
    other.send(lookups({"t": [0]}), 9)
    assert keys.entered.wait(60)
    assert times.entered.wait(60)
    server = broker.server
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    eventually(lambda: server.lookups._closed, "it is stopping")
    times.let_go.set()
    eventually(lambda: server.validation_queue.thread._closed, "it waits for nobody")
    keys.let_go.set()
    assert produced(client.receive()).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert other.receive().topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    stopping.join()


# -- look-ups


def lookups(asked: dict[str, list[int]], timestamp: int = NOW) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=i, timestamp=timestamp) for i in indexes]
        )
        for name, indexes in asked.items()
    ]
    return ListOffsetsRequest(topics=topics)


MANY = 4_000_000


@pytest.fixture(scope="module")
def bomb() -> bytearray:
    """Some kilobytes that are millions of records."""
    batch = hostile(_RECORD_OF_SEVEN_BYTES * MANY, MANY)
    assert len(batch) < 10_000
    return batch


@pytest.mark.parametrize("timestamp", [NOW, -3])
def test_a_look_up_ends_with_the_first_match(
    client: RawClient, bomb: bytearray, cpu: Callable[[], float], timestamp: int
) -> None:
    create_topic(client)
    assert produce(client, bomb).base_offset == 0
    for _ in range(3):
        answer = list_offsets(client, timestamp)
        assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, NOW, 0)
    assert cpu() < 3


def test_of_a_batch_that_expands_too_far_the_beginning_is_told(client: RawClient, cpu: Callable[[], float]) -> None:
    """Its header says that a record as late is in it. Whoever reads from its beginning misses none."""
    create_topic(client)
    append(client, b"before", timestamp=NOW - 5)
    count = 8_400_000
    assert produce(client, hostile(_RECORD_OF_SEVEN_BYTES * count, count, max_timestamp=NOW + 1)).base_offset == 1
    answer = list_offsets(client, NOW + 1)
    assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, NOW + 1, 1)
    assert cpu() < 5


def test_a_search_among_too_many_records_ends_early(client: RawClient, cpu: Callable[[], float]) -> None:
    """The last of four million would be the one: the beginning of the batch is told after half a million."""
    create_topic(client)
    late = b"\x0c\0\x02\0\x01\x01\0"
    body = _RECORD_OF_SEVEN_BYTES * MANY + late
    produce(client, hostile(body, MANY + 1, max_timestamp=NOW + 1))
    before = cpu()
    answer = list_offsets(client, NOW + 1)
    assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, NOW + 1, 0)
    assert cpu() - before < 2


def test_headers_that_promise_what_is_not_there_are_believed_in_the_end(client: RawClient) -> None:
    create_topic(client)
    for _ in range(40):
        produce(client, hostile(_RECORD_OF_SEVEN_BYTES, 1, Codec.NONE, max_timestamp=NOW + 9))
    answer = list_offsets(client, NOW + 9)
    assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, NOW + 9, 16)


@pytest.mark.parametrize("asked", [{"t": [0, 0]}, {"t": [0, 1, 0, 0]}], ids=str)
def test_a_partition_named_twice_is_refused_as_kafka_does(client: RawClient, asked: dict[str, list[int]]) -> None:
    create_topic(client, partitions=2)
    append(client, b"a", partition=1)
    (topic,) = client.call(lookups(asked)).topics
    found = {row.partition_index: (row.error_code, row.offset) for row in topic.partitions}
    assert len(found) == len(topic.partitions)
    assert found[0] == (ErrorCode.INVALID_REQUEST, -1)
    assert found.get(1, (0, 0)) == (ErrorCode.NONE, 0)


def test_a_topic_named_twice_is_refused_only_for_what_is_named_twice(client: RawClient) -> None:
    create_topic(client, partitions=2)
    append(client, b"a", partition=1)
    request = lookups({"t": [0, 1]})
    request.topics += lookups({"t": [0]}).topics
    (topic,) = client.call(request).topics
    assert [row.error_code for row in topic.partitions] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]


def test_others_are_served_while_a_look_up_goes_on(
    broker: Broker, client: RawClient, connect: Connect, held: Callable[[type, str], Held]
) -> None:
    create_topic(client)
    append(client, b"a")
    gate = held(TimestampLookup, "search")
    client.send(lookups({"t": [0]}), 9)
    assert gate.entered.wait(60)
    assert append(connect(broker), b"b") == 1
    assert list_offsets(connect(broker), -1).offset == 2
    gate.let_go.set()
    assert client.receive().topics[0].partitions[0].offset == 0


def test_a_look_up_for_who_has_gone_ends(
    broker: Broker, client: RawClient, connect: Connect, held: Callable[[type, str], Held]
) -> None:
    create_topic(client, partitions=3)
    for partition in range(3):
        append(client, b"a", partition=partition)
    gate = held(TimestampLookup, "search")
    gone = connect(broker)
    gone.send(lookups({"t": [0, 1, 2]}), 9)
    assert gate.entered.wait(60)
    gone.close()
    eventually(lambda: broker.call(lambda server: len(server.connections)) == 1, "the connection is known to be closed")
    gate.let_go.set()
    eventually(lambda: not broker.call(lambda server: server.lookups._tasks), "nothing is looked up for it")
    assert list_offsets(client, NOW).offset == 0
