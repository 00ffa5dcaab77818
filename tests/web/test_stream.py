"""Streams: what is missed, what is bounded, what ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from equipoise.console.web.stream import QUEUED, RING, Broadcast


def run(scenario: object) -> None:
    asyncio.run(asyncio.wait_for(scenario, 10))  # type: ignore[arg-type]


async def texts(stream: AsyncIterator[bytes], count: int) -> list[str]:
    return [(await anext(stream)).decode() for _ in range(count)]


def test_a_viewer_gets_what_is_published_and_what_it_has_missed() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        for number in range(3):
            broadcast.publish("lag", {"n": number})
        stream = broadcast.follow(1)
        first = await texts(stream, 3)
        assert first[0] == "retry: 2000\n\n"
        assert first[1:] == [f'id: {n}\nevent: lag\ndata: {{"n":{n - 1}}}\n\n' for n in (2, 3)]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        broadcast.publish("state", {})
        assert (await waiting).decode() == "id: 4\nevent: state\ndata: {}\n\n"

    run(scenario())


def test_events_of_one_change_leave_together_and_the_end_behind_them() -> None:
    """A page that gets them one by one may draw between them."""

    async def scenario() -> None:
        broadcast = Broadcast()
        stream = broadcast.follow(0)
        assert await texts(stream, 1) == ["retry: 2000\n\n"]
        for kind in ("rebalance", "state", "fragments"):
            broadcast.publish(kind, {})
        broadcast.close()
        (together,) = [piece.decode() async for piece in stream]
        assert [line for line in together.splitlines() if "event" in line] == [
            "event: rebalance",
            "event: state",
            "event: fragments",
        ]

    run(scenario())


def test_who_was_away_too_long_is_told_to_begin_anew() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        for _ in range(RING + 2):
            broadcast.publish("lag", {})
        for after in (-1, 0, 1, RING + 3):
            _, told = await texts(broadcast.follow(after), 2)
            assert told == f"id: {RING + 2}\nevent: reset\ndata: {{}}\n\n"
        assert broadcast.missed(2) is not None

    run(scenario())


def test_a_viewer_that_does_not_read_is_closed() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        stream = broadcast.follow(0)
        assert await texts(stream, 1) == ["retry: 2000\n\n"]
        for _ in range(QUEUED + 1):
            broadcast.publish("lag", {})
        assert [piece async for piece in stream] == []
        assert broadcast.viewers == 0

    run(scenario())


def test_what_no_event_tells_makes_numbers_before_it_old() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        broadcast.publish("lag", {})
        broadcast.skip()
        assert broadcast.missed(1) is None
        assert broadcast.missed(2) == []

    run(scenario())


def test_a_stream_ends_when_the_console_does() -> None:
    async def scenario() -> None:
        broadcast = Broadcast()
        stream = broadcast.follow(0)
        await texts(stream, 1)
        late = broadcast.follow(0)  # was asked for before the end, and begins after it
        broadcast.close()
        assert [piece async for piece in stream] == []
        assert [piece async for piece in late] == []

    run(scenario())
