"""Lanes that change places glide there; a rebalance that runs pulses at the edge of now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from bench.console.running import FedConsole, fed_console
from equipoise.views.model import GroupView
from tests.web.conftest import Watched
from tests.web.views import T0, cluster, group, member, rebalance

# Two orders of lanes: by owner partition 1 comes first, by number partition 0.
SWAPPED = group(rebalance(1, 100, {0: (None, "b"), 1: (None, "a")}), members=(member("a"), member("b")))
# The names of lanes, as drawn, in the frame in which the order changes and when lanes have come to rest. Right of them
# the picture grows with time.
ORDERED = """async () => {
  const canvas = document.querySelector("[data-part=lanes]");
  const copy = new OffscreenCanvas(130, canvas.height).getContext("2d", { willReadFrequently: true });
  const look = () => {
    copy.clearRect(0, 0, 130, canvas.height);
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, 130, canvas.height).data.join();
  };
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const before = look();
  document.getElementById("timeline").dispatchEvent(new KeyboardEvent("keydown", { key: "o", bubbles: true }));
  await frame();
  const first = look();
  await new Promise((done) => setTimeout(done, 600));
  await frame();
  const last = look();
  return { isNew: last !== before, moved: first !== last };
}"""


@pytest.fixture
def console() -> Iterator[FedConsole]:
    with fed_console(lambda: T0 + 60_000) as running:
        running.update(cluster(SWAPPED))
        yield running


def opened(watched: Watched, console: FedConsole, motion: Any, view: GroupView = SWAPPED) -> Page:
    watched.page.emulate_media(reduced_motion=motion)
    return watched.opened(f"{console.address}/groups/{view.group_id}")


@pytest.mark.parametrize(("motion", "glides"), [("no-preference", True), ("reduce", False)])
def test_lanes_glide_unless_motion_is_to_be_spared(
    watched: Watched, console: FedConsole, motion: str, glides: bool
) -> None:
    page = opened(watched, console, motion)
    page.wait_for_timeout(1_100)  # lanes that were ordered a moment ago jump
    seen = page.evaluate(ORDERED)
    assert seen == {"isNew": True, "moved": glides}
    watched.check()


def test_the_mark_of_a_rebalance_that_runs_pulses(watched: Watched, console: FedConsole) -> None:
    page = opened(watched, console, "no-preference")
    mark = page.locator("[data-part=now]")
    expect(mark).to_be_hidden()
    console.update(cluster(replace(SWAPPED, state="PreparingRebalance")))
    expect(mark).to_be_visible()
    assert mark.evaluate("(one) => getComputedStyle(one).animationName") == "pulse"
    page.emulate_media(reduced_motion="reduce")
    assert mark.evaluate("(one) => getComputedStyle(one).animationName") == "none"
    watched.check()
