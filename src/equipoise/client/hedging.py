"""Brokers that do not answer: somebody else is asked meanwhile, and nobody waits for one that is in charge no more.

A broker that hangs keeps its connections, and the system goes on taking new ones for it: only silence shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from equipoise.client.agreement import KafkaConnectionError
from equipoise.wire.errors import EquipoiseError

Result = TypeVar("Result")

PATIENCE_S = 1.0  # with one broker, before the next is asked too


async def first_answer(attempts: Sequence[Callable[[], Coroutine[Any, Any, Result]]], patience: float) -> Result:
    """Begins one attempt after another: the next when one has failed, or when none has answered for `patience` seconds.

    The first answer counts, the others are cancelled. Raises EquipoiseError when all have failed.
    """
    failures: list[EquipoiseError] = []
    running: set[asyncio.Task[Result]] = set()
    left = list(attempts)
    try:
        while left or running:
            if left:
                running.add(asyncio.create_task(left.pop(0)()))
            done, running = await asyncio.wait(
                running, timeout=patience if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, EquipoiseError):
                    raise error
                failures.append(error)
    finally:
        for task in running:
            task.cancel()
    raise failures[0] if len(failures) == 1 else KafkaConnectionError("; ".join(map(str, failures)))


async def while_in_charge(
    work: Coroutine[Any, Any, Result], look: Callable[[], Awaitable[str | None]], first: float, then: float
) -> Result:
    """What `work` returns or raises. While it takes longer than `first` seconds, and `then` again and again, `look` is
    asked whether waiting is in vain; what it says is raised as KafkaConnectionError."""
    task, pause = asyncio.create_task(work), first
    try:
        while not (await asyncio.wait({task}, timeout=pause))[0]:
            pause = then
            why = await look()
            if why is not None and not task.done():
                raise KafkaConnectionError(why)
        return task.result()
    finally:
        task.cancel()
