"""Settings of Spark that cut the fixed cost of a micro-batch to a quarter, with their reasons."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

TUNED = {
    # Over TCP every task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # The default one starts some 15 processes per batch to read links and set modes on a local file system.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def tuned(builder: Any) -> Any:
    """The builder of a SparkSession, with `TUNED` in it."""
    for name, value in TUNED.items():
        builder = builder.config(name, value)
    return builder


def python_program(directory: Path) -> str:
    """For PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON on one machine: this Python, as a script in `directory`.

    Spark has its processes import PySpark from a zip, whose sources each of them compiles anew, for a second of CPU:
    on a busy machine that is longer than Spark waits for them. With this one they find the installed modules first.
    """
    if os.name != "posix":
        return sys.executable
    program = directory / "python"
    path, python = shlex.quote(python_path()), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH={path}:$PYTHONPATH exec {python} "$@"\n', encoding="utf-8")
    program.chmod(0o700)
    return str(program)


def python_path() -> str:
    return os.pathsep.join(dict.fromkeys(path or str(Path.cwd()) for path in sys.path))
