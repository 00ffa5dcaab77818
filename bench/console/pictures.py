"""The pictures of docs/console.md and of the README: the told group, light and dark, and the list of groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.console import story as tale
from bench.console.running import fed_console, until
from equipoise.console.web.live import Live
from equipoise.views.model import ClusterView, GroupType, GroupView, Health, HealthKind, LagView, RebalanceView

PICTURES = Path("docs")
NAMES = ("console-light.png", "console-dark.png", "console-groups.png")
_WIDTH = 1600


def draw(browser: Any, directory: Path) -> None:
    """All of them, into a directory."""
    story = tale.told()
    lost = next(one for one in story.rebalances if one.phases and one.phases.detect_ms)
    with fed_console(lambda: tale.END) as console:
        console.update(_cluster(tale.view(story)))
        console.do(_tell_lag)
        page = browser.new_page(viewport={"width": _WIDTH, "height": 1148}, color_scheme="light")
        page.goto(f"{console.address}/groups/{tale.GROUP}")
        page.wait_for_selector("#live[data-state=live]")
        page.focus("#timeline")
        _choose(page, lost)
        page.screenshot(path=str(directory / NAMES[0]), animations="disabled")
        _darken(page)
        page.screenshot(path=str(directory / NAMES[1]), animations="disabled")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": _WIDTH, "height": 360})
        page.goto(f"{console.address}/groups")
        page.wait_for_selector("#live[data-state=live]")
        page.screenshot(path=str(directory / NAMES[2]), animations="disabled")
        page.close()


def _darken(page: Any) -> None:
    """And until it is drawn so."""
    drawn = page.get_attribute("#timeline", "data-drawn")
    page.emulate_media(color_scheme="dark")
    until(page, f"document.getElementById('timeline').dataset.drawn !== '{drawn}'")


def _choose(page: Any, wanted: RebalanceView) -> None:
    """With the keyboard, as a reader would."""
    for _ in range(500):
        page.keyboard.press("p")
        if f"generation {wanted.generation}:" in page.inner_text("#said"):
            break
    page.wait_for_selector(f"#why >> text=→ {wanted.generation}")
    page.evaluate("document.activeElement.blur()")


def _cluster(told: GroupView) -> ClusterView:
    """The told group among others."""
    calm: dict[str, Any] = {"rebalances": told.rebalances[:1], "episodes": (), "rebalances_last_hour": 0}
    fine = Health(kind=HealthKind.FINE)
    billing = replace(
        told, group_id="billing", protocol="range", members=told.members[:3], lag=LagView(lag=0, behind_ms=0),
        health=fine, **calm,
    )  # fmt: skip
    reports = replace(
        told, group_id="reports", state="Empty", protocol=None, members=(), lag=LagView(lag=41_207, behind_ms=720_000),
        health=Health(kind=HealthKind.NOBODY_READS, lag=41_207), **calm,
    )  # fmt: skip
    audit = replace(
        told, group_id="audit", type=GroupType.CONSUMER, protocol="uniform", members=told.members[:2],
        lag=LagView(lag=812, behind_ms=1_400, clears_in_ms=4_000), health=fine, **calm,
    )  # fmt: skip
    return tale.cluster(audit, billing, told, reports)


def _tell_lag(live: Live) -> None:
    for name, share in ((tale.GROUP, 1.0), ("reports", 0.05), ("audit", 0.2)):
        feed = live.feed(name)
        assert feed is not None
        feed.lag.clear()
        for at in range(tale.BEGIN, tale.END, 30_000):
            feed.lag.add(at, int(tale.lag_at(at) * share))
