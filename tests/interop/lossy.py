"""A proxy between clients and broker that loses the answer to a Produce, and the connection with it: the records
are written, and the producer cannot know."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from struct import Struct
from types import TracebackType
from typing import Self

_SIZE = Struct(">i")
_REQUEST = Struct(">hhi")  # api key, version, correlation id
_PRODUCE = 0


class LossyProxy(socketserver.ThreadingTCPServer):
    """Listens at `address`, which the broker must advertise, and forwards to `target`, to be set before use."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answers_to_lose: int) -> None:
        super().__init__(("127.0.0.1", 0), _Link)
        self.target = ""
        self.lost = 0
        self._to_lose = answers_to_lose
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"

    def loses(self) -> bool:
        """Whether an answer to a Produce is to be lost; asked once for each."""
        with self._lock:
            loses = self.lost < self._to_lose
            self.lost += loses
            return loses

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Link(socketserver.BaseRequestHandler):
    """One connection: this thread carries requests, another one the replies."""

    server: LossyProxy
    request: socket.socket

    def handle(self) -> None:
        host, _, port = self.server.target.rpartition(":")
        self.produces: set[int] = set()
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))) as self.broker:
            replies = threading.Thread(target=self._carry_replies)
            replies.start()
            try:
                self._carry_requests()
            finally:
                self._cut()
                replies.join()

    def _carry_requests(self) -> None:
        while frame := _read_frame(self.request):
            api_key, _, correlation_id = _REQUEST.unpack_from(frame, 4)
            if api_key == _PRODUCE:
                self.produces.add(correlation_id)
            self.broker.sendall(frame)

    def _carry_replies(self) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(self.broker):
                if _SIZE.unpack_from(frame, 4)[0] in self.produces and self.server.loses():
                    break
                self.request.sendall(frame)
        self._cut()

    def _cut(self) -> None:
        for end in (self.request, self.broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _read_frame(source: socket.socket) -> bytes:
    """A frame with its size before it; empty at the end of the connection."""
    head = _read(source, 4)
    return head + _read(source, _SIZE.unpack(head)[0]) if len(head) == 4 else b""


def _read(source: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := source.recv(count - len(data))):
        data += more
    return data
