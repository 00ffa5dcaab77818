"""`equipoise users` against our broker: no password on the command line, and none printed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.security.sasl.scram import credential, salted_password
from tests.commands import Command, Ended, check_line
from tests.console.schemas import all_schemas, check


@pytest.fixture
def users(command: Command, broker: Broker) -> Command:
    def call(*arguments: str) -> Ended:
        return command("users", *arguments, "--bootstrap-servers", broker.bootstrap_servers)

    return call


def assert_password(broker: Broker, password: bytes) -> None:
    found = broker.call(lambda server: server.security.state.credentials("alice", "SCRAM-SHA-256"))
    assert found is not None
    salted = salted_password("SCRAM-SHA-256", password, found.salt, found.iterations)
    assert found == credential("SCRAM-SHA-256", salted, found.salt, found.iterations)


@pytest.fixture
def file(tmp_path: Path) -> str:
    written = tmp_path / "password"
    written.write_text("from a file\nand no more\n")
    return str(written)


def test_a_user_from_its_beginning_to_its_end(users: Command, broker: Broker, file: str) -> None:
    assert users("list").out.startswith("no users on 127.0.0.1:")
    added = users("add", "alice", "--password-file", file, "--iterations", "8192")
    assert (added.out, added.err) == ("user alice can log in by SCRAM-SHA-256\n", "")
    assert_password(broker, b"from a file")
    users("add", "alice", "--password-file", file, "--mechanism", "SCRAM-SHA-512")
    assert users("list").out.splitlines() == [
        "user   mechanism      iterations",
        "alice  SCRAM-SHA-256  8192",
        "alice  SCRAM-SHA-512  4096",
    ]
    removed = users("remove", "alice", "--mechanism", "SCRAM-SHA-512")
    assert removed.out == "user alice can no longer log in by SCRAM-SHA-512\n"
    assert users("remove", "alice").out == "user alice can no longer log in by SCRAM\n"
    assert users("list").out.startswith("no users on ")


def test_json_keeps_to_its_schemas(users: Command, file: str) -> None:
    for arguments, name in (
        (["add", "alice", "--password-file", file], "changes"),
        (["list"], "users"),
        (["remove", "alice"], "changes"),
        (["list"], "users"),
    ):
        ended = users(*arguments, "--json")
        assert ended.status == 0, ended.err
        check(json.loads(ended.out), all_schemas()[name])


def test_a_name_that_is_not_polite_stays_in_its_cell(users: Command, broker: Broker, file: str) -> None:
    hostile = "a\x1b[2J\r\nroot"
    with Admin(broker.bootstrap_servers) as admin:
        admin.set_password(hostile, "secret")
    listed = users("list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["user", r"a\x1b[2J\r\nroot"]
    for said in (users("add", hostile, "--password-file", file), users("remove", hostile)):
        assert (said.status, len(said.out.splitlines())) == (0, 1)
        assert said.out.rstrip("\n").isprintable()


def test_a_password_from_the_environment(users: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIPOISE_USER_PASSWORD", "from there")
    assert users("add", "alice").status == 0
    assert_password(broker, b"from there")


def test_a_password_from_stdin(users: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe\n"))
    assert users("add", "alice", "--password-file", "-").status == 0
    assert_password(broker, b"from a pipe")


def test_a_password_from_a_prompt(users: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("click.prompt", lambda *_, **options: "typed" if options["hide_input"] else "")
    assert users("add", "alice").status == 0
    assert_password(broker, b"typed")


def test_mistakes_are_one_line(users: Command, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    check_line(users("add", "alice"), "give --password-file FILE, or set EQUIPOISE_USER_PASSWORD")
    (tmp_path / "empty").write_text("\n")
    check_line(users("add", "alice", "--password-file", str(tmp_path / "empty")), "the password is empty")
    check_line(users("add", "alice", "--password-file", str(tmp_path / "none")), "No such file")
    check_line(users("add", "alice", "--password-file", file, "--iterations", "1"), "from 4096 to 16384")
    check_line(users("remove", "nobody"), "(RESOURCE_NOT_FOUND)", status=1)
