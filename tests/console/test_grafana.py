"""The dashboard and the alerts of docs/, put to a real Prometheus that reads a broker and `equipoise metrics`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from equipoise.client import Admin, Consumer, Producer, TopicPartition
from equipoise.server_process import free_port
from equipoise.wire.errors import KafkaError
from proving.tree import ROOT

PATIENCE_S = 120
GROUP = "billing"
VARIABLES = {"$group": GROUP, "$__rate_interval": "20s", "$__range": "2m"}
DASHBOARD = ROOT / "docs" / "grafana.json"


def board() -> Any:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def panels() -> list[Any]:
    return [one for one in board()["panels"] if one["type"] != "row"]


def queries() -> dict[str, str]:
    """By panel and letter, with values in place of variables."""
    found = {}
    for panel in panels():
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            assert "$" not in text, text
            found[f"{panel['title']} {target['refId']}"] = text
    return found


def alerts() -> str:
    """The rules of docs/metrics.md."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(- alert:.*?)```", text, re.DOTALL)
    assert found is not None
    rules = "".join(f"    {line}\n" for line in found[1].splitlines())
    return f"groups:\n- name: equipoise\n  rules:\n{rules}"


def prometheus_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing = f"{name} is not on this machine: install prometheus, for instance with tools/foreign-clients"
        if os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@contextmanager
def started(*command: str) -> Iterator[str]:
    """A command of ours as a process; its first line."""
    with subprocess.Popen([sys.executable, "-m", "equipoise", *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


class Prometheus:
    """One that reads these addresses each half second."""

    def __init__(self, directory: Path, targets: list[str]) -> None:
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        config = directory / "prometheus.yml"
        jobs = [{"job_name": "equipoise", "static_configs": [{"targets": targets}]}]
        config.write_text(json.dumps({"global": {"scrape_interval": "500ms"}, "scrape_configs": jobs}))
        self.command = [
            prometheus_program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]

    def ask(self, query: str) -> list[Any]:
        """The series of one instant; none while it starts."""
        with (
            suppress(URLError, ConnectionError),
            urlopen(f"{self._url}/api/v1/query?{urlencode({'query': query})}") as got,
        ):
            return list(json.load(got)["data"]["result"])
        return []


class Scene:
    """A group that rebalances, commits and is refused, and one that nobody reads."""

    def __init__(self, address: str, stack: ExitStack) -> None:
        self._address = address
        self._admin = stack.enter_context(Admin(address))
        self._admin.create_topic("orders", 4)
        self._producer = stack.enter_context(Producer(bootstrap_servers=address))
        self._admin.commit_offsets("reports", {TopicPartition("orders", 0): 0})
        self._first = stack.enter_context(self._member("one"))

    def _member(self, client_id: str) -> Consumer:
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "partition_assignment_strategy": "range"}
        member = Consumer(bootstrap_servers=self._address, group_id=GROUP, client_id=client_id, **settings)
        member.subscribe(["orders"])
        return member

    def go_on(self) -> None:
        """Records, a member that comes and goes, commits, and a commit from outside that is refused."""
        for number in range(20):
            self._producer.send("orders", b"x" * 100, partition=number % 4)
        self._producer.flush()
        with self._member("two") as second:
            deadline = time.monotonic() + PATIENCE_S
            while not second.assignment() or not self._first.assignment():
                self._first.poll(0.02)
                second.poll(0.02)
                assert time.monotonic() < deadline
            self._first.commit()
            with pytest.raises(KafkaError):
                self._admin.commit_offsets(GROUP, {TopicPartition("orders", 0): 1})
        self._first.poll(0.5)


def test_every_panel_leads_to_the_console_at_its_time() -> None:
    for panel in panels():
        (link,) = panel["links"]
        assert link["url"].startswith("${console}/"), panel["title"]
    rows = [one["title"] for one in board()["panels"] if one["type"] == "row"]
    assert rows == ["Groups that need attention", "Group $group", "Broker"]


def test_the_dashboard_and_the_alerts_name_metrics_that_there_are() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(equipoise_\w+)`", text, re.MULTILINE))
    for query in [*queries().values(), *re.findall(r"expr: (.*)", alerts())]:
        for name in re.findall(r"equipoise_\w+", query):
            assert name in listed or re.sub(r"_(bucket|sum|count)$", "", name) in listed, name


def test_the_alerts_are_rules_of_prometheus(tmp_path: Path) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(alerts(), encoding="utf-8")
    checked = subprocess.run(
        [prometheus_program("promtool"), "check", "rules", str(file)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr
    assert "SUCCESS: 4 rules found" in checked.stdout


def test_every_query_of_the_dashboard_returns_a_series(tmp_path: Path) -> None:
    prometheus_program("prometheus")
    at = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        ready = stack.enter_context(started("serve", "--listen", "127.0.0.1:0", "--memory", "--metrics", at))
        address = ready.split()[-1]
        exporter = ("metrics", "--listen", "127.0.0.1:0", "--every", "500ms", "-b", address)
        told = stack.enter_context(started(*exporter))
        groups_at = told.split()[-1].removeprefix("http://").removesuffix("/metrics")
        prometheus = Prometheus(tmp_path, [at, groups_at])
        process = stack.enter_context(subprocess.Popen(prometheus.command, stderr=subprocess.DEVNULL))
        stack.callback(process.terminate)
        scene = Scene(address, stack)
        silent = queries()
        deadline = time.monotonic() + PATIENCE_S
        while silent and time.monotonic() < deadline:
            scene.go_on()
            silent = {title: query for title, query in silent.items() if not prometheus.ask(query)}
        assert silent == {}
        for url in (at, groups_at):
            _check_with_promtool(f"http://{url}/metrics")


def _check_with_promtool(url: str) -> None:
    """What is served keeps to the format and its customs."""
    with urlopen(url) as answer:
        text = answer.read()
    checked = subprocess.run([prometheus_program("promtool"), "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, b""), checked.stderr.decode()
