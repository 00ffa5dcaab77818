"""Files of --command-config: Java's properties syntax, and secrets in them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from equipoise.client.security.properties import as_spark_options, parse_properties, read_settings
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

SECRET = "s3kr1t"


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("  a = b ", "a", "b "),
        ("a:b", "a", "b"),
        ("a b", "a", "b"),
        ("a\t=\tb=c:d", "a", "b=c:d"),
        ("a", "a", ""),
        ("a=", "a", ""),
        (r"a\=b=c", "a=b", "c"),
        (r"a=C\:\\x\ty", "a", "C:\\x\ty"),
        (r"a=\u00e9\q", "a", "éq"),
        ("a=b \\\n   c \\\n d", "a", "b c d"),
        ("a=b\\\\\n#c", "a", "b\\"),
        ("a=b \\", "a", "b "),
    ],
)
def test_a_line(line: str, name: str, value: str) -> None:
    assert parse_properties(line) == {name: value}


def test_comments_and_empty_lines() -> None:
    assert parse_properties("# one\n\n! two\n  # three\na=#b\n\nc=d\r\nc=e") == {"a": "#b", "c": "e"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.touch(0o600)
    return path


def test_secrets_come_as_secrets(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_text(f"sasl.password={SECRET}\nssl.keystore.key={SECRET}\nsasl.mechanism=PLAIN\n")
    with caplog.at_level(logging.WARNING):
        settings = read_settings(file)
    assert not caplog.records
    assert settings == {"sasl.password": Secret(SECRET), "ssl.keystore.key": Secret(SECRET), "sasl.mechanism": "PLAIN"}
    assert as_spark_options(settings)["kafka.sasl.password"] == SECRET


def test_a_file_for_all_to_read_is_warned_about(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.chmod(0o644)
    file.write_text("sasl.mechanism=PLAIN")
    with caplog.at_level(logging.WARNING):
        read_settings(file)
        assert not caplog.records
        file.write_text(f"sasl.password={SECRET}")
        read_settings(file)
    assert "every user of this machine can read its secrets: chmod 600" in caplog.text


def test_the_password_from_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIPOISE_SASL_PASSWORD", SECRET)
    file.write_text("sasl.username=alice")
    assert read_settings(file)["sasl.password"] == Secret(SECRET)
    file.write_text("sasl.password=other")
    assert read_settings(file)["sasl.password"] == Secret("other")
    file.write_text("sasl.jaas.config=x")
    assert "sasl.password" not in read_settings(file)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--command-config .*/none: No such file"):
        read_settings(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        read_settings(tmp_path / "binary")
