"""Fetching from a cluster that moves: leaders, epochs, replicas near by, lost sessions, brokers of older days."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from equipoise.wire.apis.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.client.fakes import RECORDS, TOPIC, TOPIC_ID, FakeCluster, batch
from tests.client.reader import Reader, offsets_of, reader, run

Main = Callable[[FakeCluster, Reader], Coroutine[Any, Any, None]]


@asynccontextmanager
async def reading(fake: FakeCluster, **settings: object) -> AsyncIterator[Reader]:
    async with fake, reader(fake.bootstrap_servers, **settings) as mine:
        yield mine


def play(main: Main, fake: FakeCluster, **settings: object) -> None:
    async def whole() -> None:
        async with reading(fake, **settings) as mine:
            await main(fake, mine)

    run(whole())


def test_a_leader_that_moves_is_followed() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        partitions = mine.assign(TOPIC, [0, 1])
        taken = await mine.take(4)
        fake.leaders[0] = (2, 1)
        taken += await mine.take(2 * RECORDS - 4)
        assert offsets_of(taken, partitions[0]) == list(range(RECORDS))
        assert offsets_of(taken, partitions[1]) == list(range(RECORDS))
        mine.subscriptions.seek(partitions[0], 5)
        fake.fetches.clear()
        assert offsets_of(await mine.take(5), partitions[0]) == [5, 6, 7, 8, 9]
        await mine.until(lambda: fake.fetches)
        asked = {
            node
            for node, _, request in fake.fetches
            for one in request.topics
            for at in one.partitions
            if at.partition == 0
        }
        assert asked == {2}

    play(main, FakeCluster(nodes=2, partitions=2))


def test_fetches_carry_the_leader_epoch_that_is_known() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.leaders[0] = (1, 7)
        mine.assign(TOPIC, [0])
        await mine.take(1)
        asked = fake.fetches[0][2].topics[0].partitions[0]
        assert (asked.current_leader_epoch, asked.fetch_offset) == (7, 0)

    play(main, FakeCluster())


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_passes_is_tried_again_and_stops_nobody_else(error: ErrorCode) -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.errors[1, 0] = error
        bad, good = mine.assign(TOPIC, [0, 1])
        assert offsets_of(await mine.take(RECORDS), good) == list(range(RECORDS))
        del fake.errors[1, 0]
        assert offsets_of(await mine.take(RECORDS), bad) == list(range(RECORDS))

    play(main, FakeCluster(partitions=2))


def test_errors_are_not_asked_about_without_pause() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.errors[1, 0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        mine.assign(TOPIC, [0])
        await mine.until(lambda: len(fake.fetches) > 1)
        began = time.monotonic()
        await mine.until(lambda: len(fake.fetches) >= 15)
        assert time.monotonic() - began > 0.3  # 10 ms at first, then doubling up to 50, less a fifth

    play(main, FakeCluster())


def test_an_unexpected_error_is_raised_and_passes() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.errors[1, 0] = ErrorCode.CORRUPT_MESSAGE
        (partition,) = mine.assign(TOPIC, [0])
        with pytest.raises(KafkaError, match=r"t-0 cannot be fetched \(CORRUPT_MESSAGE\)"):
            await mine.take(1)
        del fake.errors[1, 0]
        taken: list[Any] = []
        while len(taken) < RECORDS:
            try:
                taken += await mine.take(1)
            except KafkaError:
                await asyncio.sleep(0)
        assert offsets_of(taken, partition) == list(range(RECORDS))

    play(main, FakeCluster())


def test_a_replica_that_the_leader_prefers_is_read_and_left_when_it_fails() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.preferred = 2
        (partition,) = mine.assign(TOPIC, [0])
        taken = await mine.take(3)
        assert fake.fetches[0][0] == 1
        assert fake.fetches[0][2].rack_id == "here"
        assert {node for node, _, _ in fake.fetches[1:]} == {2}
        fake.errors[2, 0] = ErrorCode.OFFSET_OUT_OF_RANGE  # it has fallen behind: no reason to reset
        fake.preferred = -1
        taken += await mine.take(RECORDS - 3)
        assert offsets_of(taken, partition) == list(range(RECORDS))

    play(main, FakeCluster(), client_rack="here", auto_offset_reset="none")


@pytest.mark.parametrize("newest", [4, 6, 7, 9, 11, 12, 13, 15, 18])
def test_brokers_of_every_age(newest: int) -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        assert offsets_of(await mine.take(RECORDS), partition) == list(range(RECORDS))
        assert {version for _, version, _ in fake.fetches} == {newest}

    play(main, FakeCluster(fetch_versions=(4, newest)))


def test_a_topic_without_id_is_fetched_by_name() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.topic_id = bytes(16)
        (partition,) = mine.assign(TOPIC, [0])
        assert offsets_of(await mine.take(RECORDS), partition) == list(range(RECORDS))
        assert {version for _, version, _ in fake.fetches} == {12}

    play(main, FakeCluster())


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
def test_a_session_that_the_broker_has_lost_begins_anew(error: ErrorCode) -> None:
    """The first answer opens session 5, the second knows nothing of it any more."""

    def opens(node_id: int, request: FetchRequest) -> FetchResponse:
        data = PartitionData(partition_index=0, error_code=0, high_watermark=RECORDS, records=batch(0))
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return FetchResponse(session_id=5, responses=[topic])

    def forgets(node_id: int, request: FetchRequest) -> FetchResponse:
        return FetchResponse(error_code=error, responses=[])

    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.answers = [opens, forgets]
        (partition,) = mine.assign(TOPIC, [0])
        assert offsets_of(await mine.take(RECORDS), partition) == list(range(RECORDS))
        sessions = [(request.session_id, request.session_epoch) for _, _, request in fake.fetches[:3]]
        assert sessions == [(0, 0), (5, 1), (0, 0)]

    play(main, FakeCluster())


def test_lost_connections_are_made_again() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        taken: list[Any] = []
        for _ in range(RECORDS):
            taken += await mine.take(1)
            fake.disconnect()
        assert offsets_of(taken, partition) == list(range(RECORDS))

    play(main, FakeCluster())


def test_an_answer_to_an_earlier_position_is_dropped() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0], None)

        def meanwhile(node_id: int, request: FetchRequest) -> None:
            mine.subscriptions.seek(partition, 8)

        fake.answers = [meanwhile]
        mine.subscriptions.seek(partition, 0)
        assert offsets_of(await mine.take(2), partition) == [8, 9]

    play(main, FakeCluster())


def test_bytes_that_are_no_records_are_raised_with_their_place() -> None:
    def garbage(node_id: int, request: FetchRequest) -> FetchResponse:
        data = PartitionData(partition_index=0, error_code=0, high_watermark=RECORDS, records=b"\0" * 80)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.answers = [garbage]
        (partition,) = mine.assign(TOPIC, [0])
        with pytest.raises(KafkaError, match=r"t-0: the record at offset 0 cannot be read.*seek\(\) to 1"):
            await mine.take(1)
        mine.subscriptions.seek(partition, 0)
        assert len(await mine.take(RECORDS)) == RECORDS

    play(main, FakeCluster())


def test_two_brokers_are_fetched_from_at_the_same_time() -> None:
    """One that does not answer holds up only its own partitions."""

    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.leaders[1] = (2, 0)
        stuck = asyncio.Event()
        original = fake._fetch

        async def fetch(node_id: int, version: int, request: FetchRequest) -> FetchResponse:
            if node_id == 1:
                await stuck.wait()
            return await original(node_id, version, request)

        fake._fetch = fetch  # type: ignore[method-assign]
        slow, quick = mine.assign(TOPIC, [0, 1])
        assert offsets_of(await mine.take(RECORDS), quick) == list(range(RECORDS))
        stuck.set()
        assert offsets_of(await mine.take(RECORDS), slow) == list(range(RECORDS))

    play(main, FakeCluster(partitions=2))
