"""The routes. No page asks the cluster: each renders what the source has brought."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import htpy as h
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from equipoise.console.web import assets
from equipoise.console.web.forms import Ask, Forms
from equipoise.console.web.guard import App, Guard, Receive, Scope, Send
from equipoise.console.web.live import GroupFeed, Live
from equipoise.console.web.pages import cluster as cluster_page
from equipoise.console.web.pages import group as group_page
from equipoise.console.web.pages import groups as groups_page
from equipoise.console.web.pages import rebalance as rebalance_page
from equipoise.console.web.pages import tables as tables_page
from equipoise.console.web.pages import topics as topics_page
from equipoise.console.web.pages.layout import Frame, Node, is_stale, name, notices, page
from equipoise.console.web.stream import Broadcast
from equipoise.console.web.timeline import LagSample
from equipoise.views.model import ClusterView, GroupView, Ms
from equipoise.views.plain import iso, plain

_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}
_LIST_SHARE = 0.01  # of the time, for one viewer of a list
Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """Answers requests from what is live."""

    def __init__(self, live: Live, bootstrap: str, *, now: Callable[[], int], allows_actions: bool = False) -> None:
        self._live = live
        self._bootstrap = bootstrap
        self._now = now
        self._allows_actions = allows_actions
        self._rows = groups_page.RowCache()
        live.notice = lambda: str(h.fragment[notices(self._frame())])

    def routes(self) -> list[Route]:
        """All of them. Names in addresses stay percent-encoded until a handler reads them: they may hold slashes."""
        found: list[tuple[str, Handler]] = [
            ("/", self.home),
            ("/groups", self.groups),
            ("/groups/{group}", self.group),
            ("/groups/{group}/table", self.tables),
            ("/groups/{group}/rebalances/{key}", self.rebalance),
            ("/topics", self.topics),
            ("/topics/{topic}", self.topic),
            ("/cluster", self.cluster),
            ("/api/groups", self.api_groups),
            ("/api/groups/stream", self.groups_stream),
            ("/api/groups/{group}", self.api_group),
            ("/api/groups/{group}/timeline", self.timeline),
            ("/api/groups/{group}/stream", self.stream),
            ("/favicon.ico", self.icon),
            ("/healthz", self.healthz),
            ("/metrics", self.metrics),
            ("/static/{digest}/{name}", self.static),
        ]
        return [Route(path, handler, methods=["GET"]) for path, handler in found]

    # -- pages

    async def home(self, _request: Request) -> Response:
        """The groups are where one begins."""
        return RedirectResponse("/groups", status_code=307)

    async def groups(self, request: Request) -> Response:
        """All groups, or only their rows."""
        query = groups_page.Query.of(request.query_params)
        if request.query_params.get("part") == "list":
            began = time.perf_counter()
            answer = _fragment(groups_page.rows(self._frame(), query, self._lags, self._rows))
            self._live.list_wait_ms = round((time.perf_counter() - began) * 1000 / _LIST_SHARE)
            return answer
        return self._page(
            "Groups", groups_page.content(self._frame(), query, self._lags, self._rows), current="/groups"
        )

    async def group(self, request: Request) -> Response:
        """One group."""
        feed = self._feed(request)
        if feed is None:
            return self._missing(f"No group {name(_named(request, 'group'))} was seen on this cluster.")
        body = group_page.content(
            feed.view,
            feed.owners,
            self._live.tell(feed.view.group_id)._replace(deleted_at=feed.deleted_at),
            seq=feed.broadcast.seq,
            is_stale=is_stale(self._frame()),
            allows_actions=self._allows_actions,
        )
        return self._page(name(feed.view.group_id), body, current="/groups")

    async def tables(self, request: Request) -> Response:
        """The timeline as tables."""
        feed = self._feed(request)
        if feed is None:
            return self._missing(f"No group {name(_named(request, 'group'))} was seen on this cluster.")
        title = f"{name(feed.view.group_id)} as tables"
        return self._page(title, tables_page.content(feed.view, feed.picture), current="/groups")

    async def rebalance(self, request: Request) -> Response:
        """One rebalance, or only the panel beside the timeline."""
        feed = self._feed(request)
        one = None if feed is None else rebalance_page.find(feed.view.rebalances, _named(request, "key"))
        if feed is None or one is None:
            return self._missing("This rebalance is not, or no longer, in what the console knows.")
        if request.query_params.get("part") == "panel":
            return _fragment(rebalance_page.panel(one))
        feed.owners.learn(feed.view)
        title = f"{name(feed.view.group_id)}, {rebalance_page.title_of(one)}"
        told = self._live.tell(feed.view.group_id)
        return self._page(title, rebalance_page.content(feed.view, one, feed.owners, told), current="/groups")

    async def topics(self, request: Request) -> Response:
        """All topics, or only their rows."""
        found = self._live.cluster
        rows = h.p(".quiet")["Asking the cluster …"] if found is None else topics_page.rows(found, self._live.topics())
        if request.query_params.get("part") == "list":
            return _fragment(rows)
        return self._page("Topics", topics_page.content(rows), current="/topics")

    async def topic(self, request: Request) -> Response:
        """One topic, or only its tables."""
        found = self._live.cluster
        wanted = _named(request, "topic")
        told = self._live.topic_details(wanted)
        rows = None if found is None else topics_page.topic(found, self._live.topics(), wanted, told)
        if rows is None:
            return self._missing(f"No topic {name(wanted)} was seen on this cluster.")
        if request.query_params.get("part") == "list":
            return _fragment(rows)
        return self._page(name(wanted), topics_page.page_of(wanted, rows), current="/topics")

    async def cluster(self, request: Request) -> Response:
        """Brokers and source, or only what changes of them."""
        tables = cluster_page.tables(self._frame(), self._live.broker_figures())
        if request.query_params.get("part") == "list":
            return _fragment(tables)
        return self._page("Cluster", cluster_page.content(self._frame(), tables), current="/cluster")

    # -- for programs

    async def api_groups(self, request: Request) -> Response:
        """Groups as `equipoise groups list --json` prints them, filtered and in pages as the list is."""
        found = self._live.cluster
        if found is None:
            return JSONResponse({"error": {"message": "the cluster was not heard from yet"}}, 503)
        return JSONResponse(_object(found, groups_page.shown(found.groups, groups_page.Query.of(request.query_params))))

    async def api_group(self, request: Request) -> Response:
        """One group, as `equipoise groups describe --json` prints it."""
        found, feed = self._live.cluster, self._feed(request)
        if found is None or feed is None:
            return JSONResponse({"error": {"message": "no such group was seen"}}, 404)
        return JSONResponse(_object(found, [feed.view]))

    async def timeline(self, request: Request) -> Response:
        """The picture of a group."""
        feed = self._feed(request)
        if feed is None:
            return JSONResponse({"error": {"message": "no such group was seen"}}, 404)
        return JSONResponse(self._live.snapshot(feed, request.query_params.get("words")))

    async def stream(self, request: Request) -> Response:
        """What changes of it."""
        feed = self._feed(request)
        if feed is None:
            return JSONResponse({"error": {"message": "no such group was seen"}}, 404)
        return _events(feed.broadcast, request)

    async def groups_stream(self, request: Request) -> Response:
        """Says that the list has changed."""
        return _events(self._live.overview, request)

    async def healthz(self, _request: Request) -> Response:
        """200 when the source has brought a picture and still does."""
        if self._live.cluster is None:
            return PlainTextResponse(f"{self._live.trouble or 'the cluster was not heard from yet'}\n", 503)
        if self._live.trouble is not None:
            return PlainTextResponse(f"{self._live.trouble}\n", 503)
        return PlainTextResponse("ok\n")

    async def metrics(self, _request: Request) -> Response:
        """The same as `equipoise metrics` serves."""
        if self._live.metrics is None:
            return PlainTextResponse("the cluster was not heard from yet\n", 503)
        return Response(self._live.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def icon(self, _request: Request) -> Response:
        """Browsers ask for it by themselves."""
        return RedirectResponse(assets.address("icon.svg"), status_code=307)

    async def static(self, request: Request) -> Response:
        """A file of the page, for ever if its digest is right."""
        found = assets.assets().get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("there is no such file\n", 404)
        is_current = request.path_params["digest"] == assets.digest()
        return Response(found.body, media_type=found.content_type, headers=_FOR_EVER if is_current else None)

    # -- for actions

    def render(self, title: str, *content: Node) -> str:
        """A whole page around some content."""
        return page(self._frame(), title, *content, current="/groups")

    def group_view(self, group_id: str) -> GroupView | None:
        """A group that was seen, or None."""
        feed = self._live.feed(group_id)
        return None if feed is None else feed.view

    # -- parts

    def _frame(self) -> Frame:
        live = self._live
        return Frame(self._bootstrap, live.cluster, live.trouble, self._now(), live.reading_since, live.reading_percent)

    def _page(self, title: str, *content: Node, current: str = "") -> Response:
        return HTMLResponse(page(self._frame(), title, *content, current=current))

    def _missing(self, text: str) -> Response:
        """Before the cluster was heard from, nothing is known to be missing: the browser asks again by itself."""
        if self._live.cluster is None:
            body = [h.meta(http_equiv="refresh", content="1"), h.p(".quiet")["Asking the cluster …"]]
            return HTMLResponse(page(self._frame(), "Asking", *body), 503, headers={"retry-after": "1"})
        body = [h.div(".title")[h.h1["Not here"]], h.p[text], h.p[h.a(href="/groups")["all groups"]]]
        return HTMLResponse(page(self._frame(), "Not here", *body), 404)

    def _feed(self, request: Request) -> GroupFeed | None:
        return self._live.feed(_named(request, "group"))

    def _lags(self, group_id: str) -> Sequence[LagSample]:
        feed = self._live.feed(group_id)
        return () if feed is None else feed.lag.newest(groups_page.SAMPLES)


def make_app(
    live: Live,
    bootstrap: str,
    *,
    hosts: Iterable[str] = (),
    token: str | None = None,
    is_tls: bool = False,
    ask: Ask | None = None,
    now: Callable[[], int] = lambda: int(time.time() * 1000),
) -> App:
    """The application behind its guard. `ask`: actions are allowed, and put to the cluster by it."""
    pages = Pages(live, bootstrap, now=now, allows_actions=ask is not None)
    actions = [] if ask is None else Forms(ask, pages, is_tls=is_tls).routes()
    inner = Starlette(routes=[*pages.routes(), *actions], middleware=[Middleware(GZipMiddleware, minimum_size=2_000)])
    return Guard(_encoded_paths(inner), hosts=hosts, token=token, is_tls=is_tls)


def new_live(window_ms: int) -> Live:
    """What the pages show, with the fragments of the group page."""
    return Live(window_ms=window_ms, fragments=group_page.fragments)


def _object(cluster: ClusterView, groups: Iterable[GroupView]) -> dict[str, Any]:
    return {
        "schema": "equipoise.groups/1",
        "cluster_id": cluster.cluster_id,
        "at": iso(cluster.as_of),
        "source": cluster.source.value,
        "problems": plain(cluster.problems),
        "groups": [plain(one) for one in groups],
    }


def _encoded_paths(app: App) -> App:
    """A group's name may hold a slash. The server has decoded it already, but keeps the path as it came."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        raw = scope.get("raw_path")
        if scope["type"] == "http" and raw is not None:
            scope = {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
        await app(scope, receive, send)

    return handle


def _named(request: Request, part: str) -> str:
    return unquote(request.path_params[part])


def _fragment(node: Node) -> Response:
    return HTMLResponse(str(h.fragment[node]))


def _events(broadcast: Broadcast, request: Request) -> Response:
    given = request.headers.get("last-event-id") or request.query_params.get("after", "")
    after = int(given) if given.isdecimal() and len(given) < 16 else -1
    stream = broadcast.follow(Ms(after))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
