"""Fetching from our broker: everything once, in order, through seeks, pauses, restarts, deletions, full buffers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.client.fetch.subscription_state import BY_POLICY, NoOffsetForPartitionError, OffsetOutOfRangeError
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import Codec
from proving.brokers import EquipoiseBroker
from tests.client.reader import offsets_of, reader, run
from tests.client.records import TIME, fill, numbered, produce


def delete_before(bootstrap_servers: str, topic: str, offset: int) -> None:
    ((host, port),) = parse_bootstrap_servers(bootstrap_servers)
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000)
    with Connection(host, port) as connection:
        answer = connection.send(request, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == 0


def test_every_record_once_and_in_order(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            partitions = mine.assign("orders", range(4))
            taken = await mine.take(4 * 2500)
            for partition in partitions:
                assert offsets_of(taken, partition) == list(range(2500))
                assert mine.subscriptions.position(partition) == 2500
                assert mine.subscriptions.high_watermark(partition) == 2500
                assert mine.subscriptions.lag(partition, committed_only=False) == 0
            first = taken[0]
            assert (first.key, first.timestamp, first.timestamp_type, first.leader_epoch) == (b"key-0", TIME, 0, 0)

    fill(broker, "orders", 2500, partitions=4)
    run(main())


def test_tables_hold_the_same(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            mine.assign("orders", range(4))
            table = await mine.take_arrow(4 * 1000, at_once=333)
            seen = Counter(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
            assert seen == {(partition, offset): 1 for partition in range(4) for offset in range(1000)}
            assert table["topic"].unique().to_pylist() == ["orders"]
            assert table.column_names == [
                "topic",
                "partition",
                "offset",
                "timestamp",
                "timestamp_type",
                "key",
                "value",
                "headers",
            ]

    fill(broker, "orders", 1000, partitions=4)
    run(main())


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(broker: Broker, codec: Codec) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            mine.assign("orders", [0])
            taken = await mine.take(300)
            assert [(one.key, one.value) for one in taken] == [(one.key, one.value) for one in numbered(300, 50)]

    fill(broker, "orders", 0)
    produce(broker.bootstrap_servers, "orders", 0, numbered(300, 50), codec=codec, per_batch=100)
    run(main())


PATIENT = {"fetch_max_wait_ms": 200_000, "request_timeout_ms": 250_000}


def test_what_is_produced_later_comes_without_delay(broker: Broker) -> None:
    """The broker holds the fetch for up to 200 s, and answers it when there is something."""

    async def main() -> None:
        async with reader(broker.bootstrap_servers, **PATIENT) as mine:
            (partition,) = mine.assign("orders", [0], LATEST)
            await mine.until(lambda: mine.subscriptions.position(partition) == 5)
            for _ in range(3):
                await asyncio.to_thread(produce, broker.bootstrap_servers, "orders", 0, numbered(1))
                assert len(await mine.take(1)) == 1

    fill(broker, "orders", 5)
    run(main())


def test_a_partition_added_while_a_fetch_waits_is_read_at_once(broker: Broker) -> None:
    """So are seeks and pauses: a long fetch is no reason to wait for its end, 200 s from now."""

    async def main() -> None:
        async with reader(broker.bootstrap_servers, **PATIENT) as mine:
            (empty,) = mine.assign("orders", [0], LATEST)
            await mine.until(lambda: mine.subscriptions.assignment[empty].in_flight)
            (added,) = mine.assign("orders", [1])
            assert offsets_of(await mine.take(10), added) == list(range(10))
            mine.subscriptions.seek(added, 7)
            assert offsets_of(await mine.take(3), added) == [7, 8, 9]
            mine.subscriptions.seek(empty, 8)
            assert offsets_of(await mine.take(2), empty) == [8, 9]
            await asyncio.to_thread(produce, broker.bootstrap_servers, "orders", 1, numbered(5))
            assert offsets_of(await mine.take(5), added) == list(range(10, 15))

    fill(broker, "orders", 10, partitions=2)
    run(main())


def test_positions_are_reset_as_the_policy_says(broker: Broker) -> None:
    async def read(policy: str) -> int | None:
        async with reader(broker.bootstrap_servers, auto_offset_reset=policy) as mine:
            (partition,) = mine.assign("orders", [0], BY_POLICY)
            await mine.until(lambda: mine.subscriptions.position(partition) is not None)
            return mine.subscriptions.position(partition)

    async def main() -> None:
        assert await read("earliest") == 0
        assert await read("latest") == 20
        assert await read("by_duration:P30000D") == 0  # longer ago than the first
        assert await read("by_duration:PT1S") == 20  # none is so young: the end

    fill(broker, "orders", 20)
    run(main())


def test_without_a_policy_the_application_decides(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, auto_offset_reset="none") as mine:
            (partition,) = mine.assign("orders", [0], BY_POLICY)
            for _ in range(2):
                with pytest.raises(NoOffsetForPartitionError):
                    await mine.take(1)
            mine.subscriptions.seek(partition, 1_000)
            with pytest.raises(OffsetOutOfRangeError, match=r"orders-0 has no offset 1000.*seek\(\) to where"):
                await mine.take(1)
            assert mine.subscriptions.position(partition) == 1_000
            mine.subscriptions.seek(partition, 15)
            assert offsets_of(await mine.take(5), partition) == [15, 16, 17, 18, 19]

    fill(broker, "orders", 20)
    run(main())


def test_deleted_records_are_passed_over_by_policy(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, auto_offset_reset="earliest") as mine:
            (partition,) = mine.assign("orders", [0])
            assert len(await mine.take(5)) == 5
            mine.subscriptions.pause([partition])
            await asyncio.to_thread(delete_before, broker.bootstrap_servers, "orders", 15)
            mine.subscriptions.seek(partition, 5)
            mine.subscriptions.resume([partition])
            assert offsets_of(await mine.take(5), partition) == [15, 16, 17, 18, 19]

    fill(broker, "orders", 20)
    run(main())


def test_a_partition_out_of_range_does_not_stop_the_others(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, auto_offset_reset="none") as mine:
            bad, good = mine.assign("orders", [0, 1])
            mine.subscriptions.seek(bad, 999)
            taken: list[Any] = []
            failures = 0
            while len(taken) < 500:
                try:
                    taken += await mine.take(1)
                except OffsetOutOfRangeError:
                    failures += 1
                    await asyncio.sleep(0)  # one loop for all: those who fetch need it too
            assert offsets_of(taken, good) == list(range(500))
            assert failures > 0

    fill(broker, "orders", 500, partitions=2)
    run(main())


def test_seeks_by_time(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            first, second = (TopicPartition("orders", number) for number in (0, 1))
            found = await mine.fetcher.list_offsets({first: TIME + 7, second: TIME + 10**9})
            assert found == {first: 7, second: None}
            assert await mine.fetcher.list_offsets({first: EARLIEST, second: LATEST}) == {first: 0, second: 20}

    fill(broker, "orders", 20, partitions=2)
    run(main())


def test_offsets_of_a_topic_that_nobody_has_are_waited_for(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, allow_auto_create_topics=False) as mine:
            asked = asyncio.create_task(mine.fetcher.list_offsets({TopicPartition("later", 0): LATEST}))
            await mine.until(lambda: mine.cluster.nodes)
            await asyncio.to_thread(fill, broker, "later", 0)
            assert await asked == {TopicPartition("later", 0): 0}

    run(main())


def test_queued_bytes_are_bounded_and_taking_goes_on(broker: Broker) -> None:
    """In all, and per partition two fetches and the one that was under way."""
    limit, piece = 256 * 1024, 32 * 1024

    async def main() -> None:
        settings = {"queued_max_messages_kbytes": limit // 1024, "max_partition_fetch_bytes": piece}
        async with reader(broker.bootstrap_servers, **settings) as mine:
            partitions = mine.assign("orders", range(6))
            await mine.until(lambda: mine.subscriptions.is_short_of_room)
            most = most_of_one = 0
            taken: list[Any] = []
            while len(taken) < 6 * 1500:
                taken += await mine.take(100)
                most = max(most, mine.subscriptions.queued_bytes)
                most_of_one = max(most_of_one, *(one.queued_bytes for one in mine.subscriptions.assignment.values()))
                await asyncio.sleep(0)
            assert 2 * piece < most <= limit + piece
            assert most_of_one <= 3 * piece
            for partition in partitions:
                assert offsets_of(taken, partition) == list(range(1500))

    fill(broker, "orders", 1500, partitions=6, size=300, per_batch=50)
    run(main())


def test_full_partitions_that_are_paused_do_not_stop_the_others(broker: Broker) -> None:
    async def main() -> None:
        settings = {"queued_max_messages_kbytes": 1, "max_partition_fetch_bytes": 1000}
        async with reader(broker.bootstrap_servers, **settings) as mine:
            full = mine.assign("orders", [0, 1])
            await mine.until(lambda: mine.subscriptions.queued_bytes >= 1024)
            mine.subscriptions.pause(full)
            (other,) = mine.assign("orders", [2])
            assert offsets_of(await mine.take(500), other) == list(range(500))
            mine.subscriptions.resume(full)
            assert len(await mine.take(1000)) == 1000

    fill(broker, "orders", 500, partitions=3, size=100, per_batch=20)
    run(main())


def test_a_batch_larger_than_all_limits_still_comes(broker: Broker) -> None:
    async def main() -> None:
        settings = {"fetch_max_bytes": 100, "max_partition_fetch_bytes": 100, "queued_max_messages_kbytes": 1}
        async with reader(broker.bootstrap_servers, fetch_min_bytes=1, **settings) as mine:
            mine.assign("orders", [0, 1])
            taken = await mine.take(2 * 100)
            assert Counter(one.partition for one in taken) == {0: 100, 1: 100}

    fill(broker, "orders", 100, partitions=2, size=1000)
    run(main())


def test_pauses_stop_fetching_and_resuming_begins_where_it_stood(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, max_partition_fetch_bytes=1) as mine:
            first, second = mine.assign("orders", [0, 1])
            taken = await mine.take(10)
            mine.subscriptions.pause([first])
            stands_at = mine.subscriptions.position(first)
            while mine.subscriptions.position(second) != 1000:
                taken += await mine.take(1)
            assert mine.subscriptions.position(first) == stands_at == len(offsets_of(taken, first))
            mine.subscriptions.resume([first])
            taken += await mine.take(2000 - len(taken))
            assert offsets_of(taken, first) == offsets_of(taken, second) == list(range(1000))

    fill(broker, "orders", 1000, partitions=2)
    run(main())


def test_seeks_and_pauses_by_another_thread_while_records_are_taken(broker: Broker) -> None:
    """Whatever is taken after a seek begins at the offset sought, and goes on without a gap."""

    async def main() -> None:
        async with reader(broker.bootstrap_servers, max_partition_fetch_bytes=2000) as mine:
            (partition,) = mine.assign("orders", [0])
            done = threading.Event()

            def disturb() -> None:
                for turn in range(100):
                    mine.subscriptions.seek(partition, (turn * 37) % 900)
                    mine.subscriptions.pause([partition])
                    mine.subscriptions.resume([partition])
                mine.subscriptions.seek(partition, 100)
                done.set()

            thread = threading.Thread(target=disturb)
            thread.start()
            while not done.is_set():
                some = [one.offset for one in mine.fetch_buffer.take(50)]
                assert not some or some == list(range(some[0], some[0] + len(some)))
                await asyncio.sleep(0)
            thread.join()
            assert offsets_of(await mine.take(900), partition)[-900:] == list(range(100, 1000))

    fill(broker, "orders", 1000)
    run(main())


def test_a_revoked_partition_given_back_begins_anew(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            (partition,) = mine.assign("orders", [0])
            for _ in range(20):
                await mine.take(3)
                mine.subscriptions.revoke([partition])
                assert mine.fetch_buffer.take(100) == []
                mine.subscriptions.assign([partition])
                mine.subscriptions.seek(partition, 5)
                assert offsets_of(await mine.take(2), partition) == [5, 6]

    fill(broker, "orders", 100)
    run(main())


def test_a_topic_deleted_and_made_anew_is_read_on(broker: Broker) -> None:
    async def main() -> None:
        settings = {"auto_offset_reset": "earliest", "allow_auto_create_topics": False}
        async with reader(broker.bootstrap_servers, **settings) as mine:
            (partition,) = mine.assign("orders", [0])
            await mine.take(20)
            await asyncio.to_thread(remake)
            assert offsets_of(await mine.take(5), partition) == [0, 1, 2, 3, 4]

    def remake() -> None:
        with Admin(broker.bootstrap_servers) as admin:
            admin.delete_topic("orders")
        fill(broker, "orders", 5)

    fill(broker, "orders", 20)
    run(main())


def test_a_session_names_only_what_has_changed(broker: Broker) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, fetch_max_wait_ms=20) as mine:
            partitions = mine.assign("orders", range(8))
            await mine.take(8 * 10)
            await mine.until(lambda: len(wanted()) == 8)
            mine.subscriptions.revoke(partitions[2:])
            await mine.until(lambda: len(wanted()) == 2)
            await asyncio.to_thread(produce, broker.bootstrap_servers, "orders", 1, numbered(3))
            assert offsets_of(await mine.take(3), partitions[1]) == [10, 11, 12]
            broker.call(lambda server: server.fetch_sessions._sessions.clear())  # as if the broker had evicted it
            await asyncio.to_thread(produce, broker.bootstrap_servers, "orders", 1, numbered(3))
            assert offsets_of(await mine.take(3), partitions[1]) == [13, 14, 15]

    def wanted() -> list[object]:
        found = broker.call(lambda server: list(server.fetch_sessions._sessions.values()))
        return list(found[0].partitions) if found else []

    fill(broker, "orders", 10, partitions=8)
    run(main())


def test_without_room_for_sessions_fetches_name_everything() -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            mine.assign("orders", range(2))
            assert len(await mine.take(2000, at_once=10)) == 2000

    with Broker({"max.incremental.fetch.session.cache.slots": 0}) as broker:
        fill(broker, "orders", 1000, partitions=2)
        run(main())


def test_compaction_leaves_gaps_that_are_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            (partition,) = mine.assign("orders", [0])
            await mine.until(lambda: mine.subscriptions.high_watermark(partition) == 2000)
            taken: list[Any] = []
            while mine.subscriptions.position(partition) != 2000:
                taken += await mine.take(1)
            offsets = offsets_of(taken, partition)
            assert offsets == sorted(set(offsets))
            assert len(offsets) < 2000
            assert {one.key: one.value for one in taken} == {b"%d" % key: b"%d" % (1990 + key) for key in range(10)}

    settings = {"log.cleaner.backoff.ms": 20, "log.cleaner.min.cleanable.ratio": 0}
    with Broker(settings, data=tmp_path) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 1, {"cleanup.policy": "compact", "internal.segment.bytes": "4096"})
        again = [one._replace(key=b"%d" % (at % 10), value=b"%d" % at) for at, one in enumerate(numbered(2000))]
        produce(broker.bootstrap_servers, "orders", 0, again, per_batch=20)
        run(until_compacted(broker))
        run(main())


async def until_compacted(broker: Broker) -> None:
    while True:
        async with reader(broker.bootstrap_servers) as mine:
            mine.assign("orders", [0])
            first = (await mine.take(1))[0].offset
        if first > 0:
            return


def test_a_broker_killed_and_started_again_loses_nothing() -> None:
    async def main() -> None:
        async with reader(broker.bootstrap_servers, max_partition_fetch_bytes=1000) as mine:
            partitions = mine.assign("orders", range(3))
            taken = await mine.take(300)
            for _ in range(2):
                broker.kill()
                await asyncio.to_thread(broker.start)
                taken += await mine.take(300)
            taken += await mine.take(3000 - len(taken))
            for partition in partitions:
                assert offsets_of(taken, partition) == list(range(1000))

    with EquipoiseBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 3)
        for number in range(3):
            produce(broker.bootstrap_servers, "orders", number, numbered(1000), per_batch=50)
        run(main())


def test_a_refusal_reaches_the_application_and_passes() -> None:
    """As from a broker that does not let us read, until it does."""
    allowed = threading.Event()

    async def main() -> None:
        async with reader(broker.bootstrap_servers) as mine:
            (partition,) = mine.assign("orders", [0])
            await mine.until(lambda: mine.subscriptions.position(partition) == 0)
            with pytest.raises(KafkaError, match=r"orders-0 cannot be fetched") as caught:
                await mine.take(1)
            assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            allowed.set()
            taken: list[Any] = []
            while len(taken) < 10:
                try:
                    taken += await mine.take(1)
                except KafkaError:
                    await asyncio.sleep(0)
            assert offsets_of(taken, partition) == list(range(10))

    with Broker() as broker:
        fill(broker, "orders", 10)
        broker.call(lambda server: deny_reading(server, allowed))
        run(main())


def deny_reading(server: object, allowed: threading.Event) -> None:
    from equipoise.security.acls import AclOperation

    original = server.find_led  # type: ignore[attr-defined]

    def find(call: object, operation: object, topic: object, index: int) -> object:
        if operation is AclOperation.READ and not allowed.is_set():
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
        return original(call, operation, topic, index)

    server.find_led = find  # type: ignore[attr-defined]


def test_nothing_is_left_behind_when_closed_at_any_time(broker: Broker) -> None:
    async def main() -> None:
        for turns in range(10):
            async with reader(broker.bootstrap_servers) as mine:
                mine.assign("orders", range(2))
                for _ in range(turns * 3):
                    await asyncio.sleep(0.001)
        while broker.call(lambda server: len(server.connections)):
            await asyncio.sleep(0.005)
        while len(asyncio.all_tasks()) > 2:  # this one, and the one that waits for it
            await asyncio.sleep(0.005)

    fill(broker, "orders", 100, partitions=2)
    run(main())
