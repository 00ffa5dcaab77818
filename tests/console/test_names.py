"""Names from strangers: whatever a group, a client or a topic is called, a terminal and a log get lines of letters."""

from __future__ import annotations

import io
import logging
import re
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.client import Admin, Consumer, OffsetAndMetadata, TopicPartition
from equipoise.client.net.errors import error_from
from equipoise.console import edge
from equipoise.console.tables import print_table
from equipoise.console.zookeeper_words import print_words
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.text import printable
from equipoise.zookeeper.explain import ZooKeeperGroupView
from tests.commands import Command

CLEARS = "\x1b]0;owned\x07\x1b[2J"  # sets the title of a terminal, and wipes it
BIDI = "\u202egnp.exe"
FORGES = "x\n2026-01-01 ERROR all is lost"
NAMES = [CLEARS, BIDI, FORGES, "\x9b31m", "a\ud800b", "tab\there", "\u2028", "\x7f", "zero\u200bwidth", "\U000e0001"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_line_of_letters_that_can_be_encoded(name: str) -> None:
    assert printable(name).isprintable()
    printable(name).encode()


@given(st.text(st.characters(codec=None)), st.integers(3, 40))
def test_any_text(text: str, longest: int) -> None:
    shown = printable(text, longest)
    assert shown.isprintable()
    assert len(shown) <= longest


def test_what_is_polite_stays_and_what_is_not_can_be_told_apart() -> None:
    polite = "Bestellungen-äöü-注文-🛒 [red]x[/red] :smile: $\\frac{"
    assert printable(polite) == polite
    assert printable(CLEARS) == r"\x1b]0;owned\x07\x1b[2J"
    assert printable(FORGES) == r"x\n2026-01-01 ERROR all is lost"
    assert printable("\U000e0001\u202e\r") == r"\U000e0001\u202e\r"
    assert printable("a" * 10 + "b" * 10, 10) == "a" * 6 + "…" + "b" * 3


@pytest.mark.parametrize("is_terminal", [False, True])
def test_tables(is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", "400")
    print_table(("group", "lag"), [(name, 1) for name in (*NAMES, "[red]x[/nothing]", ":smile:", "y" * 32_767)])
    out = re.sub(r"\x1b\[[01]m", "", capsys.readouterr().out)  # bold, for the head
    assert all(line.isprintable() for line in out.split("\n"))
    assert all(name in out for name in ("[red]x[/nothing]", ":smile:", r"\x1b[2J", r"\u202egnp.exe"))
    lengths = sorted(map(len, out.split("\n")))
    assert lengths[-1] <= 400, "a very long name is cut"
    assert is_terminal or lengths[-2] < 100, "and widens no line but its own"


def test_a_zookeeper_group(capsys: pytest.CaptureFixture[str]) -> None:
    print_words(ZooKeeperGroupView(FORGES, [], [], [], {}))
    assert capsys.readouterr().out.startswith(r"group x\n2026-01-01 ERROR all is lost: 0 members")


@pytest.mark.parametrize(("name", "not_there"), [(CLEARS, 1), (FORGES, 1), ("no\udcffutf8", 2), ("[/red]", 1)])
def test_topics_that_nobody_can_have(command: Command, broker: Any, name: str, not_there: int) -> None:
    for asked, status in (("create", 2), ("describe", 2), ("delete", not_there)):
        ended = command("topics", asked, name, "--bootstrap-servers", broker.bootstrap_servers)
        assert (ended.status, ended.out) == (status, "")
        assert ended.err.startswith("equipoise: ")
        assert ended.err.count("\n") == 1
        assert ended.err.rstrip("\n").isprintable()


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        edge.fail(EquipoiseError(f"it ended: {CLEARS}\n\n\tand more\n"))
    assert end.value.code == 2
    assert capsys.readouterr().err == "equipoise: it ended: \\x1b]0;owned\\x07\\x1b[2J\\n\\n\\tand more\n"


def test_what_a_broker_says() -> None:
    assert str(error_from(87, FORGES)) == r"x\n2026-01-01 ERROR all is lost (INVALID_RECORD)"


def test_lines_of_the_log() -> None:
    """One to a record; a bug's traceback, which we have made ourselves, keeps its lines."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(edge.LogLines("%(levelname)s %(message)s"))
    log = logging.Logger("test")
    log.addHandler(handler)
    log.warning("%s left", FORGES)
    assert said.getvalue() == "WARNING x\\n2026-01-01 ERROR all is lost left\n"
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("a bug")
    assert "Traceback" in said.getvalue().splitlines()[2]


def test_the_broker_logs_a_stranger_on_one_line() -> None:
    """Bytes that are not Kafka's protocol, from a real socket to a real process."""
    command = [sys.executable, "-m", "equipoise", "serve", "--memory", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().decode().split()[-1].split(":")
        with socket.create_connection((host, int(port))) as stranger:
            stranger.sendall(b"\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04a\n\x1b[\x00" + b"\x05\n\x1b[2J")
            assert stranger.recv(1) == b""
        process.terminate()
        _, err = process.communicate(timeout=30)
    lines = err.decode().splitlines()
    assert len(lines) == 1
    assert "connection closed" in lines[0]
    assert lines[0].isprintable()


def test_a_terminal_without_utf_8() -> None:
    """An arrow or a name in other letters must not end the command."""
    code = "from equipoise.console.edge import at_a_terminal\nwith at_a_terminal(): print('a → 注')"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONIOENCODING": "ascii"}, capture_output=True, check=True
    )
    assert ended.stdout == b"a \\u2192 \\u6ce8\n"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_no_command_about_groups_lets_a_name_through(
    command: Command, broker: Any, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """A group, a client, a commit and a reason to leave, all with the worst of names."""
    evil = "".join(NAMES).replace("\ud800", "")
    at = "-b", broker.bootstrap_servers
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 1)
        admin.commit_offsets(evil, {TopicPartition("orders", 0): OffsetAndMetadata(0, evil)})
    settings = {"bootstrap_servers": broker.bootstrap_servers, "group_id": evil, "client_id": evil}
    with Consumer(**settings) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.05)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
        asked = [["list"], ["describe", evil], ["members", evil, "--verbose"], ["offsets", evil], ["history", evil]]
        asked += [["lag", evil, "--by", by] for by in ("partition", "topic", "member")]
        asked += [["explain", evil], ["check", evil, "--stable-for", "1h"], ["reset", evil, "--to", "0", "--dry-run"]]
        asked += [["reset", evil, "--to", "0", "--yes"], ["delete", evil, "--yes"], ["offsets", evil, "--export"]]
        asked += [
            ["explain", evil, evil],
            ["remove-member", evil, consumer.member_id, "--reason", evil],
            ["members", f"no{evil}"],
        ]
        for arguments in asked:
            ended = command("groups", *arguments, *at)
            assert ended.status in (0, 1, 2), ended.err
            shown = re.sub(r"\x1b\[[0-9;]*m", "", ended.out + ended.err)  # colours of ours
            assert all(line.isprintable() for line in shown.split("\n")), (arguments, shown)
            assert ended.out + ended.err or arguments[0] == "check"
