"""The first lines of the command. Ctrl-C while its modules are still loading also ends it without a traceback."""

import sys

from equipoise.garbage import without_collection

_INTERRUPTED = 130  # as in edge.py, which may not have been read by then


def run() -> None:
    """The entry point of the `equipoise` command."""
    try:
        with without_collection():
            from equipoise.console.main import run as command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    command()
