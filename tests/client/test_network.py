"""The asynchronous connection: many requests at a time, in order; large answers; peers that fail in every way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from equipoise.broker import Broker
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.server_process import free_port
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError, UsageError
from equipoise.wire.records.read import read_all
from equipoise.wire.schema import Message
from tests.client.records import fill, numbered
from tests.client.scripted import Answer, ScriptedBroker, answering, framed, refusing_version, serving

Result = TypeVar("Result")

METADATA = (3, 0, 12)
NO_TOPICS = MetadataRequest(topics=[])
EMPTY = MetadataResponse(brokers=[], topics=[], cluster_id="tiny")
SECONDS = 60.0


def run(main: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(main, 200))


def against(main: Callable[[ScriptedBroker], Coroutine[Any, Any, None]], *script: Answer) -> list[tuple[int, int]]:
    with ScriptedBroker(*script) as broker:
        run(main(broker))
    return broker.asked


async def connect(broker: ScriptedBroker | Broker, timeout: float = SECONDS) -> AsyncConnection:
    if isinstance(broker, Broker):
        ((host, port),) = parse_bootstrap_servers(broker.bootstrap_servers)
        return await AsyncConnection.connect(host, port, timeout=timeout)
    return await AsyncConnection.connect("127.0.0.1", broker.port, timeout=timeout)


def about(topic: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)


def fetch(topic_id: bytes, offset: int, max_wait_ms: int, max_bytes: int = 100 << 20) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic_id=topic_id, partitions=[asked])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)


def test_many_requests_under_way_get_each_its_own_answer(broker: Broker) -> None:
    async def main() -> None:
        connection = await connect(broker)
        names = [f"t{number}" for number in range(50)]
        answers = await asyncio.gather(*(connection.send(about(name), MetadataResponse, SECONDS) for name in names))
        assert [answer.topics[0].name for answer in answers] == names
        connection.close()

    run(main())


def test_answers_come_in_the_order_of_the_requests(broker: Broker) -> None:
    """A fetch that waits holds up the answer behind it, not the request."""
    topic_id = fill(broker, "orders", 0)

    async def main() -> None:
        connection = await connect(broker)
        done: list[str] = []

        async def ask(request: Message, response: type[Message]) -> None:
            await connection.send(request, response, SECONDS)
            done.append(type(request).__name__)

        await asyncio.gather(ask(fetch(topic_id, 0, 300), FetchResponse), ask(NO_TOPICS, MetadataResponse))
        assert done == ["FetchRequest", "MetadataRequest"]
        connection.close()

    run(main())


def test_a_large_answer_is_one_buffer_of_which_records_are_a_view(broker: Broker) -> None:
    topic_id = fill(broker, "orders", 3000, size=1000)

    async def main() -> None:
        connection = await connect(broker)
        answer = await connection.send(fetch(topic_id, 0, 0), FetchResponse, SECONDS)
        records = answer.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert len(records) > 3_000_000
        assert isinstance(records.obj, bytearray)
        assert len(records.obj) - len(records) < 200
        small = await connection.send(NO_TOPICS, MetadataResponse, SECONDS)
        assert small.brokers
        connection.close()

    run(main())


def test_a_large_buffer_is_filled_again_only_when_nobody_has_a_view_of_it(broker: Broker) -> None:
    topic_id = fill(broker, "orders", 3000, size=1000, per_batch=100)

    async def main() -> None:
        connection = await connect(broker)

        async def read(offset: int) -> memoryview:
            answer = await connection.send(fetch(topic_id, offset, 0, 1_000_000), FetchResponse, SECONDS)
            records = answer.responses[0].partitions[0].records
            assert isinstance(records, memoryview)
            return records

        kept = [(await read(offset), offset) for offset in (0, 500, 1000, 1500)]
        assert len({id(view.obj) for view, _ in kept}) == len(kept)
        for view, offset in kept:
            assert read_all(view)[0].value == numbered(3000, 1000)[offset].value
        known = {id(view.obj) for view, _ in kept}
        del kept, view
        for offset in (2000, 100, 2500):
            again = await read(offset)
            assert id(again.obj) in known
            assert read_all(again)[0].value == numbered(3000, 1000)[offset].value
            del again
        connection.close()

    run(main())


def test_frames_may_come_in_any_pieces() -> None:
    def dripping(frame: bytes) -> list[bytes]:
        whole = answering(EMPTY)(frame)
        return [whole[at : at + 3] for at in range(0, len(whole), 3)]

    async def main(broker: ScriptedBroker) -> None:
        connection = await connect(broker)
        for _ in range(5):
            assert (await connection.send(NO_TOPICS, MetadataResponse, SECONDS)).cluster_id == "tiny"
        connection.close()

    against(main, serving(METADATA), *[dripping] * 5)


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_the_handshake_falls_back_as_far_as_needed(refusals: int) -> None:
    script: list[Answer] = [refusing_version] * refusals

    async def main(old: ScriptedBroker) -> None:
        connection = await connect(old)
        await connection.send(NO_TOPICS, MetadataResponse, SECONDS)
        connection.close()

    asked = against(main, *script, serving(METADATA), answering(EMPTY))
    assert asked == [(18, version) for version in (4, 3, 0)[: refusals + 1]] + [(3, 12)]


def test_a_broker_that_refuses_every_handshake_is_an_error() -> None:
    async def main(broker: ScriptedBroker) -> None:
        with pytest.raises(KafkaError, match="refuses to say what it serves") as caught:
            await connect(broker)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION

    against(main, *[refusing_version] * 3)


def test_an_api_the_broker_lacks_is_named() -> None:
    async def main(broker: ScriptedBroker) -> None:
        connection = await connect(broker)
        with pytest.raises(UsageError, match="does not serve Heartbeat"):
            connection.version(HeartbeatRequest)
        connection.close()

    against(main, serving(METADATA))


def test_when_the_connection_breaks_all_who_wait_hear_of_it() -> None:
    async def main(broker: ScriptedBroker) -> None:
        connection = await connect(broker)
        asked = [connection.send(NO_TOPICS, MetadataResponse, SECONDS) for _ in range(3)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [KafkaConnectionError] * 3
        assert "while Metadata was under way; connect again" in str(outcomes[0])
        assert connection.is_closed
        with pytest.raises(KafkaConnectionError, match="the connection is closed"):
            await connection.send(NO_TOPICS, MetadataResponse, SECONDS)

    against(main, serving(METADATA), lambda frame: None)


def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    async def main(silent: ScriptedBroker) -> None:
        connection = await connect(silent)
        asked = [connection.send(NO_TOPICS, MetadataResponse, timeout) for timeout in (SECONDS, 0.1)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert all("did not answer Metadata within 0.1 s" in str(outcome) for outcome in outcomes)
        assert connection.is_closed

    against(main, serving(METADATA))


def test_who_gives_up_leaves_the_others_in_peace() -> None:
    async def main(broker: ScriptedBroker) -> None:
        connection = await connect(broker)
        first = asyncio.create_task(connection.send(NO_TOPICS, MetadataResponse, SECONDS))
        await asyncio.sleep(0)
        first.cancel()
        assert (await connection.send(NO_TOPICS, MetadataResponse, SECONDS)).cluster_id == "tiny"
        assert first.cancelled()
        connection.close()

    against(main, serving(METADATA), answering(EMPTY), answering(EMPTY))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (answering(EMPTY, shift=7), r"answered request 9 when Metadata, request 2, was the one"),
        (lambda frame: b"HTTP/1.1 400 Bad Request\r\n\r\n", r"a frame of \d+ bytes.*TLS or is no Kafka broker"),
        (lambda frame: answering(EMPTY)(frame) * 2, None),
    ],
)
def test_what_is_no_answer_ends_the_connection(answer: Answer, complaint: str | None) -> None:
    async def main(broker: ScriptedBroker) -> None:
        connection = await connect(broker)
        if complaint is None:
            await connection.send(NO_TOPICS, MetadataResponse, SECONDS)
        else:
            with pytest.raises(ProtocolError, match=complaint):
                await connection.send(NO_TOPICS, MetadataResponse, SECONDS)
        assert connection.is_closed

    against(main, serving(METADATA), answer)


def test_a_body_that_cannot_be_read_is_named_and_the_connection_lives() -> None:
    def cut(frame: bytes) -> bytes:
        return framed(answering(EMPTY)(frame)[4:-6])

    async def main(broker: ScriptedBroker) -> None:
        connection = await connect(broker)
        with pytest.raises(ProtocolError, match=r"MetadataResponse v12: \w+"):
            await connection.send(NO_TOPICS, MetadataResponse, SECONDS)
        assert (await connection.send(NO_TOPICS, MetadataResponse, SECONDS)).cluster_id == "tiny"
        connection.close()

    against(main, serving(METADATA), cut, answering(EMPTY))


def test_nobody_listening_is_said_in_one_line() -> None:
    port = free_port()
    with pytest.raises(KafkaConnectionError, match=rf"^cannot connect to 127\.0\.0\.1:{port}: .*; is a broker listen"):
        run(AsyncConnection.connect("127.0.0.1", port))


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "a\x00b", "\x1b[2J..", "a\udcff"])
def test_a_host_that_cannot_be_is_one_that_cannot_be_reached(host: str) -> None:
    """Brokers say where others are. Python's own error is a UnicodeError, which nobody expects of a connection."""
    with pytest.raises(KafkaConnectionError, match="cannot connect to ") as caught:
        run(AsyncConnection.connect(host, 9092, timeout=SECONDS))
    assert str(caught.value).isprintable()
    with pytest.raises(KafkaConnectionError) as again:
        Connection(host, 9092)
    assert str(again.value).isprintable()


def test_a_peer_that_is_silent_from_the_start() -> None:
    async def main(silent: ScriptedBroker) -> None:
        with pytest.raises(KafkaConnectionError, match=r"did not answer ApiVersions within 0\.2 s"):
            await connect(silent, timeout=0.2)

    against(main)
