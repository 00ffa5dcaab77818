"""How soon a rebalance of real clients is on the page: from its end, as the coordinator notes it, until its reason
stands there and its owners are drawn, by the browser's own clock.

The console asks no questions meanwhile. What it shows, the journal has pushed: no interval hides in the figures.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from bench.console.running import await_journal, until
from equipoise.broker import Broker
from equipoise.client import Consumer

GROUP, TOPIC = "soon", "orders"
_PATIENCE_S = 120
_SILENT = """
import sys
from equipoise.console.web import source
from equipoise.console.main import run
source.REFRESH_S = 3600.0
sys.exit(run())
"""
_NOTE = """() => {
  window.shownAt = {};
  let told = null;
  const line = document.getElementById("timeline");
  const why = document.getElementById("why");
  const look = (changes) => {
    if (told !== null && changes.some((one) => one.target === line)) {
      window.shownAt[told] ??= Date.now();
      told = null;
    }
    if (changes.some((one) => one.target !== line)) told = why.querySelector("h2").textContent.split(" ").at(-1);
  };
  const observer = new MutationObserver(look);
  observer.observe(line, { attributes: true, attributeFilter: ["data-drawn"] });
  observer.observe(why, { childList: true, characterData: true, subtree: true });
}"""


class Shown(NamedTuple):
    """Milliseconds from the end of each rebalance to the page; what the page says of the last join, and who owns what
    then."""

    after_ms: list[int]
    why: str
    owners: list[str]


def shown_after(browser: Any, times: int) -> Shown:
    """A member comes and goes so many times."""
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Broker(settings, topics={TOPIC: 6}) as broker, _Member(broker, "first") as first:
        first.ready.wait(_PATIENCE_S)
        with _console(broker.bootstrap_servers) as address, _page(browser, f"{address}/groups/{GROUP}") as page:
            for _ in range(times):
                with _Member(broker, "second"):
                    _await_why(page, "(client second, 127.0.0.1) joined")
                    why, owned = str(page.inner_text("#why")), _owners(page)
                _await_why(page, "(client second, 127.0.0.1) left")
            return Shown(_delays(page), why, owned)


class _Member:
    """A consumer in a thread."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.ready = threading.Event()
        self._over = threading.Event()
        self._settings = {
            "bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP, "client.id": name,
            "partition.assignment.strategy": "range",
        }  # fmt: skip
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        with Consumer(self._settings) as consumer:
            consumer.subscribe([TOPIC])
            while not self._over.is_set():
                consumer.poll(0.05)
                if consumer.assignment():
                    self.ready.set()

    def __enter__(self) -> _Member:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_PATIENCE_S)


@contextmanager
def _console(servers: str) -> Iterator[str]:
    """In a process of its own, as always; its address."""
    command = [sys.executable, "-c", _SILENT, "console", "-b", servers, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            await_journal(address, GROUP)
            yield address
        finally:
            process.terminate()


@contextmanager
def _page(browser: Any, address: str) -> Iterator[Any]:
    """The page of the group, when it is live; it notes when what was shown."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    try:
        page.goto(address)
        page.wait_for_selector("#live[data-state=live]", timeout=_PATIENCE_S * 1000)
        page.evaluate(_NOTE)
        yield page
    finally:
        page.close()


def _await_why(page: Any, words: str) -> None:
    """And until it is drawn."""
    page.wait_for_selector(f"#why >> text={words}", timeout=_PATIENCE_S * 1000)
    until(page, "document.querySelector('#why h2').textContent.split(' ').at(-1) in window.shownAt")


def _owners(page: Any) -> list[str]:
    found = page.evaluate(f"fetch('/api/groups/{GROUP}/timeline').then((r) => r.json())")
    last = [lane["owner"][-1] for lane in found["lanes"]]
    return sorted(found["owners"][one]["name"] if one >= 0 else "" for one in last)


def _delays(page: Any) -> list[int]:
    (group,) = page.evaluate(f"fetch('/api/groups/{GROUP}').then((r) => r.json())")["groups"]
    ended = {str(one["generation"]): one["ended"] for one in group["rebalances"]}
    shown: dict[str, int] = page.evaluate("window.shownAt")
    return [at - round(datetime.fromisoformat(ended[key]).timestamp() * 1000) for key, at in shown.items()]
