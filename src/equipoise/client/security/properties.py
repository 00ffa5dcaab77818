"""Settings from a file in Java's properties syntax, as Kafka's tools take them by --command-config.

A line is `name=value`, `name:value` or `name value`; # and ! begin a comment; a backslash at the end continues the
line, and elsewhere begins an escape (java.util.Properties.load).
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from equipoise.client.security.settings import is_secret
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

PASSWORD_VARIABLE = "EQUIPOISE_SASL_PASSWORD"
_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
Settings = dict[str, object]  # text, or Secret


def read_settings(path: Path) -> Settings:
    """The settings of a client. Secrets come as `Secret`. UsageError: the file cannot be read."""
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except OSError as error:
        raise UsageError(f"--command-config {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--command-config {path}: this is no text in UTF-8") from None
    settings: Settings = {
        name: Secret(value) if is_secret(name) else value for name, value in parse_properties(text).items()
    }
    if mode & stat.S_IROTH and any(isinstance(value, Secret) for value in settings.values()):
        log.warning("--command-config %s: every user of this machine can read its secrets: chmod 600", path)
    password = os.environ.get(PASSWORD_VARIABLE)
    if password and "sasl.password" not in settings and "sasl.jaas.config" not in settings:
        settings["sasl.password"] = Secret(password)
    return settings


def as_spark_options(settings: Mapping[str, object]) -> dict[str, str]:
    """The settings as options of Spark, where secrets are text."""
    return {
        f"kafka.{name}": value.reveal() if isinstance(value, Secret) else str(value) for name, value in settings.items()
    }


def parse_properties(text: str) -> dict[str, str]:
    """Names and values. The last of two equal names counts."""
    found = {}
    for line in _logical_lines(text):
        parts = _LINE.fullmatch(line)
        assert parts is not None  # it matches any line
        found[_unescaped(parts[1])] = _unescaped(parts[2])
    return found


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    begun = ""
    for line in text.splitlines():
        line = line.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun += line[:-1]
        else:
            lines.append(begun + line)
            begun = ""
    return [*lines, begun] if begun else lines


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    letters = found[1]
    return chr(int(letters[1:], 16)) if len(letters) > 1 else _CONTROL.get(letters, letters)
