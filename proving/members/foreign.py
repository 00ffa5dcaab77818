"""Members that are not Python: what they are made of is fetched and built once, into the cache.

python -m proving.members.foreign        fetches what needs no Apache Kafka, and says what cannot be had
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from proving.brokers import QUICK_JVM, class_data
from proving.fetched import Unavailable, compiled, find_tool, jars, java, made_once
from proving.members.hosts import Host, JsonHost

_HERE = Path(__file__).parent
_MINUTES = 10


# -- Node.js


def node_modules() -> Path:
    """KafkaJS and its codecs, in the versions of the lock file. Nothing in them is compiled on installation."""
    packages, lock = _HERE / "kafkajs" / "package.json", _HERE / "kafkajs" / "package-lock.json"

    def install(directory: Path) -> None:
        npm = find_tool("npm", "install Node.js and npm, for instance with tools/foreign-clients")
        directory.mkdir()
        for file in (packages, lock):
            shutil.copy(file, directory)
        _run([npm, "ci", "--loglevel=error"], directory)

    return made_once("kafkajs", lock.read_bytes(), install) / "node_modules"


def node() -> str:
    return find_tool("node", "install Node.js, for instance with tools/foreign-clients")


def kafkajs_host(_: str, bootstrap_servers: str, log: Path) -> Host:
    command = [node(), str(_HERE / "kafkajs" / "member.js"), bootstrap_servers]
    return JsonHost(command, log, {"NODE_PATH": str(node_modules())})


# -- Java


def java_host(_: str, bootstrap_servers: str, log: Path) -> Host:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    path = f"{jars('kafka')}/*:{compiled(_HERE / 'java' / 'Member.java')}"
    return JsonHost([java(), *QUICK_JVM, *class_data(), quiet, "-cp", path, "Member", bootstrap_servers], log)


# -- Go


def go_programs() -> Path:
    """The directory with `member`, of franz-go, and `kfake`."""
    return _built("franz-go", _HERE.parent / "franz_go")


def kafka_go_programs() -> Path:
    """The directory with `reader`, of kafka-go."""
    return _built("kafka-go", _HERE.parent / "kafka_go")


def sarama_programs() -> Path:
    """The directory with `member`, of sarama."""
    return _built("sarama", _HERE.parent / "sarama")


def _built(name: str, sources: Path) -> Path:
    files = sorted(path for path in sources.rglob("*") if path.is_file())

    def build(directory: Path) -> None:
        go = find_tool("go", "install Go, for instance the package golang")
        directory.mkdir()
        _run([go, "build", "-o", f"{directory}/", "./..."], sources)

    return made_once(name, b"".join(path.read_bytes() for path in files), build)


def franz_go_host(_: str, bootstrap_servers: str, log: Path) -> Host:
    return JsonHost([str(go_programs() / "member"), bootstrap_servers], log)


def sarama_host(_: str, bootstrap_servers: str, log: Path) -> Host:
    return JsonHost([str(sarama_programs() / "member"), bootstrap_servers], log)


def _run(command: Sequence[str], directory: Path) -> None:
    try:
        ended = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=_MINUTES * 60, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(
            f"{' '.join(command)} was not done within {_MINUTES} minutes: is the network there?"
        ) from None
    if ended.returncode != 0:
        said = (ended.stdout + ended.stderr).strip().splitlines() or ["it says nothing"]
        raise Unavailable(f"{' '.join(command)} has failed: {said[-1]}")


_PARTS: dict[str, Callable[[], Path]] = {
    "kafkajs": node_modules,
    "franz-go": go_programs,
    "kafka-go": kafka_go_programs,
    "sarama": sarama_programs,
}


def main() -> int:
    for name, part in _PARTS.items():
        try:
            part()
        except Unavailable as error:
            print(f"skipped: {name} ({error})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
