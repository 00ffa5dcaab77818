"""How a watcher reaches its cluster: questions by an `Admin` in a thread, records by an `AsyncConsumer`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar

from equipoise.client import Admin, AsyncConsumer
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.client.security.parsing import parse_security

Answer = TypeVar("Answer")
_BATCH_BYTES = 1  # a broker answers with one whole batch at least


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A cluster, and the settings of TLS and SASL for it."""

    bootstrap_servers: str
    settings: Mapping[str, object] = field(default_factory=dict)
    timeout: float = 30.0  # s, of one question
    client_id: str = "equipoise-watch"

    def admin(self) -> Admin:
        """A connected Admin."""
        security = parse_security(self.settings, self.bootstrap_servers)
        return Admin(self.bootstrap_servers, security=security, timeout=self.timeout, client_id=self.client_id)

    def consumer(self, *, one_batch: bool = False) -> AsyncConsumer:
        """A consumer without a group. `one_batch`: it fetches as little of each partition as it can."""
        settings: dict[str, object] = {
            **self.settings,
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "earliest",
            "max.poll.records": 10_000,
            "default.api.timeout.ms": round(self.timeout * 1000),
        }
        if one_batch:
            settings |= {"max.partition.fetch.bytes": _BATCH_BYTES, "queued.max.messages.kbytes": 1}
        return AsyncConsumer(settings)


class Questions:
    """Asks one question at a time, in a thread: an `Admin` waits. After a lost connection the next question connects
    anew. The end of the process does not wait for an answer, which may take the whole timeout."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = asyncio.Lock()
        self._asked: SimpleQueue[tuple[Future[Any], Callable[[Admin], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None  # one: each has a heap
        self._admin: Admin | None = None
        self._is_closed = False

    async def ask(self, question: Callable[[Admin], Answer]) -> Answer:
        """The answer. KafkaConnectionError: the cluster cannot be reached."""
        async with self._lock:
            if self._is_closed:
                raise RuntimeError("nothing is asked after close()")
            if self._thread is None:
                self._thread = threading.Thread(target=self._answer, name=self._access.client_id, daemon=True)
                self._thread.start()
            answer: Future[Answer] = Future()
            self._asked.put((answer, question))
            return await asyncio.wrap_future(answer)

    def _answer(self) -> None:
        while self._answer_next():
            pass
        self._hang_up()  # it may have connected while it was closed

    def _answer_next(self) -> bool:
        asked = self._asked.get()
        if asked is None:
            return False
        answer, question = asked
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(self._ask(question))
            except BaseException as error:  # noqa: BLE001  whoever asked gets it
                answer.set_exception(error)
        return True

    def _ask(self, question: Callable[[Admin], Answer]) -> Answer:
        if self._admin is None:
            self._admin = self._access.admin()
        try:
            return question(self._admin)
        except KafkaConnectionError:
            self._hang_up()
            raise

    def close(self) -> None:
        """Closes all connections. Nothing is asked afterwards."""
        self._is_closed = True
        self._asked.put(None)
        self._hang_up()

    def _hang_up(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
