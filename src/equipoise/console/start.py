"""The first lines of the command. Ctrl-C while its modules are still loading also ends it without a traceback."""

import gc
import sys

_INTERRUPTED = 130  # as in edge.py, which may not have been read by then


def run() -> None:
    """The entry point of the `equipoise` command."""
    gc.disable()  # imports make no garbage, and the collector would look for it again and again
    try:
        from equipoise.console.main import run as command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    gc.enable()
    command()
