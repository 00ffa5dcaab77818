"""Idempotent producers: an answer that gets lost makes them send again, and the broker must write once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from equipoise.broker import Broker
from tests.interop.conftest import SETTINGS, batches_in_log, open_driver
from tests.interop.drivers import DRIVERS, Confluent, Driver
from tests.interop.lossy import LossyProxy
from tests.interop.records import assert_same, by_place, make_records

COUNT = 300
PARTITIONS = 2


@pytest.fixture
def proxy() -> Iterator[LossyProxy]:
    with LossyProxy(answers_to_lose=1) as proxy:
        yield proxy


@pytest.fixture
def broker(proxy: LossyProxy) -> Iterator[Broker]:
    """Behind the proxy, which is the address it tells its clients."""
    with Broker({**SETTINGS, "advertised.listeners": proxy.address}) as broker:
        proxy.target = broker.bootstrap_servers
        yield broker


@pytest.fixture
def client(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Driver]:
    driver = open_driver(request.param, broker.bootstrap_servers)
    yield driver
    driver.close()


@pytest.mark.parametrize("client", DRIVERS, indirect=True)
def test_lost_answer_writes_nothing_twice(client: Driver, broker: Broker, proxy: LossyProxy, topic: str) -> None:
    records = [client.writable(record) for record in make_records(COUNT, PARTITIONS, seed=2)]
    client.produce(topic, records, "zstd", idempotent=True)
    assert proxy.lost == 1
    read = client.consume_all(topic, PARTITIONS)
    assert_same(read, [client.readable(record) for record in by_place(records)], sent=(0, 2**63))
    assert all(batch.producer_id >= 0 for batch in batches_in_log(broker, topic))


@pytest.mark.parametrize("client", [Confluent.name], indirect=True)
def test_without_idempotence_it_is_written_twice(client: Driver, broker: Broker, proxy: LossyProxy, topic: str) -> None:
    """The test of the test: the records were in the log when the answer got lost."""
    records = make_records(COUNT, PARTITIONS, seed=2)
    client.produce(topic, records, "zstd", idempotent=False)
    assert proxy.lost == 1
    read = client.consume_all(topic, PARTITIONS)
    assert len(read) > COUNT
    assert {record[2:] for record in read} == {record[2:] for record in records}
    assert {batch.producer_id for batch in batches_in_log(broker, topic)} == {-1}
