"""Which Java Spark is to run on: found, and looked at, before Spark tells of its absence in forty lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from equipoise.spark.pipeline.errors import PipelineError

OLDEST = 17
_REMEDY = "run `make java`, or install a JRE (for instance openjdk-17-jre-headless) and set JAVA_HOME"
_PATIENCE_S = 30.0


def java_home(tell: Callable[[str], None] = lambda line: None) -> Path:
    """Of JAVA_HOME, on the path, or what tools/java-home has put into this environment; PipelineError if too old.

    `tell`: of a JAVA_HOME that is set, and passed over.
    """
    named = os.environ.get("JAVA_HOME")
    candidates = [*([Path(named)] if named else []), *_on_path(), Path(sys.prefix, "java")]
    homes = [home for home in candidates if Path(home, "bin", "java").is_file()]
    if not homes:
        raise PipelineError(f"Spark needs Java {OLDEST} or newer and there is none: {_REMEDY}")
    versions: dict[Path, int] = {}
    for home in homes:
        versions[home] = version(home)
        if versions[home] >= OLDEST:
            if named and home != Path(named):
                tell(f"warning: JAVA_HOME is {named}, which has {_found(versions.get(Path(named)))}: using {home}")
            return home
    found = ", ".join(f"{major or 'no Java that starts'} in {home}" for home, major in versions.items())
    raise PipelineError(f"Spark needs Java {OLDEST} or newer and finds only {found}: {_REMEDY}")


def _found(major: int | None) -> str:
    if major is None:
        return "no bin/java"
    return f"Java {major}, where Spark needs {OLDEST} or newer" if major else "no Java that starts"


def _on_path() -> list[Path]:
    found = shutil.which("java")
    return [Path(found).resolve().parent.parent] if found else []


def version(home: Path) -> int:
    """The number of the release, 8 for what calls itself 1.8; 0 if it does not start."""
    try:
        ended = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', ended.stderr)
    return int(found.group(1)) if found and ended.returncode == 0 else 0
