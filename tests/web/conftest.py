"""A real browser: Debian's Chromium. Without it the tests are skipped, or with EQUIPOISE_REQUIRE_CLIENTS=1 fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective + e.blockedURI));
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """For one file of tests: while it runs, this thread has a loop. As root it has no sandbox; the pages are ours."""
    found = shutil.which("chromium")
    if found is None:
        missing = "chromium is not on this machine: install it, for instance with tools/foreign-clients"
        if os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched(NamedTuple):
    """A page, and what it complained of."""

    page: Page
    complaints: list[str]

    def opened(self, address: str) -> Page:
        """The page when its script has run."""
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", state="attached")
        return self.page

    def check(self) -> None:
        """No error in the browser's console, no violation of the policy. The page may just load again, because the
        console has a better source now: then the new one is asked."""
        assert self.complaints == []
        asked = self.page.wait_for_function("() => window.violations && JSON.stringify(window.violations)")
        assert asked.json_value() == "[]"


@pytest.fixture(scope="module")
def kept(chromium: Browser) -> Iterator[Watched]:
    """The one page of a file of tests: a new one starts a process, which takes three times as long as a visit."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(30_000)
    yield watch(context)
    context.close()


@pytest.fixture
def watched(kept: Watched) -> Watched:
    """A page that remembers nothing of other tests."""
    page = kept.page
    page.evaluate("() => { if (location.protocol === 'http:') localStorage.clear(); }")
    page.goto("about:blank")
    page.context.clear_cookies()
    page.emulate_media(media="null", color_scheme="null", forced_colors="null", contrast="null", reduced_motion="null")
    page.mouse.move(0, 0)
    kept.complaints.clear()
    return kept


def watch(context: BrowserContext) -> Watched:
    """A page of a context, under watch."""
    page = context.new_page()
    page.add_init_script(VIOLATIONS)
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
    return Watched(page, complaints)
