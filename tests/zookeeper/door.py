"""A door between clients and a ZooKeeper server, which can be shut: the network falls silent, and nobody is told."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from typing import Self


class Door(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Link)
        host, _, port = target.partition(":")
        self.target = host, int(port)
        self.is_shut = False
        self.links: list[_Link] = []
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"{host!s}:{port}"

    def shut(self) -> None:
        """Whatever is said on the connections there are, and on new ones, is never heard."""
        with self.lock:
            self.is_shut = True
            for link in self.links:
                link.is_silent = True

    def open(self) -> None:
        """For new connections; those from before stay silent."""
        self.is_shut = False

    def cut(self) -> None:
        """Clients hear of it at once."""
        for link in self.links:
            link.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.cut()
        self.server_close()


class _Link(socketserver.BaseRequestHandler):
    server: Door

    def setup(self) -> None:
        self._beyond = socket.create_connection(self.server.target)
        with self.server.lock:
            self.is_silent = self.server.is_shut
            self.server.links.append(self)

    def handle(self) -> None:
        answers = threading.Thread(target=self._carry, args=(self._beyond, self.request), daemon=True)
        answers.start()
        self._carry(self.request, self._beyond)
        answers.join()

    def finish(self) -> None:
        self._beyond.close()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.is_silent:
                    target.sendall(data)
        if not self.is_silent:
            self.close()

    def close(self) -> None:
        for end in (self.request, self._beyond):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
