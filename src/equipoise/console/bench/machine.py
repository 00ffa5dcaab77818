"""What both benches ask of the machine, and the bar they show."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equipoise.wire.errors import UsageError

Advance = Callable[[], None]


def check_machine(command: str) -> None:
    if sys.platform != "linux":
        raise UsageError(f"equipoise {command} reads CPU and memory of processes as Linux tells them: run it there")
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise UsageError(f"equipoise {command} needs confluent-kafka: pip install 'equipoise[demo]'") from None


@contextmanager
def progress(steps: int) -> Iterator[Advance]:
    """A bar on the terminal, apart from the result; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("measuring", total=steps)
        yield lambda: bar.advance(task)
