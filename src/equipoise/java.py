"""Finds a Java for Spark or ZooKeeper, and checks it first: their own error about a missing Java has forty lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from equipoise.wire.errors import EquipoiseError

OLDEST = 17
_INSTALL = "install a JRE (for instance openjdk-17-jre-headless) and set JAVA_HOME"
_BRINGER = Path(__file__).parents[2] / "tools" / "java-home"  # in a checkout; a wheel has no Makefile
_PATIENCE_S = 30.0


class JavaUnavailable(EquipoiseError):
    """There is no suitable Java. The message says what to install."""


def java_home(tell: Callable[[str], None] = lambda line: None, what: str = "Spark") -> Path:
    """Looks in JAVA_HOME, on the path, and where tools/java-home installs. `what` is the program that needs it.

    `tell` gets a warning if JAVA_HOME is set and not usable.
    """
    named = os.environ.get("JAVA_HOME")
    candidates = [*([Path(named)] if named else []), *_on_path(), Path(sys.prefix, "java")]
    homes = [home for home in candidates if Path(home, "bin", "java").is_file()]
    if not homes:
        raise JavaUnavailable(f"{what} needs Java {OLDEST} or newer and there is none: {_remedy()}")
    versions: dict[Path, int] = {}
    for home in homes:
        versions[home] = version(home)
        if versions[home] >= OLDEST:
            if named and home != Path(named):
                why = _found(versions.get(Path(named)), what)
                tell(f"warning: JAVA_HOME is {named}, which has {why}: using {home}")
            return home
    found = ", ".join(f"{major or 'no Java that starts'} in {home}" for home, major in versions.items())
    raise JavaUnavailable(f"{what} needs Java {OLDEST} or newer and finds only {found}: {_remedy()}")


def _remedy() -> str:
    return f"run `make java`, or {_INSTALL}" if _BRINGER.is_file() else _INSTALL


def _found(major: int | None, what: str) -> str:
    if major is None:
        return "no bin/java"
    return f"Java {major}, where {what} needs {OLDEST} or newer" if major else "no Java that starts"


def _on_path() -> list[Path]:
    found = shutil.which("java")
    return [Path(found).resolve().parent.parent] if found else []


@cache  # it takes a tenth of a second and more, and servers are started by the dozen
def version(home: Path) -> int:
    """The number of the release, 8 for 1.8; 0 if it does not start."""
    try:
        ended = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', ended.stderr)
    return int(found.group(1)) if found and ended.returncode == 0 else 0
