"""The thread of those who block: what runs there ends with the one who waits for it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from equipoise.client.net.loop_thread import LoopThread
from equipoise.wire.errors import UsageError


class _Interrupt(BaseException):
    pass


def interrupt(signum: int, frame: object) -> None:
    raise _Interrupt


def test_what_is_waited_for_ends_when_the_waiting_is_interrupted() -> None:
    """As Spark's SIGTERM does: else it would go on beside stop()."""
    thread, begun, ended = LoopThread("test"), threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    def send() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        with pytest.raises(_Interrupt):
            thread.run(work())
        assert ended.wait(60)
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        thread.end()


def test_what_takes_too_long_is_ended() -> None:
    thread, ended = LoopThread("test"), threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        thread.run(work(), 0.05)
    assert ended.wait(60)
    thread.end()


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt, _Interrupt])
def test_a_task_that_tries_to_end_the_loop_ends_itself_alone(
    end: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    thread = LoopThread("test")

    async def ends() -> None:
        raise end

    async def works() -> str:
        await asyncio.sleep(0.001)
        return "goes on"

    for _ in range(3):
        with pytest.raises(end):
            thread.run(ends(), 60)
        assert thread.run(works(), 60) == "goes on"
    thread.end()
    assert caplog.text.count("which goes on") in (0, 3)  # only the first two end a loop


def test_a_thread_that_cannot_be_started_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot_start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", cannot_start)
    with pytest.raises(UsageError, match="can't start new thread: raise the limit of processes"):
        LoopThread("test")


def test_work_that_never_began_is_not_left_behind() -> None:
    """Without a word: a coroutine that nobody awaits is a warning, which fails the tests."""
    thread, standing, may_go = LoopThread("test"), threading.Event(), threading.Event()

    async def work() -> None:
        raise AssertionError("it has begun")

    async def within(inner: Coroutine[Any, Any, None]) -> None:
        await inner

    def stand() -> None:
        standing.set()
        may_go.wait()

    thread.loop.call_soon_threadsafe(stand)
    standing.wait()
    with pytest.raises(TimeoutError):
        thread.run(work(), 0.01, within=within)
    may_go.set()
    thread.end()
    gc.collect()
