"""Fetch: long polls woken by appends, the limits on an answer's size, what is told of a partition."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import read_header
from tests.broker.calls import (
    BY_NAME,
    append,
    batch_of,
    create_topic,
    delete_topic,
    fetch,
    fetch_request,
    fetched,
    partitions_of,
    produce_request,
    produced,
    records_in,
    values_in,
)
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually, waiting_calls
from tests.broker.rawclient import RawClient

LONG_WAIT = 600_000  # ms: a test that passes was woken, and did not wait


def send_delayed(broker: Broker, client: RawClient, request: FetchRequest) -> None:
    """Sends a Fetch, and waits until the broker delays its answer."""
    before = waiting_calls(broker)
    client.send(request, BY_NAME)
    eventually(lambda: waiting_calls(broker) > before, "the Fetch waits")


def watchers(broker: Broker, topic: str = "t") -> int:
    return broker.call(lambda server: sum(len(p._watchers) for p in server.topics.require(topic).partitions))


# -- waiting


def test_an_append_wakes_a_fetch_while_every_timer_stands_still(start: Start, connect: Connect) -> None:
    broker = start(clock=StandingClock())
    reader, writer = connect(broker), connect(broker)
    create_topic(writer)
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    append(writer, b"news")
    assert values_in(fetched(reader.receive())) == [b"news"]


def test_a_fetch_waits_for_min_bytes_over_several_appends(broker: Broker, connect: Connect) -> None:
    reader, writer = connect(broker), connect(broker)
    create_topic(writer)
    size = len(batch_of(b"12345"))
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT, min_bytes=2 * size + 1))
    append(writer, b"12345")
    append(writer, b"67890")
    assert waiting_calls(broker) == 1
    append(writer, b"more")
    assert values_in(fetched(reader.receive())) == [b"12345", b"67890", b"more"]


def test_min_bytes_are_counted_over_all_partitions(broker: Broker, connect: Connect) -> None:
    reader, writer = connect(broker), connect(broker)
    create_topic(writer, partitions=2)
    offsets = {("t", 0): 0, ("t", 1): 0}
    send_delayed(broker, reader, fetch_request(offsets, max_wait_ms=LONG_WAIT, min_bytes=len(batch_of(b"one")) + 1))
    append(writer, b"one", partition=1)
    assert waiting_calls(broker) == 1
    append(writer, b"two", partition=0)
    answer = partitions_of(reader.receive())
    assert [values_in(data) for data in answer.values()] == [[b"two"], [b"one"]]


def test_a_fetch_is_answered_empty_when_its_time_is_up_and_not_before(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start(clock=clock)
    client = connect(broker)
    create_topic(client)
    send_delayed(broker, client, fetch_request(max_wait_ms=500))
    advance(broker, clock, 499)
    assert waiting_calls(broker) == 1
    advance(broker, clock, 1)
    answer = fetched(client.receive())
    assert (answer.error_code, answer.records, answer.high_watermark) == (ErrorCode.NONE, b"", 0)


def test_what_is_there_after_a_deadline_is_sent_though_it_is_less_than_min_bytes(
    start: Start, connect: Connect
) -> None:
    clock = StandingClock()
    broker = start(clock=clock)
    reader, writer = connect(broker), connect(broker)
    create_topic(writer)
    send_delayed(broker, reader, fetch_request(max_wait_ms=500, min_bytes=1_000_000))
    append(writer, b"little")
    advance(broker, clock, 500)
    assert values_in(fetched(reader.receive())) == [b"little"]


@pytest.mark.parametrize("min_bytes", [2500, 3000, 1_000_000])
def test_min_bytes_that_whole_batches_cannot_reach_are_not_waited_for(client: RawClient, min_bytes: int) -> None:
    """Kafka fills up to the limit with a cut batch: three of 1,070 bytes count as the 3,000 asked for."""
    create_topic(client)
    for _ in range(3):
        append(client, bytes(1000))
    limits = {"partition_max_bytes": 3000, "max_bytes": 3000}
    answer = fetch(client, max_wait_ms=LONG_WAIT, min_bytes=min_bytes, **limits)
    assert values_in(answer) == [bytes(1000)] * 2


def test_bytes_count_to_the_limit_of_their_partition_and_no_further(broker: Broker, connect: Connect) -> None:
    reader, writer = connect(broker), connect(broker)
    create_topic(writer, partitions=2)
    for _ in range(3):
        append(writer, bytes(1000))
    offsets = {("t", 0): 0, ("t", 1): 0}
    send_delayed(
        broker, reader, fetch_request(offsets, max_wait_ms=LONG_WAIT, min_bytes=3000, partition_max_bytes=2000)
    )
    append(writer, bytes(800), partition=1)
    assert waiting_calls(broker) == 1
    append(writer, bytes(800), partition=1)
    answer = partitions_of(reader.receive())
    assert [len(values_in(data)) for data in answer.values()] == [1, 2]


def test_who_reads_an_older_segment_does_not_wait_for_more_of_it(client: RawClient) -> None:
    """It never comes; Kafka answers at once, too (DelayedFetch)."""
    create_topic(client, configs={"internal.segment.bytes": "2500"})
    for _ in range(5):
        append(client, bytes(1000))
    answer = fetch(client, max_wait_ms=LONG_WAIT, min_bytes=1_000_000)
    assert values_in(answer) == [bytes(1000)] * 2


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"max_wait_ms": LONG_WAIT, "min_bytes": 0}])
def test_a_fetch_that_does_not_want_to_wait_is_answered_at_once(client: RawClient, options: dict[str, int]) -> None:
    create_topic(client)
    assert fetch(client, **options).records == b""


@pytest.mark.parametrize(
    ("offsets", "code"),
    [
        ({("t", 0): 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({("t", 0): -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({("t", 9): 0}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({("t", -1): 0}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({("absent", 0): 0}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_error_is_told_at_once(client: RawClient, offsets: dict[tuple[str, int], int], code: ErrorCode) -> None:
    create_topic(client)
    answer = fetched(client.call(fetch_request(offsets, max_wait_ms=LONG_WAIT), BY_NAME))
    assert (answer.error_code, answer.high_watermark, answer.records) == (code, -1, b"")


def test_deleting_the_topic_answers_who_waits_on_it(broker: Broker, connect: Connect) -> None:
    reader, admin = connect(broker), connect(broker)
    create_topic(admin)
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    assert delete_topic(admin, "t") == ErrorCode.NONE
    assert fetched(reader.receive()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_stopping_the_broker_answers_who_waits(start: Start, connect: Connect) -> None:
    broker = start()
    client = connect(broker)
    create_topic(client)
    send_delayed(broker, client, fetch_request(max_wait_ms=LONG_WAIT))
    broker.stop()
    assert fetched(client.receive()).error_code == ErrorCode.NONE
    client.wait_closed()


def test_a_client_that_leaves_takes_its_parked_fetch_with_it(broker: Broker, connect: Connect) -> None:
    reader, other = connect(broker), connect(broker)
    create_topic(other)
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    assert watchers(broker) == 1
    reader.close()
    eventually(lambda: watchers(broker) == 0, "nobody watches the partition")
    append(other, b"still alive")


def test_an_answered_fetch_no_longer_watches(broker: Broker, connect: Connect) -> None:
    reader, writer = connect(broker), connect(broker)
    create_topic(writer)
    send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    append(writer, b"x")
    reader.receive()
    assert watchers(broker) == 0


def test_all_who_wait_on_a_partition_are_woken(broker: Broker, connect: Connect) -> None:
    readers = [connect(broker) for _ in range(5)]
    writer = connect(broker)
    create_topic(writer)
    for reader in readers:
        send_delayed(broker, reader, fetch_request(max_wait_ms=LONG_WAIT))
    append(writer, b"for all")
    assert [values_in(fetched(reader.receive())) for reader in readers] == [[b"for all"]] * 5


def test_what_becomes_readable_in_one_turn_leaves_in_one_answer(start: Start, connect: Connect) -> None:
    broker = start({"flush": "never"})
    reader = connect(broker)
    create_topic(reader, partitions=3)
    send_delayed(broker, reader, fetch_request({("t", number): 0 for number in range(3)}, max_wait_ms=LONG_WAIT))

    def append_to_all(server: Server) -> None:
        for partition in server.topics.require("t").partitions:
            data = memoryview(bytearray(batch_of(b"x")))
            server.append(partition, data, [(0, read_header(data))], server.clock.now())

    broker.call(append_to_all)
    assert [values_in(data) for data in partitions_of(reader.receive()).values()] == [[b"x"], [b"x"], [b"x"]]


# -- sizes


@pytest.fixture
def three_batches(client: RawClient) -> int:
    """Three batches of one size in t-0; that size."""
    create_topic(client)
    for value in (b"a", b"b", b"c"):
        append(client, value)
    return len(batch_of(b"a"))


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
@pytest.mark.parametrize(("batches", "spare", "expected"), [(2, 0, 2), (2, 1, 2), (3, -1, 2), (3, 0, 3), (1, 0, 1)])
def test_an_answer_holds_the_whole_batches_that_fit(
    client: RawClient, three_batches: int, limit: str, batches: int, spare: int, expected: int
) -> None:
    answer = fetch(client, **{limit: batches * three_batches + spare})
    assert values_in(answer) == [b"a", b"b", b"c"][:expected]
    assert len(answer.records or b"") == expected * three_batches


@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
@pytest.mark.parametrize("value", [1, 0, -1])
def test_the_first_batch_is_sent_even_if_it_is_larger_than_the_limit(
    client: RawClient, three_batches: int, limit: str, value: int
) -> None:
    assert values_in(fetch(client, 1, **{limit: value})) == [b"b"]


def test_only_one_partition_may_go_beyond_the_limit(client: RawClient) -> None:
    create_topic(client, partitions=2)
    append(client, b"a", partition=0)
    append(client, b"b", partition=1)
    answer = partitions_of(client.call(fetch_request({("t", 0): 0, ("t", 1): 0}, max_bytes=1), BY_NAME))
    assert [values_in(data) for data in answer.values()] == [[b"a"], []]


def test_a_partition_without_data_does_not_use_up_the_right_to_the_first_batch(client: RawClient) -> None:
    create_topic(client, partitions=2)
    append(client, b"b", partition=1)
    answer = partitions_of(client.call(fetch_request({("t", 0): 0, ("t", 1): 0}, max_bytes=1), BY_NAME))
    assert [values_in(data) for data in answer.values()] == [[], [b"b"]]


def test_the_brokers_own_limit_holds_too(start: Start, connect: Connect) -> None:
    client = connect(start({"fetch.max.bytes": 1024}))
    create_topic(client)
    for _ in range(3):
        append(client, bytes(500))
    assert len(records_in(fetch(client))) == 1


def test_an_offset_inside_a_batch_brings_the_whole_batch(client: RawClient) -> None:
    create_topic(client)
    append(client, b"a", b"b", b"c")
    assert [record.offset for record in records_in(fetch(client, 1))] == [0, 1, 2]


def test_the_end_of_the_log_is_no_error(client: RawClient) -> None:
    create_topic(client)
    append(client, b"a")
    answer = fetch(client, 1)
    assert (answer.error_code, answer.high_watermark, answer.records) == (ErrorCode.NONE, 1, b"")


# -- what is told


def test_watermarks_and_log_start_are_told(client: RawClient) -> None:
    create_topic(client)
    append(client, b"a", b"b")
    answer = fetch(client)
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (2, 2, 0)


@pytest.mark.parametrize(("isolation_level", "expected"), [(0, None), (1, [])])
def test_aborted_transactions_are_an_empty_list_for_read_committed_only(
    client: RawClient, isolation_level: int, expected: list[object] | None
) -> None:
    create_topic(client)
    assert fetch(client, isolation_level=isolation_level).aborted_transactions == expected


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_client_that_heard_of_a_later_leader_is_told_so(client: RawClient, epoch: int, code: ErrorCode) -> None:
    create_topic(client)
    assert fetch(client, leader_epoch=epoch).error_code == code


def by_id(topic_id: bytes) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])])


@pytest.mark.parametrize("version", range(13, 19))
def test_from_version_13_on_topics_are_asked_by_id(client: RawClient, version: int) -> None:
    topic_id = create_topic(client)
    append(client, b"a")
    answer = client.call(by_id(topic_id), version)
    assert answer.responses[0].topic_id == topic_id
    assert values_in(fetched(answer)) == [b"a"]


def test_an_unknown_topic_id_has_its_own_code(client: RawClient) -> None:
    assert fetched(client.call(by_id(bytes(range(16))))).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name_brings_the_same_records(client: RawClient, version: int) -> None:
    create_topic(client)
    append(client, b"a", b"b")
    assert values_in(fetched(client.call(fetch_request(), version))) == [b"a", b"b"]


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_of_produce_by_name_is_served(client: RawClient, version: int) -> None:
    create_topic(client)
    answer = produced(client.call(produce_request(batch_of(b"a")), version))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
