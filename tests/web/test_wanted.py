"""What only single pages show: asked for while they are open, bounded; figures of a broker from its metrics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from equipoise.console.web import wanted as module
from equipoise.console.web.broker_figures import ApiFigures, BrokerFigures, BrokerFiguresReader
from equipoise.console.web.wanted import MOST, Wanted
from equipoise.server_process import free_port

_TEXT = """
equipoise_broker_requests_total{api="Fetch"} %d
equipoise_broker_requests_total{api="Heartbeat"} 10
equipoise_broker_request_seconds_count{api="Fetch"} 4
equipoise_broker_request_seconds_sum{api="Fetch"} 0.002
equipoise_broker_connections 3
equipoise_broker_memory_bytes 52428800
equipoise_broker_log_bytes 99
equipoise_broker_loop_delay_seconds 0.0015
"""


def test_it_is_asked_for_while_a_page_wants_it_and_then_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LIVES_S", 0.3)
    asked: list[str] = []
    changes: list[bool] = []

    async def ask(name: str) -> int:
        asked.append(name)
        return len(asked)

    async def scenario() -> None:
        one = Wanted(ask, 0.0, lambda: changes.append(True))
        task = asyncio.create_task(one.keep_asking())
        await asyncio.sleep(0.05)
        assert asked == []  # nobody wants anything
        assert one.get("orders") is None
        while (one.get("orders") or 0) < 3:
            await asyncio.sleep(0.01)
        while one._wanted:
            await asyncio.sleep(0.01)
        count = len(asked)
        await asyncio.sleep(0.1)
        assert len(asked) == count
        assert (one._known, one._asked) == ({}, {})
        task.cancel()

    async def bounded() -> None:
        one: Wanted[Any] = Wanted(ask, 0.0, lambda: None)
        for number in range(MOST + 5):
            one.get(str(number))
        assert len(one._wanted) == MOST

    asyncio.run(scenario())
    asyncio.run(bounded())
    assert len(changes) >= 3


def test_figures_of_a_broker_and_rates_between_two_readings() -> None:
    reader = BrokerFiguresReader()
    first = reader.take(_TEXT % 100, 1_000.0)
    assert first == BrokerFigures(
        connections=3,
        memory_bytes=52_428_800,
        log_bytes=99,
        loop_delay_ms=1.5,
        apis=(ApiFigures("Fetch", 100, None, 0.5), ApiFigures("Heartbeat", 10, None, None)),
    )
    second = reader.take(_TEXT % 150, 1_010.0)
    assert [one.per_second for one in second.apis] == [5.0, 0.0]
    anew = reader.take(_TEXT % 3, 1_020.0)  # the broker has started again
    assert {one.api: one.per_second for one in anew.apis} == {"Heartbeat": 0.0, "Fetch": 0.0}


def test_a_broker_that_does_not_answer_has_a_problem_and_so_has_a_text_that_is_none() -> None:
    reader = BrokerFiguresReader()
    found = asyncio.run(reader.read(f"http://127.0.0.1:{free_port()}/metrics"))
    assert "refused" in (found.problem or "")
    with pytest.raises(ValueError):
        reader.take("<html>", 0.0)
