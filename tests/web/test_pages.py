"""Pages over HTTP: what they show, what they escape, and what they say when something is missing."""

from __future__ import annotations

import asyncio
import gzip
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest

from bench.console import story as tale
from equipoise.console.web import assets
from equipoise.console.web.app import make_app, new_live
from equipoise.console.web.guard import App
from equipoise.console.web.live import Live, Told
from equipoise.coordinator.events import CommitRefused, MemberFenced
from equipoise.coordinator.reasons import Refusal
from equipoise.views.advice import Advice
from equipoise.views.model import (
    Health,
    HealthKind,
    LagView,
    Ms,
    Phases,
    Problem,
    RebalanceView,
    ReplicatedPartition,
    Source,
    TopicView,
)
from equipoise.views.records import shown
from equipoise.watching.topic_details import RecordView, TopicDetails
from equipoise.wire.errors import ErrorCode
from tests.console.schemas import all_schemas, check
from tests.web.asgi import Answer, ask, streaming
from tests.web.views import T0, WINDOW, cluster, group, member, partition, rebalance, who

EVIL = '<script>alert("x")</script>'


def made(live: Live, now: int = T0 + 20_000) -> App:
    return make_app(live, "localhost:9092", now=lambda: now)


def one_group(**more: Any) -> Live:
    live = new_live(WINDOW)
    view = group(
        rebalance(1, 100, {0: (None, "a")}),
        rebalance(2, 700, {0: ("a", "b")}, dark={0: 40}, arrivals=(("b", 5),)),
        members=(member("b", [0]),),
        partitions=(partition(0, member_id="b"),),
    )
    live.update(cluster(replace(view, **more)))
    return live


def get(live: Live, address: str, **headers: str) -> Answer:
    return asyncio.run(ask(made(live), address, **headers))


