"""Brokers that do not answer: the client asks another broker meanwhile, and leaves a broker that is no longer in
charge.

A broker that hangs keeps its connections, and the system still accepts new connections for it: only silence shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from equipoise.client.net.errors import KafkaConnectionError, is_final
from equipoise.wire.errors import EquipoiseError

Result = TypeVar("Result")

PATIENCE_S = 1.0  # with one broker, before the next is asked too


async def first_answer(attempts: Sequence[Callable[[], Coroutine[Any, Any, Result]]], patience: float) -> Result:
    """Begins one attempt after another: the next when one has failed, or when none has answered for `patience` seconds.

    The first answer counts, the others are cancelled. Raises EquipoiseError when all have failed, or when one refuses
    TLS or the login, as Java's client does.
    """
    failures: list[EquipoiseError] = []
    running: set[asyncio.Task[Result]] = set()
    left = list(attempts)
    try:
        while left or running:
            if left:
                running.add(_begin(left.pop(0)()))
            done, running = await asyncio.wait(
                running, timeout=patience if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, EquipoiseError) or is_final(error):
                    raise error
                failures.append(error)
    finally:
        for task in running:
            task.cancel()
    raise failures[0] if len(failures) == 1 else KafkaConnectionError("; ".join(map(str, failures)))


async def while_in_charge(
    work: Coroutine[Any, Any, Result], look: Callable[[], Coroutine[Any, Any, str | None]], first: float, then: float
) -> Result:
    """What `work` returns or raises. While it takes longer than `first` seconds, and `then` again and again, `look` is
    asked whether waiting is in vain; what it says is raised as KafkaConnectionError."""
    task, looking, pause = _begin(work), None, first
    try:
        while not (await asyncio.wait({task}, timeout=pause))[0]:
            pause = then
            looking = _begin(look())
            await asyncio.wait({task, looking}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and (why := looking.result()) is not None:
                raise KafkaConnectionError(why)
        return task.result()
    finally:
        task.cancel()
        if looking is not None:
            looking.cancel()


def _begin(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Its failure may not matter: another broker was quicker."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
