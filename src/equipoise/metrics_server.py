"""What is served for Prometheus: GET and HEAD of `/metrics` and `/healthz`, with a bearer token if there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from equipoise.http_server import Page, Request, has_token, is_loopback, names_this_machine, parse_listen
from equipoise.wire.errors import UsageError

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class Pages(NamedTuple):
    """What is served: the metrics, and whether all is well, with the reason if not."""

    metrics: Callable[[], bytes]
    trouble: Callable[[], str | None] = lambda: None
    content_type: str = CONTENT_TYPE
    token: str | None = None

    def respond(self, request: Request) -> Page:
        """The answer to one request."""
        if request.method not in ("GET", "HEAD"):
            return Page(405, b"only GET and HEAD\n")
        if request.path == "/healthz":
            trouble = self.trouble()
            return Page(200, b"ok\n") if trouble is None else Page(503, f"{trouble}\n".encode())
        if request.path != "/metrics":
            return Page(404, b"there is /metrics and /healthz\n")
        if self.token is None and "host" in request.headers and not names_this_machine(request):
            return Page(403, b"ask for localhost, or start with --token-file\n")
        if self.token is not None and not has_token(request.headers.get("authorization", ""), self.token):
            return Page(401, b"a bearer token is needed\n")
        return Page(200, self.metrics(), self.content_type)


def check_address(listen: str, token: str | None) -> tuple[str, int]:
    """Host and port. UsageError: it is none, or others could read it without a token."""
    host, port = parse_listen(listen, "127.0.0.1:9081")
    if token is None and not is_loopback(host):
        raise UsageError(f"{listen} can be reached from other machines: give --token-file, or listen on 127.0.0.1")
    return host, port
