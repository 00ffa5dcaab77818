"""A broker that cannot start says why in one line, and leaves the one that runs alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.wire.errors import UsageError
from tests.broker.calls import append, create_topic, served_apis
from tests.broker.conftest import Connect, Start
from tests.crash.served import run_serve

NOBODY = 65534


def refusal(*arguments: str, **options: object) -> str:
    """The one line of a `serve` that ends with status 2."""
    status, error = run_serve(*arguments, **options)
    assert (status, error.count("\n")) == (2, 1), error
    return error


def test_an_occupied_port(broker: Broker, connect: Connect) -> None:
    error = refusal("--memory", "--listen", broker.bootstrap_servers)
    assert f"cannot listen on {broker.bootstrap_servers}" in error
    assert "Address already in use" in error
    assert "choose another with --listen" in error
    assert served_apis(connect(broker))


def test_an_occupied_port_in_process_leaves_the_data_directory_free(
    broker: Broker, start: Start, connect: Connect, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot listen on"):
        Broker(data=tmp_path, listen=broker.bootstrap_servers).start()
    assert served_apis(connect(start(data=tmp_path)))


def test_a_broker_that_failed_to_start_can_be_started_when_the_port_is_free(start: Start, connect: Connect) -> None:
    first = start()
    second = Broker(listen=first.bootstrap_servers)
    for _ in range(20):  # the thread of the last start has ended
        with pytest.raises(UsageError):
            second.start()
    first.stop()
    with second:
        assert served_apis(connect(second))


def test_a_broker_that_runs_is_not_started_again(start: Start, connect: Connect) -> None:
    """`with Broker().start()` would start it twice."""
    broker = start()
    address = broker.bootstrap_servers
    create_topic(connect(broker))
    before = _broker_threads()
    with broker.start() as again:
        assert again is broker
        assert broker.bootstrap_servers == address
        assert _broker_threads() == before
        assert "t" in broker.topics
    assert _broker_threads() == before - 1
    assert served_apis(connect(broker.start()))


def _broker_threads() -> int:
    return sum(one.name == "equipoise-broker" for one in threading.enumerate())


def test_a_locked_data_directory(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    client = connect(broker)
    create_topic(client)
    error = refusal("--data", str(tmp_path), "--listen", "127.0.0.1:0")
    assert str(tmp_path) in error
    assert f"process {os.getpid()}" in error
    with pytest.raises(UsageError, match="in use by process"):
        Broker(data=tmp_path).start()
    assert append(client, b"still mine") == 0


def test_a_lock_is_free_when_its_broker_has_ended(start: Start, connect: Connect, tmp_path: Path) -> None:
    start(data=tmp_path).stop()
    assert served_apis(connect(start(data=tmp_path)))


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root is above permissions; so it becomes nobody for a while."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("mode", [0o000, 0o555], ids=["unreadable", "unwritable"])
def test_a_directory_that_may_not_be_used(mode: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        data = Path(path)
        data.chmod(mode)
        with without_privileges(), pytest.raises(UsageError) as raised:
            Broker(data=data).start()
        data.chmod(0o700)
    assert f"cannot use {data}: Permission denied" in str(raised.value)
    assert "choose another directory" in str(raised.value)


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(UsageError, match=f"cannot use {path}"):
        Broker(data=path).start()


def test_a_file_in_place_of_a_partition(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    create_topic(connect(broker))
    broker.stop()
    (tmp_path / "t-0").touch()
    with pytest.raises(UsageError, match=f"cannot use {tmp_path / 't-0'}"):
        Broker(data=tmp_path).start()


def test_the_directory_of_another_node(start: Start, tmp_path: Path) -> None:
    start({"node.id": 1}, data=tmp_path).stop()
    with pytest.raises(UsageError, match=r"belongs to node 1, not 2: start with node\.id=1"):
        Broker({"node.id": 2}, data=tmp_path).start()


def test_a_broker_is_asked_for_its_address_while_it_runs_only(start: Start) -> None:
    broker = start()
    broker.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = broker.bootstrap_servers
    broker.stop()


def test_a_broker_that_does_not_run_is_not_asked(start: Start) -> None:
    """Neither before its start nor after its end does a call wait for an answer that nobody gives."""
    broker = Broker(topics={"orders": 2})
    for _ in range(2):
        for ask in (lambda: list(broker.groups), lambda: "t" in broker.topics, lambda: broker.coordinator_of("g")):
            with pytest.raises(RuntimeError, match="not running"):
                ask()
        with broker:
            assert list(broker.groups) == []


def test_the_child_of_a_fork_does_not_wait_for_the_broker_of_its_parent(start: Start) -> None:
    broker = start()
    child = os.fork()
    if not child:
        signal.alarm(30)  # ends a child that waits
        try:
            broker.coordinator_of("g")
        except RuntimeError as error:
            os._exit(7 if "not running" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert broker.coordinator_of("g") == 1


def test_the_end_of_a_broker_ends_a_call_that_waits(start: Start) -> None:
    """The loop ends before it has looked at the call."""
    broker, begun, stopped = start(), threading.Event(), threading.Event()

    async def hold(_: Server) -> None:
        begun.set()
        stopped.wait()

    def stop() -> None:
        begun.wait()
        asker.start()
        broker.stop()

    raised: list[BaseException] = []

    def ask() -> None:
        try:
            broker.call_async(lambda server: asyncio.sleep(3600))
        except BaseException as error:  # noqa: BLE001  whatever it is, it has an end
            raised.append(error)

    asker, stopper = threading.Thread(target=ask), threading.Thread(target=stop)
    stopper.start()
    threading.Timer(0.1, stopped.set).start()
    broker.call_async(hold)
    stopper.join()
    asker.join(30)
    assert len(raised) == 1


def test_a_call_on_the_loop_itself_is_refused(start: Start) -> None:
    broker = start()
    with pytest.raises(RuntimeError, match="would wait for itself"):
        broker.call(lambda server: list(broker.groups))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"settings": [1]}, "settings=.*by name"),
        ({"topics": ["orders"]}, "topics=.*numbers of partitions"),
        ({"topics": {"orders": "6"}}, "topics=.*numbers of partitions"),
        ({"topics": {"orders": True}}, "topics=.*numbers of partitions"),
        ({"acls": ["User:alice"]}, "acls: 'User:alice' is no"),
        ({"listen": None}, "'None' is no address|None is no address"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Broker(**arguments)


def test_a_data_directory_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A variable that is not set: the files would lie in the directory of the process."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="empty name"):
        Broker(data="").start()
    assert "--data is empty" in refusal("--data", "", "--listen", "127.0.0.1:0")
    assert not list(tmp_path.iterdir())


def test_what_few_brokers_need_is_not_imported_at_the_start() -> None:
    """numpy alone takes 20 MB and a tenth of a second; HTTP is for the keys of an issuer of tokens."""
    heavy = {"cramjam", "cryptography", "http.client", "numpy", "pyarrow", "rich", "urllib.request"}
    lines = f"import sys, equipoise.broker; sys.exit(str(sorted({heavy} & sys.modules.keys())))"
    ended = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == "[]"
