"""`python -m bench console`: what an update costs the browser, whether its memory stays flat, and the pictures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from bench.console import story as tale
from bench.console.many import run_many
from bench.console.pictures import PICTURES, draw
from bench.console.running import FedConsole, fed_console
from bench.console.soon import shown_after
from equipoise.views.model import GroupView, Ms, RebalanceView
from equipoise.wire.errors import UsageError

UPDATES, QUICK_UPDATES = 2_000, 200
_MB = 1 << 20
_SETTLING = 100  # updates before the first look at memory
_EXPECT = """(generation) => {
  const line = document.getElementById("timeline");
  const drawn = line.dataset.drawn;
  window.seen = new Promise((resolve) => {
    const look = new MutationObserver(() => {
      const told = document.querySelector("#why h2").textContent.endsWith(generation);
      if (told && line.dataset.drawn !== drawn) {
        look.disconnect();
        resolve(true);
      }
    });
    look.observe(line, { attributes: true, attributeFilter: ["data-drawn"] });
    look.observe(document.getElementById("why"), { childList: true, characterData: true, subtree: true });
  });
}"""


class Figures(NamedTuple):
    """Of one run: milliseconds of the main thread for each update, and the heap after a collection."""

    updates: int
    script_ms: float
    main_thread_ms: float
    heap_before_mb: float
    heap_after_mb: float


def run_bench(*, as_json: bool, quick: bool, pictures: bool, many: bool, soon: bool) -> None:
    """Measures, prints, and draws if asked to."""
    if many:
        run_many(as_json=as_json, quick=quick)
        return
    with browser_of_debian() as browser:
        if pictures:
            draw(browser, PICTURES)
            return
        if soon:
            _print_soon(shown_after(browser, 3 if quick else 20).after_ms, as_json=as_json)
            return
        found = measure(browser, QUICK_UPDATES if quick else UPDATES)
    if as_json:
        print(json.dumps(found._asdict()))
        return
    print(f"{found.updates:,} rebalances of 100 partitions and 50 members, each drawn in Chromium:")
    print(f"  main thread {found.main_thread_ms:.1f} ms an update, of it script {found.script_ms:.1f} ms")
    print(f"  heap {found.heap_before_mb:.2f} MB after {_SETTLING} updates, {found.heap_after_mb:.2f} MB at the end")


def _print_soon(after_ms: list[int], *, as_json: bool) -> None:
    ordered = sorted(after_ms)
    found = {"rebalances": len(ordered), "median_ms": ordered[len(ordered) // 2], "slowest_ms": ordered[-1]}
    if as_json:
        print(json.dumps(found))
        return
    print(f"{found['rebalances']} rebalances of real clients, each with its reason and owners in Chromium:")
    print(f"  {found['median_ms']} ms after its end in the middle, {found['slowest_ms']} ms at most")


@contextmanager
def browser_of_debian() -> Iterator[Any]:
    """Chromium, as the tests use it."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        raise UsageError("chromium is not on this machine: install it, for instance with tools/foreign-clients")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


# -- figures


def measure(browser: Any, updates: int) -> Figures:
    """Feeds one rebalance after another, and waits until each is drawn. Thread time, not wall time: the machine may be
    busy with other things."""
    story = tale.told()
    whole = tale.view(story)
    with fed_console(lambda: tale.END) as console:
        console.update(tale.cluster(whole))
        page = browser.new_page(viewport={"width": 1600, "height": 1148})
        page.goto(f"{console.address}/groups/{tale.GROUP}")
        page.wait_for_selector("#live[data-state=live]")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        views = _views(whole, story.rebalances)
        for _ in range(_SETTLING):
            _feed(console, page, next(views))
        heap, before = _heap(session), _spent(session)
        for _ in track(range(updates), console=Console(stderr=True), description="updates"):
            _feed(console, page, next(views))
        after = _spent(session)
        script, task = ((after[name] - before[name]) * 1000 / updates for name in ("ScriptDuration", "TaskDuration"))
        return Figures(updates, script, task, heap, _heap(session))


def _views(whole: GroupView, rebalances: list[RebalanceView]) -> Iterator[GroupView]:
    """The rolling restart again and again: each rebalance stops every lane. The last 200 rebalances are kept."""
    restart = [one for one in rebalances if one.protocol == "range"][-60:]
    shown = list(whole.rebalances)
    now = whole.as_of
    generation = whole.generation or 0
    while True:
        for one in restart:
            now, generation = Ms(now + 30_000), generation + 1
            took = (one.ended or 0) - (one.started or 0)
            moved = {"old_generation": generation - 1, "generation": generation, "key": str(generation)}
            shown.append(replace(one, started=Ms(now - took), ended=now, **moved))  # type: ignore[arg-type]
            del shown[:-200]
            yield replace(
                whole, rebalances=tuple(shown), as_of=Ms(now + 10), generation=generation, seen_since=shown[0].at
            )


def _feed(console: FedConsole, page: Any, view: GroupView) -> None:
    """No polling: each question to the page would count as its work."""
    page.evaluate(_EXPECT, f" {view.generation}")
    console.update(tale.cluster(view, now=view.as_of))
    page.evaluate("window.seen")


def _spent(session: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def _heap(session: Any) -> float:
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / _MB
