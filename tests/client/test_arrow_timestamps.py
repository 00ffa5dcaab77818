"""The column timestamp of send_arrow: what send() refuses is refused, and the row is named."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from equipoise import Producer
from equipoise.broker import Broker
from equipoise.wire.errors import UsageError
from tests.client.test_producer import create, read, settings


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:
    create(broker, partitions=1)
    with Producer(settings(broker)) as one:
        yield one


def rows(times: pa.Array) -> pa.Table:
    return pa.table({"value": [b"a", b"b", b"c"], "timestamp": times})


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (pa.array([5, -1, -2], pa.int64()), "row 2 has the timestamp -1, "),
        (pa.array([None, 0, -1], pa.timestamp("ms", "UTC")), "row 3 has the timestamp -1 ms, .*the column timestamp"),
        (pa.array([0, -1, 0], pa.timestamp("us")), "row 2 has the timestamp -1 us, "),
        (pa.array([2**62, 0, -(2**62) - 1], pa.int64()), "row 3 has the timestamp -4611686018427387905, "),
        (pa.array([0, 2**62, 0], pa.timestamp("s")), "row 2 has the timestamp 4611686018427387904 s, "),
        (pa.array([0, 2**63, 0], pa.uint64()), "row 2 has the timestamp 9223372036854775808, "),
        (pa.array(["a", "b", "c"]), "the column timestamp is string: give milliseconds since 1970"),
        (pa.array([1.5, 2.5, 3.5]), "the column timestamp is double"),
    ],
)
def test_a_time_that_no_record_may_have_is_refused(
    producer: Producer, broker: Broker, times: pa.Array, message: str
) -> None:
    """Such records were stored, in 1969, and those of a column of text failed with an error of Arrow."""
    with pytest.raises(UsageError, match=message):
        producer.send_arrow(rows(times), "orders")
    producer.flush()
    assert not any(read(broker).values())


@pytest.mark.parametrize(
    ("times", "stored"),
    [
        (pa.array([0, 1, 1_700_000_000_000], pa.int64()), [0, 1, 1_700_000_000_000]),
        (pa.array([1, 2, 3], pa.timestamp("s")), [1000, 2000, 3000]),
        (pa.array([7, 8, 9], pa.uint8()), [7, 8, 9]),
    ],
)
def test_any_other_time_is_stored(producer: Producer, broker: Broker, times: pa.Array, stored: list[int]) -> None:
    producer.send_arrow(rows(times), "orders")
    producer.flush()
    assert [record.timestamp for record in read(broker)[0]] == stored


def test_of_a_column_without_times_all_are_now(producer: Producer, broker: Broker) -> None:
    producer.send_arrow(rows(pa.nulls(3)), "orders")
    producer.flush()
    assert all(record.timestamp > 1_500_000_000_000 for record in read(broker)[0])
