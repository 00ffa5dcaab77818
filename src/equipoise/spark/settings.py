"""Settings of Spark that cut the fixed cost of a micro-batch to a quarter, with their reasons."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ONE_MACHINE = "EQUIPOISE_ONE_MACHINE"  # a variable of Spark's processes: executors run where the driver does
TUNED = {
    # Over TCP every task waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # The default one starts some 15 processes per batch to read links and set modes on a local file system.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # The default one does not know private keys as PEM text, and finds a JAAS entry by chance.
    "spark.redaction.regex": r"(?i)secret|password|passphrase|token|access[.]?key|jaas|\.pem|keystore\.key"
    r"|oauthbearer\.config",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def tuned(builder: Any) -> Any:
    """Adds `TUNED` to the builder of a SparkSession. Sets PYSPARK_PYTHON to this Python, unless it is set.

    Otherwise Spark takes the `python3` of the path, which is another Python if the environment is not activated. If the
    builder has a local master already, it is the script of `python_program`.
    """
    if "PYSPARK_PYTHON" not in os.environ:
        master = getattr(builder, "_options", {}).get("spark.master", "")
        os.environ["PYSPARK_PYTHON"] = _own_program() if master.startswith("local") else sys.executable
    for name, value in TUNED.items():
        builder = builder.config(name, value)
    return builder


@cache
def _own_program() -> str:
    """In a directory that goes with this process."""
    directory = tempfile.mkdtemp(prefix="equipoise-python-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return python_program(Path(directory))


def share_python(scratch: Path, named: str | None, executors_path: str | None = None) -> dict[str, str]:
    """Sets the Python of Spark's processes on a cluster, before its JVM starts. Returns the settings of Spark for it.

    Spark runs a data source under one program name, in the driver and on executors (PySpark would take
    PYSPARK_DRIVER_PYTHON for both). `named` is the executors' Python. If it is not on this machine, for instance in an
    archive that only executors unpack, its name is used without the directory, and each side finds its own on its path.
    """
    if named is None or (os.path.isabs(named) and Path(named).exists()):
        os.environ |= dict.fromkeys(_VARIABLES, named or sys.executable)
        return {}
    directory, name = os.path.split(named)
    python_program(scratch, name, is_one_machine=False)
    os.environ |= dict.fromkeys(_VARIABLES, name)
    os.environ["PATH"] = os.pathsep.join([str(scratch), os.environ.get("PATH", os.defpath)])
    return {"spark.executorEnv.PATH": f"{directory}:{executors_path or _USUAL_PATH}"} if directory else {}


_VARIABLES = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"
_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


def python_program(directory: Path, name: str = "python", *, is_one_machine: bool = True) -> str:
    """This Python as a script in `directory`, for PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON.

    Spark's processes import PySpark from a zip, and each compiles its sources again, for a second of CPU. On a busy
    machine that is longer than Spark waits for them. With this script they find the installed modules first, and do
    not list what the archives hold. `is_one_machine`: executors run here too, and the source may plan for its cores.
    """
    if os.name != "posix":
        return sys.executable
    program = directory / name
    place = f"{ONE_MACHINE}=1" if is_one_machine else ""
    text = _PROGRAM.format(path=shlex.quote(python_path()), python=shlex.quote(sys.executable), place=place)
    program.write_text(text, encoding="utf-8")
    program.chmod(0o700)
    return str(program)


# Python looks for modules such as sitecustomize in every archive on its path, and lists the archive for that. Spark
# names three: in each process that is a fifth of the time until PySpark is imported.
_PROGRAM = """#!/bin/sh
path={path}
IFS=:
for one in $PYTHONPATH; do
    case $one in
        */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip | */jars/spark-core_*.jar) ;;
        *) path=$path:$one ;;
    esac
done
{place} PYTHONPATH=$path exec {python} "$@"
"""


def python_path() -> str:
    """This process's path for modules, so that workers find the same modules as the driver."""
    return os.pathsep.join(dict.fromkeys(path or str(Path.cwd()) for path in sys.path))
