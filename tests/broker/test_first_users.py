"""Users that a broker has from its first start on: `--add-scram`, in kafka-storage's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.broker.first_users import parse_first_users
from equipoise.client import Admin
from equipoise.wire.errors import UsageError
from tests.crash.served import run_serve
from tests.crash.warm import WarmBroker


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SCRAM-SHA-256=[name=admin,password=a=b]", ("admin", "SCRAM-SHA-256", "a=b", 4096)),
        ("SCRAM-SHA-512=[iterations=8192,name=u,password=p]", ("u", "SCRAM-SHA-512", "p", 8192)),
        ('SCRAM-SHA-256=[name="a,b",password="c,d]"]', ("a,b", "SCRAM-SHA-256", "c,d]", 4096)),
    ],
)
def test_what_is_understood(text: str, found: tuple[object, ...]) -> None:
    (user,) = parse_first_users([text])
    assert (user.name, user.mechanism.mechanism_name, user.password.reveal(), user.iterations) == found
    assert "p" not in repr(user.password)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("admin:very-secret", "write SCRAM-SHA-256="),
        ("PLAIN=[name=admin,password=very-secret]", "write SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=admin]", "name and password are needed"),
        ("SCRAM-SHA-256=[name=,password=very-secret]", "name and password are needed"),
        ("SCRAM-SHA-256=[name=a,password=very-secret,salt=x]", "name and password are needed"),
        ("SCRAM-SHA-256=[name=a,password=very-secret,iterations=1]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=very-secret,iterations=many]", "from 4096 to 16384"),
    ],
)
def test_what_is_refused_and_never_quoted(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        parse_first_users([text])
    assert "very-secret" not in str(refused.value)


def test_a_file_of_them(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# first\nSCRAM-SHA-256=[name=a,password=p]\n\nSCRAM-SHA-512=[name=b,password=p]\n")
    assert [user.name for user in parse_first_users([f"@{file}"])] == ["a", "b"]


def test_they_are_there_at_the_first_start_and_a_later_password_stays(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("SCRAM-SHA-256=[name=admin,password=first]\n")
    broker = WarmBroker(tmp_path / "data", tmp_path / "log", arguments=["--add-scram", f"@{file}"])
    with broker, Admin(broker.address) as admin:
        assert admin.users() == [("admin", {"SCRAM-SHA-256": 4096})]
        admin.set_password("admin", "second", iterations=5000)
    with broker, Admin(broker.address) as admin:
        assert admin.users() == [("admin", {"SCRAM-SHA-256": 5000})]


def test_a_mistake_is_one_line_without_the_password() -> None:
    status, err = run_serve("--memory", "--add-scram", "SCRAM-SHA-256=[name=a,password=very-secret,iterations=1]")
    assert (status, err.count("\n")) == (2, 1)
    assert "iterations must be from 4096" in err
    assert "very-secret" not in err
