"""Who may ask: the Host header, tokens, the origin of actions, and the headers that every answer carries.

A console on loopback is reached by every page that a browser has open. A foreign page cannot read its answers, but it
could send a form, or make its own name point here (DNS rebinding). The checks of `Host`, `Origin`, `Sec-Fetch-Site` and
of the token in each form stand against both.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from equipoise.http_server import has_token, is_token

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "equipoise_session"
FORM_COOKIE = "equipoise_form"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_LIVES_S = 30 * 24 * 3600


class Refusal(NamedTuple):
    """A status and the sentence that goes with it."""

    status: int
    text: str


class Guard:
    """ASGI middleware. Requests that it refuses do not reach the application."""

    def __init__(self, app: App, *, hosts: Iterable[str], token: str | None = None, is_tls: bool = False) -> None:
        self._app = app
        self._hosts = {_bare_host(one) for one in (*LOOPBACK, *hosts)}
        self._token = token
        self._is_tls = is_tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks, then passes the request on with the headers of every answer."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(_with_headers(send), refusal)
        elif self._token is not None and (given := _query_token(scope)) is not None:
            await self._let_in(scope, send, given)
        else:
            await self._app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Refusal | None:
        if _bare_host(headers.get("host", "")) not in self._hosts:
            return Refusal(400, "This console does not answer to that name. --host NAME lets it.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return Refusal(405, "The console knows GET, HEAD and POST.")
        if scope["method"] == "POST" and not _is_same_origin(headers):
            return Refusal(403, "An action must come from a page of this console.")
        if self._token is None or scope["path"] == "/healthz" or scope["path"].startswith("/static/"):
            return None
        if _query_token(scope) is None and not self._is_known(scope, headers):
            return Refusal(
                401, "This console asks for its token: open it with ?token=..., or send Authorization: Bearer."
            )
        return None

    def _is_known(self, scope: Scope, headers: dict[str, str]) -> bool:
        if self._token is None:
            return True
        is_for_programs = scope["path"] == "/metrics" or scope["path"].startswith("/api/")
        if is_for_programs and has_token(headers.get("authorization", ""), self._token):
            return True
        return is_token(cookie(headers.get("cookie", ""), COOKIE) or "", self._token)

    async def _let_in(self, scope: Scope, send: Send, given: str) -> None:
        """The token leaves the address at once: it would stay in histories and logs."""
        if self._token is None or not is_token(given, self._token):
            await _answer(_with_headers(send), Refusal(401, "This is not the token of this console."))
            return
        kept = [(name, value) for name, value in _query(scope) if name != "token"]
        path = "/" + _raw_path(scope).lstrip("/\\")
        place = path + (f"?{urlencode(kept)}" if kept else "")
        crumb = set_cookie(COOKIE, given, is_tls=self._is_tls, lives_s=_LIVES_S)
        headers = [(b"location", _ascii(place)), (b"set-cookie", crumb.encode()), (b"cache-control", b"no-store")]
        await _with_headers(send)({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


def set_cookie(name: str, value: str, *, is_tls: bool, lives_s: int | None = None) -> str:
    """The header of a cookie that no script reads and no foreign page sends."""
    lives = "" if lives_s is None else f"; Max-Age={lives_s}"
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{lives}{'; Secure' if is_tls else ''}"


def cookie(header: str, name: str) -> str | None:
    """One cookie of a request. Beside it stand those of every other program on this host, whatever its port: what they
    hold need not be what a parser of cookies expects."""
    pairs = (one.strip().partition("=") for one in header.split(";"))
    return next((value for given, _, value in pairs if given == name), None)


def _is_same_origin(headers: dict[str, str]) -> bool:
    """`Origin` must be this host. Browsers that send `Sec-Fetch-Site` must say same-origin as well."""
    site = headers.get("sec-fetch-site")
    _, separator, origin = headers.get("origin", "").partition("://")
    return bool(separator) and origin.lower() == headers.get("host", "").lower() and site in (None, "same-origin")


def _bare_host(header: str) -> str:
    """Without the port. A header with anything odd in it is no host."""
    host = header.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    name, separator, port = host.partition(":")
    return name if not separator or port.isdigit() else ""


def _raw_path(scope: Scope) -> str:
    """As it came: the name of a group may hold a slash or a question mark."""
    raw: bytes | None = scope.get("raw_path")
    return str(scope["path"]) if raw is None else raw.partition(b"?")[0].decode("latin-1")


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _query_token(scope: Scope) -> str | None:
    if b"token=" not in scope["query_string"]:
        return None
    return next((value for name, value in _query(scope) if name == "token"), None)


def _ascii(place: str) -> bytes:
    from urllib.parse import quote

    return quote(place, safe="/?=&%+.~-_:").encode()


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            added = [(name, value) for name, value in HEADERS if name not in names]
            if b"cache-control" not in names:
                added.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message["headers"], *added]}
        await send(message)

    return sending


async def _answer(send: Send, refusal: Refusal) -> None:
    body = f"{refusal.text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
