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
        """No error in the browser's console, no violation of the policy."""
        assert self.complaints == []
        assert self.page.evaluate("window.violations") == []


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser that remembers nothing of other tests."""
    one = chromium.new_context(viewport={"width": 1400, "height": 1000})
    one.set_default_timeout(30_000)
    yield one
    one.close()


@pytest.fixture
def watched(context: BrowserContext) -> Watched:
    return watch(context)


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
