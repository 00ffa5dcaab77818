"""Actions from a page: a question, a dry run, a name to type, and one POST that does exactly what was shown.

Each confirmation is a ticket: of one browser, for a quarter of an hour, and good for one POST. Its form has a token
that only this process can make, of the browser's cookie and the ticket. A foreign page can send neither; the guard has
refused it before. GET changes nothing.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from equipoise.client import Admin
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.console.web.guard import FORM_COOKIE, cookie, new_token, set_cookie
from equipoise.console.web.pages import action as action_page
from equipoise.console.web.pages.layout import Node, name
from equipoise.console.web.plans import ACTIONS, DELETE, Outcome, Plan, plan_of
from equipoise.views.model import GroupView
from equipoise.wire.errors import EquipoiseError, KafkaError, UsageError
from equipoise.wire.text import LONGEST_NAME, printable

MOST_TICKETS = 64
LIVES_S = 900.0
_LONGEST_BODY = 8_192
_FORM = "application/x-www-form-urlencoded"
_ELSEWHERE = ("cross-site", "same-site")
_LOG = logging.getLogger(__name__)
# With the guard's `no-referrer` a browser would send `Origin: null`, even to this console itself.
_WITH_ORIGIN = {"referrer-policy": "same-origin"}
Answer = TypeVar("Answer")


class Ask(Protocol):
    """Puts a question to the cluster, as `watching.access.Questions.ask` does."""

    def __call__(self, question: Callable[[Admin], Answer]) -> Awaitable[Answer]:
        """The answer."""
        ...


class Ticket(NamedTuple):
    """A plan that one browser was shown."""

    action: str
    plan: Plan
    browser: str
    until: float


class Tickets:
    """Plans that wait for an answer. Bounded: the oldest is forgotten first."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._open: OrderedDict[str, Ticket] = OrderedDict()

    def issue(self, action: str, plan: Plan, browser: str) -> str:
        """The number of a new ticket."""
        number = new_token()
        self._open[number] = Ticket(action, plan, browser, self._now() + LIVES_S)
        while len(self._open) > MOST_TICKETS:
            self._open.popitem(last=False)
        return number

    def token(self, browser: str, number: str) -> str:
        """What the form of a ticket must bring back."""
        return hmac.new(self._secret, f"{browser}\n{number}".encode(), sha256).hexdigest()

    def find(self, number: str, browser: str, token: str) -> Ticket | None:
        """The ticket, if it is this browser's, and its form has the token."""
        if not browser or not hmac.compare_digest(token.encode(), self.token(browser, number).encode()):
            return None
        found = self._open.get(number)
        return found if found is not None and found.browser == browser and found.until > self._now() else None

    def take(self, number: str) -> None:
        """It is used up: a form that is sent twice does nothing the second time."""
        self._open.pop(number, None)


class Shell(Protocol):
    """What the pages of actions need of the console."""

    def render(self, title: str, *content: Node) -> str:
        """A whole page."""
        ...

    def group_view(self, group_id: str) -> GroupView | None:
        """A group that was seen."""
        ...


