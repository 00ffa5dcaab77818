"""The thread of those who block: what runs there ends with the one who waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from equipoise.client.loop_thread import LoopThread


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
