"""What a broker imports when it accepts connections: nobody notices, whenever he asks."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.broker import late_imports
from equipoise.broker.late_imports import LateImports
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic, served_apis
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.test_transactional_offsets import commit
from tests.broker.txn_calls import committed
from tests.crash.served import ServedBroker

_SOME = ["xml.dom.minidom", "xml.sax.handler", "xml.etree.ElementTree"]


def run_python(*lines: str) -> list[str]:
    """The words that it prints."""
    ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return ended.stdout.split()


def test_a_start_needs_no_coordinator_and_few_handlers() -> None:
    """They would be half of its time."""
    found = run_python("import sys, equipoise.broker", "print(*sys.modules)")
    assert not [name for name in found if name.startswith(("equipoise.coordinator.classic.", "equipoise.assignors"))]
    assert not {"equipoise.coordinator.shard", "equipoise.broker.groups.coordinator"} & set(found)
    assert sum(name.startswith("equipoise.broker.handlers.k") for name in found) < 5


def test_a_start_without_logins_needs_nothing_of_sasl() -> None:
    found = run_python("import sys, equipoise.broker", "print(*sys.modules)")
    logins = {"authenticator", "first_users", "jaas", "jwt", "listener_logins", "logins", "token_keys"}
    assert not [name for name in found if name.startswith("equipoise.") and name.rpartition(".")[2] in logins]


def test_all_is_there_before_a_thread_starts() -> None:
    found = run_python(
        "import sys, threading, equipoise.broker",
        "start = threading.Thread.start",
        "threading.Thread.start = lambda self: (before.update(sys.modules), start(self))",
        "before = {}",
        "with equipoise.broker.Broker(): pass",
        "print(*(name for name in sys.modules.keys() - before.keys() if name.startswith('equipoise.')))",
    )
    assert found == []


def test_one_module_in_each_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = asyncio.run(_turns_of(monkeypatch, at_once=False))
    assert turns == [3, 2, 1, "done"]


def test_the_rest_at_once_when_the_broker_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(_turns_of(monkeypatch, at_once=True)) == [3, "done"]


def test_without_a_descriptor_left_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So `import` fails while all are in use."""
    refusals = [OSError(errno.EMFILE, "Too many open files"), MemoryError()]
    imported: list[str] = []

    def refuse(name: str) -> None:
        if refusals:
            raise refusals.pop()
        imported.append(name)

    async def run() -> None:
        is_done = asyncio.Event()
        LateImports(is_done.set).begin()
        await asyncio.wait_for(is_done.wait(), 60)

    monkeypatch.setattr(late_imports, "missing_modules", lambda: _SOME)
    monkeypatch.setattr(late_imports, "import_module", refuse)
    asyncio.run(run())
    assert imported == _SOME


async def _turns_of(monkeypatch: pytest.MonkeyPatch, *, at_once: bool) -> list[object]:
    """How many were missing after each turn, and when they were told to be there: once."""
    seen: list[object] = []
    for name in _SOME:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(late_imports, "missing_modules", lambda: [one for one in _SOME if one not in sys.modules])
    late = LateImports(lambda: seen.append("done"))
    late.finish()  # nothing has begun
    late.begin()
    for _ in range(5):
        if "done" not in seen:
            seen.append(len(late_imports.missing_modules()))
        if at_once:
            late.finish()
        await asyncio.sleep(0)
    return seen


def test_who_comes_at_once_waits_for_an_import_only(tmp_path: Path) -> None:
    """The first request is one for the coordinator, or for what all handlers serve. The offsets are those that the
    broker before has written, also where that one was stopped as soon as it was ready."""
    with ServedBroker(tmp_path / "data", tmp_path / "log") as broker:
        with RawClient(broker.address) as client:
            assert len(served_apis(client)) > 50
        with RawClient(broker.address) as client:
            create_topic(client)
            assert eventually(lambda: commit(client, 7) == ErrorCode.NONE, "a commit")
        for _ in range(3):
            assert broker.stop() == 0
            broker.start()
        with RawClient(broker.address) as client:
            (found,) = client.call(FindCoordinatorRequest(coordinator_keys=["g"])).coordinators
            assert f"{found.host}:{found.port}" == broker.address
            assert eventually(lambda: committed(client, "g") == (ErrorCode.NONE, 7), "the groups are loaded")
        assert broker.stop() == 0
    assert (tmp_path / "log").read_text() == ""