class Elements(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def text(answer: Answer) -> str:
    return " ".join(Elements(answer.text).text.split())


ADDRESSES = [
    "/groups",
    "/groups/etl",
    "/groups/etl/table",
    "/groups/etl/rebalances/2",
    "/groups/etl/rebalances/2?part=panel",
    "/topics",
    "/topics/orders",
    "/cluster",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_page_has_inline_style_or_script(address: str) -> None:
    found = get(one_group(), address)
    assert found.status == 200
    for tag, attributes in Elements(found.text).tags:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "style"
        assert tag != "script" or attributes["src"].startswith("/static/")  # type: ignore[union-attr]


@pytest.mark.parametrize("address", ADDRESSES)
def test_script_in_names_stays_text(address: str) -> None:
    live = new_live(WINDOW)
    moved = rebalance(2, 700, {0: (None, EVIL)}, group_id=EVIL)
    view = group(moved, group_id=EVIL, protocol=EVIL, members=(member(EVIL, [], client_host=EVIL, topics=(EVIL,)),))
    problem = Problem(EVIL, ErrorCode.NOT_LEADER_OR_FOLLOWER, EVIL)
    view = replace(view, problems=(problem,), partitions=(partition(0, topic=EVIL, member_id=EVIL),))
    live.update(cluster(replace(view, health=Health(kind=HealthKind.UNKNOWN, problem=problem)), cluster_id=EVIL))
    evil = quote(EVIL, safe="")
    found = get(live, address.replace("/etl", f"/{evil}").replace("/orders", f"/{evil}"))
    assert found.status == 200
    assert EVIL not in found.text
    assert "alert(" in text(found)


def test_the_list_shows_health_as_a_sentence() -> None:
    live = new_live(WINDOW)
    waiting = group(
        group_id="reports",
        state="Empty",
        lag=LagView(lag=41_207),
        health=Health(kind=HealthKind.NOBODY_READS, lag=41_207),
    )
    live.update(cluster(group(), waiting))
    shown = text(get(live, "/groups"))
    assert "2 groups, 1 need attention" in shown
    assert "nobody reads, 41,207 records wait" in shown
    assert "etl" not in text(get(live, "/groups?only=1&part=list"))
    assert "reports" not in text(get(live, "/groups?state=Stable&part=list"))
    assert "reports" in text(get(live, "/groups?q=REP&part=list"))
    first = get(live, "/groups?sort=lag&part=list").text
    assert first.index("/groups/reports") < first.index("/groups/etl")


def test_a_long_list_has_pages() -> None:
    live = new_live(WINDOW)
    live.update(cluster(*(group(group_id=f"g{n:04}") for n in range(250))))
    assert "page 3 of 3" in text(get(live, "/groups?page=3"))
    assert "g0249" in text(get(live, "/groups?page=3"))
    assert "g0249" not in text(get(live, "/groups"))
    assert get(live, "/groups?page=9999999999&sort=x&state=%00").status == 200


def test_one_group_says_why_it_rebalanced() -> None:
    shown = text(get(one_group(), "/groups/etl"))
    assert "Generation 1 → 2" in shown
    assert "why a (client a, 10.0.0.1) joined" in shown
    assert "1 of 1 partitions: orders:0 from a to b" in shown


def test_a_rebalance_has_a_page_and_the_words_of_explain() -> None:
    live = one_group()
    live.tell = lambda _group_id: Told([Advice("session.timeout.ms", "raise it")])
    shown = get(live, "/groups/etl/rebalances/2")
    assert "What would help session.timeout.ms : raise it" in text(shown)
    assert "\n  advice   session.timeout.ms: raise it\n  zone     UTC</pre>" in shown.text  # as the command prints it
    assert "Generation 1 → 2 of etl, 14:00:00.690, took 10 ms" in shown.text
    assert "orders 0 40 ms" in text(shown)
    assert 'rel="prev"' in shown.text
    assert 'rel="next"' not in shown.text


def test_the_tables_have_spans_gaps_and_rebalances() -> None:
    shown = text(get(one_group(), "/groups/etl/table"))
    assert "orders 0 a 14:00:00.100 14:00:00.660 560 ms" in shown
    assert "orders 0 no owner 14:00:00.660 14:00:00.700 40 ms" in shown
    assert "orders 0 b 14:00:00.700 now" in shown


@pytest.mark.parametrize("name", ["a/b", "a/table", "ü ?&#%2F", ".x"])
def test_any_name_has_an_address(name: str) -> None:
    live = new_live(WINDOW)
    live.update(cluster(group(rebalance(1, 5, {}, group_id=name), group_id=name)))
    place = f"/groups/{quote(name, safe='')}"
    assert f'href="{place}"' in get(live, "/groups").text.replace("&amp;", "&")
    assert get(live, place).status == 200
    assert get(live, f"{place}/rebalances/1").status == 200
    assert get(live, f"/api{place}/timeline").json["group"] == name


@pytest.mark.parametrize("address", ["/groups/none", "/groups/etl/rebalances/9", "/topics/none", "/groups/none/table"])
def test_what_is_not_there_is_said(address: str) -> None:
    missing = get(one_group(), address)
    assert missing.status == 404
    assert "Not here" in missing.text


# -- empty, wrong, offline


def test_no_group_yet_shows_how_to_make_one() -> None:
    live = new_live(WINDOW)
    assert "Asking the cluster" in text(get(live, "/groups"))
    live.update(cluster())
    assert "kcat -b localhost:9092 -G my-group orders" in text(get(live, "/groups"))


def test_a_cluster_that_is_away_keeps_its_last_picture() -> None:
    live = one_group()
    live.lost("connection refused")
    shown = get(live, "/groups/etl")
    assert "Not heard from localhost:9092: connection refused; the picture is 10.0 s old." in text(shown)
    assert 'class="group stale"' in shown.text
    health = get(live, "/healthz")
    assert (health.status, health.text) == (503, "connection refused\n")


@pytest.mark.parametrize("place", ["/groups/etl", "/groups/etl/table", "/groups/etl/rebalances/2", "/topics/orders"])
def test_before_the_cluster_was_heard_from_nothing_is_missing(place: str) -> None:
    found = get(new_live(WINDOW), place)
    assert (found.status, found.header("retry-after")) == (503, "1")
    assert "Asking the cluster" in text(found)
    assert '<meta http-equiv="refresh" content="1">' in found.text
    assert get(one_group(), place.replace("etl", "none").replace("orders", "none")).status == 404


def test_healthz_is_well_while_the_source_is() -> None:
    assert get(new_live(WINDOW), "/healthz").status == 503
    assert get(one_group(), "/healthz").text == "ok\n"


def test_a_deleted_group_keeps_its_history() -> None:
    live = one_group()
    live.update(cluster(as_of=Ms(T0 + 12_000)))
    assert "Deleted at 14:00:12 UTC" in text(get(live, "/groups/etl"))


def test_polling_says_what_it_cannot_see() -> None:
    live = new_live(WINDOW)
    live.update(cluster(group(source=Source.POLLING), source=Source.POLLING))
    assert "changes between two looks are seen as one" in text(get(live, "/groups/etl"))


def test_while_the_past_is_read_pages_say_so_and_are_there() -> None:
    live = new_live(WINDOW)
    live.update(cluster(group(source=Source.POLLING), source=Source.POLLING), reading_since=T0)
    shown = text(get(live, "/groups/etl"))
    assert "Reading back what happened since 14:00 UTC" in shown
    assert "changes between two looks" not in shown
    live.reads_back(0.404)
    assert "since 14:00 UTC: 40 %. The page" in text(get(live, "/groups/etl"))
    live.update(cluster(group()))
    assert "Reading back" not in text(get(live, "/groups/etl"))


def test_a_problem_belongs_to_its_cell() -> None:
    problem = Problem("orders-1", ErrorCode.LEADER_NOT_AVAILABLE, "no leader")
    lost = partition(1, lag=None, log_end=None, problem=problem)
    shown = text(get(one_group(partitions=(partition(0, member_id="b"), lost)), "/groups/etl"))
    assert "orders-1: no leader" in shown
    assert "orders 0 5 7 2" in shown


def test_events_and_refused_commits_are_told() -> None:
    late = who("b")
    refused = CommitRefused("etl", T0 + 395, late, Refusal.OLD_GENERATION, generation_id=1, group_generation_id=2)
    other = MemberFenced("etl", T0 + 9_000, late, "Heartbeat")
    slow = rebalance(2, 400, {0: ("a", "b")}, started=Ms(T0 + 300))
    live = new_live(WINDOW)
    live.update(cluster(group(slow, members=(member("b", [0]),))))
    live.tell = lambda _group_id: Told(events=[refused, other])
    page = text(get(live, "/groups/etl"))
    assert "Events, 2, the newest first" in page
    assert page.index("Heartbeat of b refused") < page.index("commit of b refused")
    meanwhile = text(get(live, "/groups/etl/rebalances/2"))
    assert "Commits that were refused meanwhile" in meanwhile
    assert "Heartbeat of b" not in meanwhile


def test_a_rebalance_has_a_waterfall_of_its_members() -> None:
    slow = rebalance(2, 400, {0: ("a", "b")}, started=Ms(T0), arrivals=(("a", 5), ("b", 60)), unsynced=("c", "a"))
    page = get(_with(replace(slow, synced=(("a", 1_234),), phases=Phases(0, 60, 300, 40))), "/groups/etl/rebalances/2")
    assert "member way rejoined has it c – not yet a 5 1,234 b 60 400" in text(page)
    bars = [attributes for tag, attributes in Elements(page.text).tags if tag == "rect"]
    of_b = [(one["class"], one["x"], one["width"]) for one in bars[-3:]]  # of 1,234 ms
    assert of_b == [("b-silent", "0.0", "4.9"), ("b-assign", "4.9", "24.3"), ("b-sync", "29.2", "3.2")]
    of_target = replace(slow, is_target=True, called=(("a", 5),), done=(("a", 90),))
    assert "told has it a 5 90" in text(get(_with(of_target), "/groups/etl/rebalances/2"))


def _with(one: RebalanceView) -> Live:
    live = new_live(WINDOW)
    live.update(cluster(group(one, members=(member("b", [0]),))))
    return live


def test_settings_are_shown_as_far_as_they_are_seen() -> None:
    members = (
        member("a", [0], session_timeout_ms=45_000, group_instance_id="pod-1"),
        member("b", [1], session_timeout_ms=10_000),
        member("c", [2], session_timeout_ms=45_000),
    )
    page = text(get(one_group(members=members), "/groups/etl"))
    assert "session.timeout.ms 45.0 s (2 members), 10.0 s (1 member)" in page
    assert "max.poll.interval.ms –" in page
    assert "1 of 3 members are static" in page


def test_topics_have_replicas_sizes_and_groups() -> None:
    live = one_group(partitions=(partition(0, member_id="b"), partition(1)))
    places = tuple(
        ReplicatedPartition(
            partition=number,
            leader_id=None if number else 1,
            replica_nodes=(1, 2),
            isr_nodes=(1,),
            log_start=0,
            log_end=7,
        )
        for number in range(2)
    )
    found = TopicView(name="orders", is_internal=False, partitions=places, size_bytes=12_345, per_second=2.5)
    unread = TopicView(name="unread", is_internal=False, partitions=(replace(places[0], log_end=None),))
    live.topics = lambda: (found, unread)
    page = text(get(live, "/topics"))
    assert "orders 2 2 14 12.3 kB 2.5 etl 4" in page
    assert "unread 1 2 – – – none" in page
    one = text(get(live, "/topics/orders"))
    assert "1 no leader 1, 2 1 0 7" in one
    assert "No group reads it." in text(get(live, "/topics/unread"))
    assert get(live, "/topics?part=list").text.startswith("<div")


def test_a_record_may_have_any_time() -> None:
    """Or none: producers choose it."""
    live = one_group()
    times = (-1, 1_700_000_000_123, 1_700_000_000_123_456)
    records = tuple(RecordView(0, at, Ms(at), shown(None), shown(b"x")) for at in times)
    live.topic_details = lambda _: TopicDetails({}, records)
    found = get(live, "/topics/orders")
    assert found.status == 200
    assert "0 -1 – null" in text(found)
    assert "0 1,700,000,000,123 2023-11-14T22:13:20.123Z null" in text(found)
    assert "0 1,700,000,000,123,456 1700000000123456 null" in text(found)


def test_the_cluster_says_what_its_source_cannot_tell() -> None:
    live = new_live(WINDOW)
    live.update(cluster(group(source=Source.POLLING), source=Source.POLLING))
    assert "What this source cannot tell" in text(get(live, "/cluster"))
    assert "What this source cannot tell" not in text(get(one_group(), "/cluster"))


# -- for programs


def test_metrics_and_advice_come_from_the_source() -> None:
    live = one_group()
    assert get(live, "/metrics").status == 503
    live.metrics = lambda: b"equipoise_exporter_up 1.0\n"
    assert get(live, "/metrics").text == "equipoise_exporter_up 1.0\n"
    assert "What would help" not in get(live, "/groups/etl").text
    live.tell = lambda group_id: Told([Advice("session.timeout.ms", f"raise {EVIL} of {group_id}")])
    shown = get(live, "/groups/etl")
    assert f"raise {EVIL} of etl" in text(shown)
    assert EVIL not in shown.text


def test_groups_are_json_as_the_command_prints_them() -> None:
    live = one_group()
    found = get(live, "/api/groups").json
    assert (found["schema"], [one["group_id"] for one in found["groups"]]) == ("equipoise.groups/1", ["etl"])
    check(found, all_schemas()["groups"])
    check(get(live, "/api/groups/etl").json, all_schemas()["groups"])
    assert get(live, "/api/groups?q=other").json["groups"] == []
    assert get(live, "/api/groups/none").status == 404
    assert get(new_live(WINDOW), "/api/groups").status == 503


def test_the_timeline_is_json_and_small_on_the_wire() -> None:
    live = new_live(WINDOW)
    live.update(tale.cluster(tale.view(tale.told())))
    app = make_app(live, "localhost:9092")

    async def raw() -> bytes:
        pieces = []
        from tests.web.asgi import _Exchange, _scope

        exchange = _Exchange()
        scope = _scope("GET", f"/api/groups/{tale.GROUP}/timeline", {"accept-encoding": "gzip"})
        await app(scope, exchange.receive, exchange.send)
        while (piece := await exchange.pieces.get()) is not None:
            pieces.append(piece)
        return b"".join(pieces)

    body = asyncio.run(raw())
    assert len(gzip.decompress(body)) > 3 * len(body)


def test_a_group_streams_what_changes() -> None:
    live = one_group()
    app = made(live)
    view = live.cluster.groups[0] if live.cluster else group()

    async def scenario() -> None:
        first = (await ask(app, "/api/groups/etl/timeline")).json
        async with streaming(app, f"/api/groups/etl/stream?after={first['seq']}") as stream:
            third = rebalance(3, 900, {0: ("b", "c")}, dark={0: 30})
            newer = replace(view, rebalances=(*view.rebalances, third), as_of=Ms(T0 + 11_000))
            live.update(cluster(replace(newer, members=(member("c", [0]),))))
            event = await stream.event()
            assert event is not None
            assert (event.type, event.seq) == ("rebalance", first["seq"] + 1)
            assert event.data["changes"] == [[0, T0 + 870, -1], [0, T0 + 900, 2]]
            assert [one["key"] for one in event.data["rebalances"]] == ["3"]
            words = await stream.event()
            assert words is not None
            assert words.type == "fragments"
            assert "Generation 2 → 3" in words.data["html"]["why"]
            live.close()
            assert await stream.event() is None

    asyncio.run(scenario())


def test_a_page_that_is_older_than_its_picture_gets_the_words_of_the_picture() -> None:
    """The group changes between the page and the question for its picture, while nobody is told of it."""
    live = one_group()
    app = made(live)
    view = live.cluster.groups[0] if live.cluster else group()

    def words_of(page: str) -> int:
        return int(page.partition('data-words="')[2].partition('"')[0])

    async def scenario() -> None:
        seen = words_of((await ask(app, "/groups/etl")).text)
        assert "html" not in (await ask(app, f"/api/groups/etl/timeline?words={seen}")).json
        third = rebalance(3, 900, {0: ("b", "c")})
        live.update(cluster(replace(view, rebalances=(*view.rebalances, third), as_of=Ms(T0 + 11_000))))
        now = (await ask(app, f"/api/groups/etl/timeline?words={seen}")).json
        assert "Generation 2 → 3" in now["html"]["why"]
        assert [one["key"] for one in now["rebalances"]][-1] == "3"
        assert words_of((await ask(app, "/groups/etl")).text) == now["seq"]
        live.update(cluster(as_of=Ms(T0 + 62_000)))
        gone = (await ask(app, f"/api/groups/etl/timeline?words={now['seq']}")).json
        assert "Deleted at" in gone["html"]["deleted"]
        assert "html" in (await ask(app, "/api/groups/etl/timeline?words=")).json  # a page that has lost its place
        assert "html" not in (await ask(app, "/api/groups/etl/timeline")).json  # a program

    asyncio.run(scenario())


def test_who_looks_at_a_group_is_told_that_it_was_deleted() -> None:
    live = one_group()
    app = made(live)

    async def scenario() -> None:
        first = (await ask(app, "/api/groups/etl/timeline")).json
        async with streaming(app, f"/api/groups/etl/stream?after={first['seq']}") as stream:
            live.update(cluster(as_of=Ms(T0 + 62_000)))
            told = await stream.event()
            assert told is not None
            assert "Deleted at 14:01:02 UTC" in told.data["html"]["deleted"]

    asyncio.run(scenario())
    assert "Deleted at 14:01:02 UTC" in text(get(live, "/groups/etl"))
    live.update(cluster(group()))
    assert "Deleted at" not in text(get(live, "/groups/etl"))


def test_a_viewer_that_comes_back_goes_on_where_it_was() -> None:
    live = one_group()
    app = made(live)

    async def scenario() -> None:
        async with streaming(app, "/api/groups/stream?after=0") as stream:
            live.update(cluster(group()))
            event = await stream.event()
            assert event is not None
            assert event.type == "changed"
        live.update(cluster(group()))
        async with streaming(app, "/api/groups/stream", last_event_id=str(event.seq)) as stream:
            missed = await stream.event()
            assert missed is not None
            assert (missed.type, missed.seq) == ("changed", event.seq + 1)
        async with streaming(app, "/api/groups/stream?after=99999") as stream:
            told = await stream.event()
            assert told is not None
            assert told.type == "reset"

    asyncio.run(scenario())


def test_nothing_is_drawn_while_nobody_looks() -> None:
    live = one_group()
    feed = live.feed("etl")
    assert feed is not None
    before = feed.snapshot()["seq"]
    live.update(cluster(group()))
    assert feed._timeline is None
    assert feed.broadcast.missed(before) is None


# -- files


def test_files_may_be_kept_for_ever_under_their_digest() -> None:
    found = get(one_group(), assets.address("page.js"))
    assert found.header("cache-control") == "public, max-age=31536000, immutable"
    assert found.header("content-type") == "text/javascript; charset=utf-8"
    assert get(one_group(), "/static/old/page.js").header("cache-control") == "no-store"


@pytest.mark.parametrize("name", ["none.js", "..%2Fapp.py", "%2e%2e%2fapp.py", "__init__.py"])
def test_no_other_file_can_be_had(name: str) -> None:
    assert get(one_group(), f"/static/{assets.digest()}/{name}").status == 404


def test_modules_import_only_each_other() -> None:
    for name, one in assets.assets().items():
        body = one.body.decode()
        assert "http://" not in body.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in body
        for imported in re.findall(r'from "([^"]+)"', body):
            assert imported.removeprefix("./") in assets.assets(), name
