"""Which Java Spark is to run on: found, and looked at, before Spark tells of its absence in forty lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from equipoise.spark.pipeline.errors import PipelineError

OLDEST = 17
_REMEDY = "run `make java`, or install a JRE (for instance openjdk-17-jre-headless) and set JAVA_HOME"
_PATIENCE_S = 30.0


def java_home() -> Path:
    """Of JAVA_HOME, on the path, or what tools/java-home has put into this environment; PipelineError if too old."""
    candidates = [Path(os.environ.get("JAVA_HOME") or "/nonexistent"), *_on_path(), Path(sys.prefix, "java")]
    homes = [home for home in candidates if Path(home, "bin", "java").is_file()]
    if not homes:
        raise PipelineError(f"Spark needs Java {OLDEST} or newer and there is none: {_REMEDY}")
    versions = {home: version(home) for home in homes}
    for home, major in versions.items():
        if major >= OLDEST:
            return home
    found = ", ".join(f"{major or 'no Java that starts'} in {home}" for home, major in versions.items())
    raise PipelineError(f"Spark needs Java {OLDEST} or newer and finds only {found}: {_REMEDY}")


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
