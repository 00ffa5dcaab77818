"""What is fetched from Maven Central, with `mvn` and the poms beside this file: kept in a cache, outside the project.

python -m proving.fetched        fetches all of it, and says what cannot be had
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from equipoise.wire.errors import EquipoiseError

POMS = Path(__file__).parent / "poms"
_MINUTES = 10
_ENOUGH_LINES = 3


class Unavailable(EquipoiseError):
    """A part of the proving ground that cannot be had on this machine. The message says what to do."""


def cache() -> Path:
    if directory := os.environ.get("EQUIPOISE_CACHE"):
        return Path(directory)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equipoise"


def jars(name: str) -> Path:
    """The directory with the jars of a pom, fetched now if they are not there. Another pom, another directory."""
    pom = POMS / f"{name}.xml"
    return made_once(f"jars/{name}", pom.read_bytes(), lambda directory: _run_maven(pom, directory))


def made_once(name: str, made_from: bytes, make: Callable[[Path], None]) -> Path:
    """The directory of the cache that `make` fills the first time; made from anything else, it is another one.

    All or nothing: who comes second finds the whole directory, or none.
    """
    target = cache() / f"{name}-{hashlib.sha256(made_from).hexdigest()[:12]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as scratch:
        make(Path(scratch, "made"))
        try:
            Path(scratch, "made").rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    return target


def _run_maven(pom: Path, directory: Path) -> None:
    mvn = find_tool("mvn", "install Maven, for instance the package maven")
    command = [mvn, "--batch-mode", "--quiet", "--update-snapshots", "--file", str(pom), "dependency:copy-dependencies"]
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={directory}", "-Dstyle.color=never"]
    try:
        ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=_MINUTES * 60, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"mvn has not fetched {pom.name} within {_MINUTES} minutes: is Maven Central reachable?"
        ) from None
    if ended.returncode != 0:
        said = [line for line in ended.stdout.splitlines() if "ERROR" in line][:_ENOUGH_LINES]
        raise Unavailable(f"mvn could not fetch {pom.name}: " + " ".join(said))


def find_tool(name: str, remedy: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not on this machine: {remedy}")
    return found


def java(program: str = "java") -> str:
    """`java`, or another program of the JDK: of JAVA_HOME, or else on the path."""
    home = os.environ.get("JAVA_HOME")
    if home and Path(home, "bin", program).is_file():
        return str(Path(home, "bin", program))
    return find_tool(program, "install a JDK 17 or newer, for instance the package default-jdk-headless")


def compiled(source: Path) -> Path:
    """The directory with the classes of a Java program of ours that uses Kafka's jars; compiled once."""
    found = jars("kafka")

    def compile_it(directory: Path) -> None:
        command = [java("javac"), "-cp", f"{found}/*", "-d", str(directory), str(source)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise Unavailable(f"{source.name} could not be compiled: {ended.stderr.strip()}")

    return made_once(f"classes/{source.stem}", source.read_bytes() + found.name.encode(), compile_it)


def main() -> int:
    status = 0
    for pom in sorted(POMS.glob("*.xml")):
        try:
            print(f"{pom.stem}: {len(list(jars(pom.stem).iterdir()))} jars")
        except Unavailable as error:
            print(f"skipped: {pom.stem} ({error})")
            status = 1
    if status == 0:
        from proving.brokers import class_data  # which needs what was fetched

        class_data()
    return status


if __name__ == "__main__":
    sys.exit(main())