class Forms:
    """The pages that change something. They are only there with --allow-actions."""

    def __init__(self, ask: Ask, shell: Shell, *, is_tls: bool = False, tickets: Tickets | None = None) -> None:
        self._ask = ask
        self._shell = shell
        self._is_tls = is_tls
        self._tickets = tickets or Tickets()

    def routes(self) -> Sequence[Route]:
        """A page for each action."""
        return [
            Route(f"/groups/{{group}}/{action}", self._handler(action), methods=["GET", "POST"]) for action in ACTIONS
        ]

    def _handler(self, action: str) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            group_id = unquote(request.path_params["group"])
            if request.method == "POST":
                return await self._act(request, action, group_id)
            return await self._show(request, action, group_id)

        return handle

    # -- GET

    async def _show(self, request: Request, action: str, group_id: str) -> Response:
        """First what is wanted, then the dry run of it."""
        asked = dict(request.query_params)
        if request.headers.get("sec-fetch-site") in _ELSEWHERE:
            text = "A dry run begins on a page of this console: another page may not ask the cluster through it."
            return self._page(403, "Not done", action_page.failed(group_id, text))
        if action != DELETE and not asked:
            view = self._shell.group_view(group_id)
            if view is None:
                return self._page(404, "Not here", action_page.failed(group_id, "No such group was seen."))
            return self._page(200, action_page.TITLES[action], action_page.question(action, view))
        try:
            plan = await self._ask(lambda admin: plan_of(action, admin, group_id, asked))
        except (EquipoiseError, OSError, TimeoutError) as error:
            return self._failed(group_id, error)
        return self._confirm(request, action, plan)

    def _confirm(self, request: Request, action: str, plan: Plan, *, wrong_name: str | None = None) -> Response:
        given = cookie(request.headers.get("cookie", ""), FORM_COOKIE)
        browser = given or new_token()
        number = self._tickets.issue(action, plan, browser)
        form = action_page.Form(number, self._tickets.token(browser, number))
        body = action_page.confirmation(action, plan, form, wrong_name)
        answer = self._page(200 if wrong_name is None else 400, action_page.TITLES[action], body, _WITH_ORIGIN)
        if given is None:
            answer.headers["set-cookie"] = set_cookie(FORM_COOKIE, browser, is_tls=self._is_tls)
        return answer

    # -- POST

    async def _act(self, request: Request, action: str, group_id: str) -> Response:
        form = await _form(request)
        if form is None:
            return self._page(400, "Not done", action_page.failed(group_id, "This is not a form of this console."))
        browser = cookie(request.headers.get("cookie", ""), FORM_COOKIE) or ""
        number = form.get("ticket", "")
        ticket = self._tickets.find(number, browser, form.get("token", ""))
        if ticket is None or ticket.action != action or ticket.plan.group_id != group_id:
            text = "This form was used already, is too old, or is not of this browser. Nothing was changed."
            return self._page(403, "Not done", action_page.failed(group_id, text))
        self._tickets.take(number)  # before anything is awaited: of two POSTs one acts
        typed = form.get("name", "").strip()
        if typed not in (group_id.strip(), name(group_id).strip()):
            return self._confirm(request, action, ticket.plan, wrong_name=typed)
        return await self._do(request, ticket.plan)

    async def _do(self, request: Request, plan: Plan) -> Response:
        where = request.client.host if request.client is not None else "somebody"
        try:
            outcomes = await self._ask(plan.act)
        except (EquipoiseError, OSError, TimeoutError) as error:
            _LOG.warning("%s asked the console: %s. Failed: %s", where, plan.what, _told(error))
            return self._failed(plan.group_id, error)
        for one in outcomes:
            _LOG.warning("%s asked the console: %s. %s", where, plan.what, _result(one))
        status = 200 if not any(one.error for one in outcomes) else 409
        return self._page(status, "Done", action_page.result(plan, outcomes))

    # -- parts

    def _failed(self, group_id: str, error: Exception) -> Response:
        status = 400 if isinstance(error, UsageError) else 409 if isinstance(error, KafkaError) else 502
        if isinstance(error, KafkaConnectionError):
            status = 502
        return self._page(status, "Not done", action_page.failed(group_id, _told(error)))

    def _page(self, status: int, title: str, body: Node, headers: dict[str, str] | None = None) -> Response:
        return HTMLResponse(self._shell.render(title, body), status, headers=headers)


def _told(error: Exception) -> str:
    return printable(str(error), LONGEST_NAME * 2) or type(error).__name__


def _result(one: Outcome) -> str:
    return f"Done: {one.what}" if one.error is None else f"Failed: {one.error}"


async def _form(request: Request) -> dict[str, str] | None:
    """The fields of a small form; None if the body is something else."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_BODY:
            return None
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=16))
    except (UnicodeDecodeError, ValueError):
        return None
