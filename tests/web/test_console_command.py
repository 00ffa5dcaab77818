"""`equipoise console` and `serve --console` as processes, with real clients: what they do is on the page."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page

from equipoise import Broker, Consumer, Producer
from equipoise.client import Admin, TopicPartition
from equipoise.console.main import run
from equipoise.server_process import free_port
from tests.commands import Ended, check_line, command_of
from tests.web.conftest import Watched

PATIENCE = 120


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "equipoise", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def line(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


@contextmanager
def console(servers: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and its address."""
    with process("console", "--bootstrap-servers", servers, "--listen", "127.0.0.1:0", *more) as started:
        words = line(started).split()
        assert words[:-1] == ["equipoise", "console", "on"]
        yield started, words[-1]


class Member:
    """A consumer of our own in a thread: it joins at once, and leaves when it is told to."""

    def __init__(self, servers: str, name: str, *, topic: str = "orders", **settings: object) -> None:
        self._topic = topic
        self._over = threading.Event()
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": "etl",
            "client.id": name,
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        with Consumer(self._settings) as consumer:
            consumer.subscribe([self._topic])
            while not self._over.is_set():
                consumer.poll(0.1)

    def leave(self) -> None:
        self._over.set()
        self._thread.join(PATIENCE)

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def owners(page: Page, group_id: str) -> list[str]:
    """Of the six lanes as the browser is told, sorted."""
    shown = page.evaluate(f"fetch('/api/groups/{group_id}/timeline').then((r) => r.json())")
    last = [lane["owner"][-1] for lane in shown["lanes"]]
    return sorted(shown["owners"][one]["name"] if one >= 0 else "" for one in last)


def await_true(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_what_real_clients_do_is_on_the_page(watched: Watched) -> None:
    """Of groups of both protocols, one after the other; then of a broker that goes away."""
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.heartbeat.interval.ms": 200,
    }
    with Broker(settings, topics={"orders": 6}) as broker, console(broker.bootstrap_servers) as (_, address):
        page = watched.opened(f"{address}/groups")
        page.wait_for_selector("text=No consumer group yet")
        for protocol in ("classic", "consumer"):
            page.goto(f"{address}/groups")
            check_coming_and_going(page, broker.bootstrap_servers, protocol)
            watched.check()
        check_records_are_private(page, broker.bootstrap_servers, address)
        watched.check()
        page.goto(f"{address}/groups")
        page.wait_for_selector("#live[data-state=live]")
        broker.stop()
        page.wait_for_selector("#trouble >> text=Not heard from")
        assert page.evaluate("fetch('/healthz').then((r) => r.status)") == 503
        page.goto(f"{address}/groups/classic")
        assert "Not heard from" in page.inner_text("#trouble")


def check_coming_and_going(page: Page, servers: str, protocol: str) -> None:
    """Of two members of a group, which is called by its protocol."""
    with Member(servers, "first", group_id=protocol, group_protocol=protocol):
        page.wait_for_selector(f"#list td >> text='{protocol}'")
        page.click(f"#list a >> text='{protocol}'")
        page.wait_for_url(f"**/groups/{protocol}")
        page.wait_for_selector("header >> text=journal")
        page.wait_for_selector("html[data-ready]", state="attached")
        second = Member(servers, "second", group_id=protocol, group_protocol=protocol)
        page.wait_for_selector("#why >> text=(client second, 127.0.0.1) joined")
        await_true(lambda: owners(page, protocol) == ["first"] * 3 + ["second"] * 3)
        page.wait_for_selector("#members >> text=second")
        second.leave()
        page.wait_for_selector("#why >> text=(client second, 127.0.0.1) left")
        page.wait_for_selector("#members >> text=Members, 1")
        counted = f'equipoise_group_members{{group="{protocol}"}} 1.0'
        assert counted in read(page.evaluate("location.origin") + "/metrics")
        with Producer({"bootstrap.servers": servers}) as producer:
            producer.send("orders", b"value").result(PATIENCE)
    page.wait_for_selector("#title >> text=Empty")


def check_records_are_private(page: Page, servers: str, address: str) -> None:
    """Without the option, the page of a topic has its configs only."""
    with Admin(servers) as admin:
        admin.set_configs("orders", {"retention.ms": "3600000"})
    page.goto(f"{address}/topics/orders")
    page.wait_for_selector("#list >> text=retention.ms")
    assert "Last records" not in page.inner_text("#list")


