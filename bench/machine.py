"""What the benches ask of the machine, and the bar they show."""

from __future__ import annotations

import compileall
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import equipoise
from equipoise.wire.errors import UsageError

_SPARE_FILES = 200
_PACKAGES = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python"}  # where the module has another name
Advance = Callable[[], None]


def check_machine(bench: str, *packages: str) -> None:
    """That processes can be measured here, and that the peers are installed."""
    if sys.platform != "linux":
        raise UsageError(f"{bench} reads CPU and memory of processes as Linux tells them: run it there")
    check_packages(bench, "confluent_kafka", *packages)


def check_packages(bench: str, *packages: str) -> None:
    for name in packages:
        try:
            import_module(name)
        except ImportError:
            raise UsageError(f"{bench} needs {_PACKAGES.get(name, name)}: `make setup` installs it") from None


def allow_connections(bench: str, connections: int) -> None:
    """For this process, and by inheritance for the brokers."""
    import resource

    files = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise UsageError(f"{bench} opens {files} connections, the limit is {hard}: ulimit -n {files}")
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def compile_package() -> None:
    """As an install is compiled. In a checkout a start would compile what was edited since the last one; with
    PYTHONDONTWRITEBYTECODE every start would."""
    compileall.compile_dir(Path(equipoise.__file__).parent, quiet=2)


@contextmanager
def progress(steps: int) -> Iterator[Advance]:
    """A bar on the terminal, apart from the result; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("measuring", total=steps)
        yield lambda: bar.advance(task)
