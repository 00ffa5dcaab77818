"""What the benches ask of the machine, and the bar they show."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equipoise.wire.errors import UsageError

_SPARE_FILES = 200
Advance = Callable[[], None]


def check_machine(command: str) -> None:
    if sys.platform != "linux":
        raise UsageError(f"equipoise {command} reads CPU and memory of processes as Linux tells them: run it there")
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise UsageError(f"equipoise {command} needs confluent-kafka: pip install 'equipoise[demo]'") from None


def allow_connections(command: str, connections: int) -> None:
    """For this process, and by inheritance for the brokers."""
    import resource

    files = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise UsageError(f"equipoise {command} opens {files} connections, the limit is {hard}: ulimit -n {files}")
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


@contextmanager
def progress(steps: int) -> Iterator[Advance]:
    """A bar on the terminal, apart from the result; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("measuring", total=steps)
        yield lambda: bar.advance(task)
