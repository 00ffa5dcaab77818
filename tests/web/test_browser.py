"""The pages in a real Chromium: drawing, keys, updates, looks, and what a screen reader gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from bench.console import story as tale
from bench.console.running import FedConsole, fed_console, until
from equipoise.console.web.broker_figures import ApiFigures, BrokerFigures
from equipoise.console.web.live import Live
from equipoise.views.model import GroupView, Ms, Source
from equipoise.views.records import shown
from equipoise.watching.topic_details import RecordView, TopicDetails
from tests.web.conftest import Watched, watch
from tests.web.views import T0, cluster, group, member, partition, rebalance

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&"
WHOLE = tale.told()
FEW = tale.few(WHOLE)
SMALL = group(rebalance(1, 100, {0: (None, "a")}), rebalance(2, 700, {0: ("a", "b")}, dark={0: 40}))
AXE = "(rules) => axe.run(document, {resultTypes: ['violations'], ...rules})"
# Nothing but colours differs between the schemes.
AXE_RULES: dict[str, Any] = {"light": {}, "dark": {"runOnly": {"type": "rule", "values": ["color-contrast"]}}}
# Without what the page itself writes into the server's words.
PARTS = """Object.fromEntries(["title", "figures", "why", "members", "rebalances", "offsets", "events"].map((id) =>
  [id, document.getElementById(id).innerHTML.replaceAll(/ style="[^"]*"/g, "")]))"""
PAGES = ("/groups", f"/groups/{tale.GROUP}", f"/groups/{tale.GROUP}/table", "/topics", "/topics/orders", "/cluster")


@pytest.fixture
def console() -> Iterator[FedConsole]:
    """With the told group, a few of each."""
    with fed_console(lambda: tale.END) as running:
        running.update(tale.cluster(FEW))
        running.do(lambda live: _with_lag(live.feed(tale.GROUP)))
        running.do(_with_details)
        yield running


@pytest.fixture
def whole(console: FedConsole) -> FedConsole:
    """With the told group of 100 partitions and 50 members."""
    console.update(tale.cluster(tale.view(WHOLE)))
    return console


def _with_details(live: Live) -> None:
    """What only the pages of a topic and of the cluster show."""
    record = RecordView(0, 7, Ms(tale.END), shown(None), shown(b'{"id": 7}'))
    live.topic_details = lambda _topic: TopicDetails({"retention.ms": "1000"}, (record,))
    live.broker_figures = lambda: BrokerFigures(3, 52_428_800, 99, 1.5, (ApiFigures("Fetch", 100, 5.0, 0.5),))


def _with_lag(feed: Any) -> None:
    feed.lag.clear()
    for at in range(tale.BEGIN, tale.END, 60_000):
        feed.lag.add(at, tale.lag_at(at))


def address(console: FedConsole, more: str = "") -> str:
    return f"{console.address}/groups/{tale.GROUP}{more}"


def said(page: Page) -> str:
    return str(page.inner_text("#said"))


# -- looks


@pytest.mark.parametrize("told", [FEW, pytest.param(tale.view(WHOLE), marks=pytest.mark.soak)], ids=["few", "whole"])
def test_no_page_complains_and_axe_finds_nothing_serious(
    watched: Watched, console: FedConsole, told: GroupView
) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    console.update(tale.cluster(told, SMALL))
    places = [place for place in PAGES if not place.endswith("/table")]  # axe takes a minute for its thousands of rows
    some = f"/groups/{tale.GROUP}/rebalances/{WHOLE.rebalances[-1].key}", "/groups/etl/table", "/groups/none"
    for place in (*places, *some):
        watched.page.emulate_media(color_scheme="dark")
        page = watched.opened(console.address + place)
        page.evaluate(axe)
        check_access(page, place, "dark")
        page.emulate_media(color_scheme="light")
        check_access(page, place, "light")
    assert [one for one in watched.complaints if "404" not in one] == []  # of the page that is not there
    assert watched.page.evaluate("window.violations") == []


def check_access(page: Page, place: str, scheme: str) -> None:
    assert page.evaluate("(name) => matchMedia(`(prefers-color-scheme: ${name})`).matches", scheme)
    found = page.evaluate(AXE, AXE_RULES[scheme])
    bad = [
        (one["id"], one["impact"], [node["html"] for node in one["nodes"][:3]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert bad == [], (place, scheme)


def test_lanes_have_the_colours_of_their_owners(watched: Watched, whole: FedConsole) -> None:
    page = watched.opened(address(whole))
    drawn = page.evaluate(
        """() => {
          const canvas = document.querySelector("[data-part=lanes]");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) {
            seen.add(((1 << 24) | (data[i] << 16) | (data[i + 1] << 8) | data[i + 2]).toString(16).slice(1));
          }
          return [...seen];
        }"""
    )
    picture: list[str] = page.evaluate(f"fetch('/api/groups/{tale.GROUP}/timeline').then((r) => r.json())")["owners"]
    slots = page.evaluate("import(document.querySelector('script[type=module]').src.replace('page.js', 'palette.js'))")
    wanted = {slots["SLOTS"][one["slot"]] for one in picture}  # type: ignore[index]
    assert wanted <= set(drawn)
    watched.check()


_INKED = """() => {
  const canvas = document.querySelector("[data-part=lanes]");
  const ink = getComputedStyle(canvas).getPropertyValue("--ink").trim();
  const all = canvas.getContext("2d").getImageData(150, 0, 900, canvas.height).data;
  let found = 0;
  for (let i = 0; i < all.length; i += 4) {
    const hex = ((1 << 24) | (all[i] << 16) | (all[i + 1] << 8) | all[i + 2]).toString(16).slice(1);
    if (`#${hex}` === ink) found++;
  }
  return found / (all.length / 4);
}"""


@pytest.mark.parametrize("asked", [{"forced_colors": "active"}, {"contrast": "more"}])
def test_with_high_contrast_owners_are_told_apart_by_patterns(
    watched: Watched, whole: FedConsole, asked: dict[str, Any]
) -> None:
    page = watched.opened(address(whole))
    assert page.evaluate(_INKED) < 0.01
    drawn = page.get_attribute("#timeline", "data-drawn")
    page.emulate_media(**asked)
    until(page, f"document.getElementById('timeline').dataset.drawn !== '{drawn}'")
    assert page.evaluate(_INKED) > 0.05
    assert page.evaluate("window.violations") == []


def test_a_phone_needs_no_sideways_scroll(chromium: Browser, console: FedConsole) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 740}, device_scale_factor=2, is_mobile=True)
    seen = watch(context)
    for place in PAGES:
        page = seen.opened(console.address + place)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    context.close()


def test_print_shows_the_picture_and_no_buttons(watched: Watched, console: FedConsole) -> None:
    page = watched.opened(address(console))
    page.emulate_media(media="print")
    expect(page.locator("header nav")).to_be_hidden()
    expect(page.locator("button[data-act=nearer]")).to_be_hidden()
    expect(page.locator("[data-part=lanes]")).to_be_visible()
    expect(page.locator("#why")).to_be_visible()


def test_a_button_overrides_the_theme_and_is_remembered(watched: Watched, console: FedConsole) -> None:
    page = watched.opened(address(console))
    before = page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor")
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "theme: dark"
    assert page.evaluate("getComputedStyle(document.body.parentElement).backgroundColor") != before
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    watched.check()


def test_without_javascript_the_tables_tell_it_all(chromium: Browser, console: FedConsole) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address(console))
    expect(page.locator("noscript")).to_have_count(1)
    page.click("text=as tables")
    page.wait_for_url("**/table")
    expect(page.locator("main table")).to_have_count(4)
    assert "rolling restart of 30" in page.inner_text("main")
    context.close()


def test_script_in_names_stays_text(watched: Watched) -> None:
    with fed_console(lambda: T0 + 20_000) as running:
        one = rebalance(1, 100, {}, group_id=EVIL)
        members = (member(EVIL, client_host=EVIL, topics=(EVIL,)),)
        view = group(one, group_id=EVIL, members=members, partitions=(partition(0, topic=EVIL, member_id=EVIL),))
        running.update(cluster(view))
        watched.opened(f"{running.address}/groups")
        page = watched.page
        page.click("table a[href^='/groups/']")
        page.wait_for_url("**/groups/*")
        page.wait_for_selector("#live[data-state=live]")  # its stream is open: the next change is an event
        assert EVIL in page.inner_text("h1")
        again = replace(view, as_of=Ms(view.as_of + 1_000), rebalances=(one, rebalance(2, 10_900, {}, group_id=EVIL)))
        running.update(cluster(again))
        page.wait_for_selector("#why >> text=Generation 1 → 2")
        page.hover("[data-part=lanes]")
        page.click("[data-part=head]")
        page.wait_for_selector("#why >> text=Generation")
        assert page.locator("main img, main script").count() == 0
        watched.check()


def test_deadlines_drain_without_a_drawing_in_each_frame(watched: Watched, console: FedConsole) -> None:
    """An animation would keep the browser busy for as long as the page is open: a bar takes a step a second."""
    page = watched.opened(address(console))
    page.wait_for_selector("#members [data-left] rect", state="attached")
    until(page, "/^scaleX\\(0\\.\\d+\\)$/.test(document.querySelector('#members [data-left] rect').style.transform)")
    assert page.evaluate("document.getAnimations().length") == 0
    watched.check()


# -- hand and keyboard


def focused(watched: Watched, console: FedConsole) -> Page:
    page = watched.opened(address(console))
    page.focus("#timeline")
    return page


def test_arrows_move_and_each_move_is_a_sentence(watched: Watched, console: FedConsole) -> None:
    page = focused(watched, console)
    page.keyboard.press("ArrowDown")
    first = said(page)
    assert " to now, " in first
    page.keyboard.press("Shift+ArrowDown")
    assert said(page).split(":")[0] != first.split(":")[0]
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert said(page).split(":")[0] == first.split(":")[0]
    page.keyboard.press("ArrowRight")
    assert page.locator("[data-part=ring]").is_visible()
    watched.check()


def test_n_and_p_choose_rebalances_and_enter_opens_one(watched: Watched, console: FedConsole) -> None:
    page = focused(watched, console)
    page.keyboard.press("p")
    last = WHOLE.rebalances[-1]
    assert f"generation {last.generation}:" in said(page)
    page.keyboard.press("p")
    before = WHOLE.rebalances[-2]
    assert f"generation {before.generation}: " in said(page)
    page.wait_for_selector(f"#why >> text=Generation {before.old_generation} → {before.generation}")
    page.keyboard.press("n")
    assert f"generation {last.generation}:" in said(page)
    page.keyboard.press("n")
    assert said(page) == "no later rebalance"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/groups/{tale.GROUP}/rebalances/{last.key}")
    assert f"generation {last.old_generation} → {last.generation}" in page.inner_text("h1")


def test_plus_minus_and_zero_change_what_is_shown(watched: Watched, console: FedConsole) -> None:
    page = focused(watched, console)
    whole = page.inner_text("#range")
    assert whole == "14:00 to 17:00 UTC"
    page.keyboard.press("+")
    assert page.inner_text("#range") != whole
    assert "from=" in page.url
    page.keyboard.press("-")
    until(page, "document.getElementById('range').textContent === '14:00 to 17:00 UTC'")
    page.keyboard.press("+")
    page.keyboard.press("+")
    page.keyboard.press("0")
    assert said(page) == whole
    assert "from=" not in page.url


def test_o_changes_the_order_and_t_shows_tables(watched: Watched, console: FedConsole) -> None:
    page = focused(watched, console)
    for order in ("partition", "lag", "owner"):
        page.keyboard.press("o")
        assert said(page) == f"ordered by {order}"
        assert page.input_value("#order") == order
    page.keyboard.press("t")
    page.wait_for_url("**/table")


def test_escape_leaves_and_other_keys_go_to_pages(watched: Watched, console: FedConsole) -> None:
    page = focused(watched, console)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")
    page.keyboard.press("?")
    assert page.locator("#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys").is_visible()
    for keys, place in (("gt", "/topics"), ("gc", "/cluster"), ("gg", "/groups")):
        page.keyboard.press(keys[0])
        page.keyboard.press(keys[1])
        page.wait_for_url(f"**{place}")
        page.wait_for_selector("html[data-ready]", state="attached")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.type("g?")
    assert page.input_value("#filter") == "g?"
    watched.check()


def test_hover_tells_click_chooses_and_an_owner_is_brought_out(watched: Watched, whole: FedConsole) -> None:
    page = watched.opened(address(whole))
    lanes = page.locator("[data-part=lanes]").bounding_box()
    assert lanes is not None
    page.mouse.move(lanes["x"] + 500, lanes["y"] + 40)
    assert " from " in page.inner_text("[data-part=tip]")
    page.mouse.click(lanes["x"] + 160, lanes["y"] + 40)
    first = WHOLE.rebalances[0]
    page.wait_for_selector(f"#why >> text=Generation {first.old_generation} → {first.generation}")
    page.mouse.click(lanes["x"] + lanes["width"] - 50, lanes["y"] + 10)
    until(page, "location.search.includes('member=etl-')")
    page.mouse.click(lanes["x"] + lanes["width"] - 50, lanes["y"] + 10)
    until(page, "!location.search.includes('member=')")
    watched.check()


def test_a_drag_on_the_axis_and_the_wheel_with_ctrl_zoom(watched: Watched, whole: FedConsole) -> None:
    page = watched.opened(address(whole))
    page.locator("[data-part=foot]").scroll_into_view_if_needed()
    foot = page.locator("[data-part=foot]").bounding_box()
    assert foot is not None
    page.mouse.move(foot["x"] + 300, foot["y"] + 5)
    page.mouse.down()
    page.mouse.move(foot["x"] + 500, foot["y"] + 5)
    page.mouse.up()
    until(page, "location.search.includes('from=')")
    page.click("button[data-act=all]")
    until(page, "!location.search.includes('from=')")
    page.hover("[data-part=lanes]")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    until(page, "location.search.includes('from=')")
    watched.check()


def test_a_look_can_be_linked(watched: Watched, console: FedConsole) -> None:
    began = tale.BEGIN + 60 * tale.MINUTE
    page = watched.opened(address(console, f"?from={began}&to={began + 20 * tale.MINUTE}&order=lag&member=etl-17"))
    assert page.inner_text("#range").startswith("15:00 to 15:20 UTC")
    assert page.input_value("#order") == "lag"


# -- updates


def grown(view: GroupView, count: int) -> GroupView:
    """With so many of its rebalances."""
    shown = view.rebalances[:count]
    return replace(view, rebalances=shown, as_of=Ms(shown[-1].at + 1_000), episodes=())


def test_a_rebalance_appears_without_a_question_and_focus_stays(watched: Watched, console: FedConsole) -> None:
    whole = tale.view(WHOLE)
    console.update(tale.cluster(grown(whole, 100)))
    page = watched.opened(address(console))
    page.wait_for_selector("#live[data-state=live]")
    page.focus("#rebalances a >> nth=0")
    kept = page.evaluate("document.activeElement.getAttribute('href')")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    console.update(tale.cluster(grown(whole, 101)))
    newest = whole.rebalances[100]
    page.wait_for_selector(f"#why >> text=Generation {newest.old_generation} → {newest.generation}")
    assert page.evaluate("document.activeElement.getAttribute('href')") == kept
    assert asked == []
    watched.check()


def test_words_are_as_new_as_the_picture(watched: Watched, console: FedConsole) -> None:
    """The group changes while the page is on its way: after its words, before its picture."""
    whole = tale.view(WHOLE)
    console.update(tale.cluster(grown(whole, 100)))

    def change(route: Route) -> None:
        console.update(tale.cluster(grown(whole, 101)))
        route.continue_()

    watched.page.route("**/timeline?words=*", change)
    page = watched.opened(address(console))
    newest = whole.rebalances[100]
    page.wait_for_selector(f"#why >> text=Generation {newest.old_generation} → {newest.generation}")
    patched = page.evaluate(PARTS)
    page.unroute("**/timeline?words=*")
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate(PARTS) == patched
    watched.check()


def test_what_was_patched_is_what_a_new_page_has(watched: Watched, console: FedConsole) -> None:
    """Rows come, change and go. What the reader has marked stays marked."""
    whole = tale.view(WHOLE)
    console.update(tale.cluster(grown(whole, 40)))
    page = watched.opened(address(console))
    page.wait_for_selector("#live[data-state=live]")
    marked = page.evaluate(
        "getSelection().selectAllChildren(document.querySelector('#members td')), `${getSelection()}`"
    )
    for count in (41, 43, 90, 89, 160):
        now = grown(whole, count)
        members = now.members[count % 3 :: 1 + count % 2]
        console.update(
            tale.cluster(replace(now, members=(now.members[0], *members), partitions=now.partitions[:count]))
        )
    last = now.rebalances[-1]
    page.wait_for_selector(f"#why >> text=Generation {last.old_generation} → {last.generation}")
    assert page.evaluate("`${getSelection()}`") == marked
    assert marked
    patched = page.evaluate(PARTS)
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate(PARTS) == patched
    watched.check()


def test_the_list_follows_too(watched: Watched) -> None:
    with fed_console(lambda: T0) as running:
        running.update(cluster())
        page = watched.opened(f"{running.address}/groups")
        assert "No consumer group yet" in page.inner_text("main")
        running.update(cluster(group()))
        page.wait_for_selector("#list >> text=etl")
        watched.check()


def test_a_console_that_ends_is_noticed(watched: Watched) -> None:
    with fed_console(lambda: T0) as running:
        running.update(cluster(group()))
        page = watched.opened(f"{running.address}/groups/etl")
        page.wait_for_selector("#live[data-state=live]")
    page.wait_for_selector("#live[data-state=lost]")
    assert "console not reachable since" in page.inner_text("#live")


def test_a_cluster_that_is_away_greys_the_picture_until_it_is_back(watched: Watched, console: FedConsole) -> None:
    page = watched.opened(address(console))
    page.wait_for_selector("#live[data-state=live]")
    console.do(lambda live: live.lost("connection refused"))
    page.wait_for_selector("#trouble >> text=Not heard from localhost:9092: connection refused")
    assert page.locator(".group.stale").count() == 1
    console.update(tale.cluster(FEW))
    page.wait_for_selector("#trouble p", state="detached")
    assert page.locator(".group.stale").count() == 0
    watched.check()


def test_another_source_loads_the_page_again(watched: Watched) -> None:
    with fed_console(lambda: T0) as running:
        running.update(cluster(group(), source=Source.POLLING))
        page = watched.opened(f"{running.address}/groups/etl")
        page.wait_for_selector("#live[data-state=live]")
        running.update(cluster(group()))
        page.wait_for_selector("header >> text=journal")
        page.wait_for_selector("#live[data-state=live]")
        page.goto(f"{running.address}/groups")
        page.wait_for_selector("#live[data-state=live]")
        watched.check()