def test_offsets_are_reset_from_a_page_and_records_are_shown(watched: Watched) -> None:
    """If they may be. In a real browser: its own Origin and cookie must pass the guard."""
    with Broker(topics={"orders": 2}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.commit_offsets("etl", {TopicPartition("orders", number): 0 for number in range(2)})
        with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for number in (0, 0, 1):
                producer.send("orders", b"value", partition=number).result(PATIENCE)
        with console(broker.bootstrap_servers, "--allow-actions", "--show-records") as (started, address):
            page = watched.opened(f"{address}/groups")
            page.click("#list >> text=etl")
            page.click("text=Reset offsets")
            page.fill("input[name=to]", "latest")
            page.click("text=Show what would change")
            page.wait_for_selector("text=Commit 2 offsets for etl?")
            assert "0 records read again, 3 skipped." in page.inner_text("main")
            page.fill("input[name=name]", "etl")
            page.click("button.danger")
            page.wait_for_selector("text=2 offsets of etl changed")
            with Admin(broker.bootstrap_servers) as admin:
                found = {one.partition: place.offset for one, place in admin.committed("etl").items()}
            assert found == {0: 2, 1: 1}
            page.goto(f"{address}/groups/etl/delete")
            page.fill("input[name=name]", "etl")
            page.click("button.danger")
            page.wait_for_selector("text=deleted group etl")
            check_records_are_shown(page, broker.bootstrap_servers, address)
            watched.check()
            started.send_signal(signal.SIGTERM)
            _, logged = started.communicate(timeout=PATIENCE)
        assert "127.0.0.1 asked the console: Commit 2 offsets for etl. Done" in logged


def check_records_are_shown(page: Page, servers: str, address: str) -> None:
    """Those that are there, and one that comes."""
    with Producer({"bootstrap.servers": servers}) as producer:
        producer.send("orders", b'{"id": 7}', key=b"<b>k</b>", partition=0).result(PATIENCE)
        page.goto(f"{address}/topics/orders")
        page.wait_for_selector("#list >> text=<b>k</b>")
        assert "JSON, 9 B" in page.inner_text("#list")
        producer.send("orders", b"second", partition=0).result(PATIENCE)
    page.wait_for_selector("#list >> text=second")


def check_it_ends(started: subprocess.Popen[str], address: str, signum: signal.Signals, watched: Watched) -> None:
    """While a page is open."""
    page = watched.opened(address)
    page.wait_for_selector("#live[data-state=live]")
    started.send_signal(signum)
    out, err = started.communicate(timeout=PATIENCE)
    assert (started.returncode, out, err) == (0, "", "")


def test_a_signal_ends_it(broker: Broker, watched: Watched) -> None:
    with console(broker.bootstrap_servers) as (started, address):
        check_it_ends(started, f"{address}/groups", signal.SIGTERM, watched)


def test_serve_starts_one_beside_the_broker_and_ends_it() -> None:
    """Its page of the cluster has what the broker says of itself."""
    figures = f"127.0.0.1:{free_port()}"
    beside = ("--console", "127.0.0.1:0", "--metrics", figures)
    with process("serve", "--memory", "--listen", "127.0.0.1:0", *beside) as started:
        broker, shown = line(started).split()[-1], line(started).split()[-1]
        with Admin(broker) as admin:
            admin.create_topic("orders")
        await_true(lambda: "<td>CreateTopics</td>" in read(f"{shown}/cluster?part=list"))
        found = read(f"{shown}/cluster")
        assert broker in found
        assert "Loop delay" in found
        started.terminate()
        assert started.wait(PATIENCE) == 0
        with pytest.raises(OSError, match="refused"):
            urlopen(f"{shown}/cluster", timeout=PATIENCE).close()


def read(address: str) -> str:
    with urlopen(address, timeout=PATIENCE) as answer:
        return bytes(answer.read()).decode()


def test_a_token_is_asked_for_and_ctrl_c_ends_it(broker: Broker, tmp_path: Path, watched: Watched) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-that-nobody-guesses\n", encoding="utf-8")
    with console(broker.bootstrap_servers, "--token-file", str(file)) as (started, address):
        bare, _, token = address.partition("/?token=")
        assert token == "a-token-that-nobody-guesses"
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{bare}/groups", timeout=PATIENCE)
        asked = Request(f"{bare}/api/groups/none/timeline", headers={"Authorization": f"Bearer {token}"})
        with pytest.raises(HTTPError, match="404"):
            urlopen(asked, timeout=PATIENCE)
        check_it_ends(started, address, signal.SIGINT, watched)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["console", "--listen", "9080"], "write HOST:PORT"),
        (["console", "--window", "soon"], "for instance"),
        (["console", "--tls-cert", "cert.pem"], "belong together"),
        (["console", "--broker-metrics", "127.0.0.1:9082"], "http://127.0.0.1:9082/metrics"),
        (["serve", "--memory", "--tls", "--console"], "--command-config"),
    ],
)
def test_wrong_use_is_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: Ended = command_of("equipoise", run, capsys, monkeypatch)(*arguments)
    check_line(ended, told)
