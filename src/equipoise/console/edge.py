"""Where the command meets a terminal: errors, signals, streams, log lines. No output moves the cursor."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, TextIO, TypeVar

import click

from equipoise.client.net.errors import KafkaConnectionError
from equipoise.wire.errors import EquipoiseError, ErrorCode, KafkaError, UsageError
from equipoise.wire.text import printable

# Statuses: the answer is no; wrong use; the cluster is away; 128 and the signal's number, as a shell has them.
REFUSED, FAILED, UNREACHABLE, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143
_EXTRAS = {
    "confluent_kafka": "demo",
    "htpy": "console",
    "kazoo": "zookeeper",
    "matplotlib": "plots",
    "prometheus_client": "console",
    "pyarrow": "spark",
    "pyspark": "spark",
    "starlette": "console",
    "uvicorn": "console",
}
Answer = TypeVar("Answer")
_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class LogLines(logging.Formatter):
    """A line for each record, whatever names it has. The traceback of a bug keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Escapes what a name from outside could do to the terminal."""
        return printable(super().formatMessage(record))


def log_warnings() -> None:
    """Sends warnings to stderr from now on, unless the application has set up logging already."""
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(LogLines(_LOG_FORMAT))
        root.addHandler(handler)


def run_app(app: click.Group, program: str) -> None:
    """An error of ours, or in the options, is one line on stderr and a status, never a traceback."""
    with at_a_terminal():
        try:
            app(standalone_mode=False)
        except click.exceptions.NoArgsIsHelpError as help_text:
            print(help_text.format_message())
            sys.exit(FAILED)
        except (EquipoiseError, OSError, click.ClickException) as error:
            fail(error, program)
        except ImportError as error:
            fail(missing_package(error), program)
        except (click.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)


def fail(error: Exception, program: str = "equipoise") -> NoReturn:
    """One line on stderr and a status: 1 if the cluster refuses, 3 if it cannot be reached, else 2. With --json the
    same stands on stdout as an object."""
    told = printable(_told(error).strip() or type(error).__name__)
    print(f"{program}:", told, file=sys.stderr)
    if _wants_json():
        code = error.code.name if isinstance(error, KafkaError) else _ERROR_NAMES[_status(error)]
        message, _, advice = told.partition("; ")
        with suppress(OSError):  # stdout may be what has failed
            print(json.dumps({"error": {"code": code, "message": message, "advice": advice or None}}), flush=True)
    sys.exit(_status(error))


_ERROR_NAMES = {FAILED: "USAGE", UNREACHABLE: "UNREACHABLE"}


# Names and values that cannot be, whoever asks.
_WRONG_USE = {
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_PARTITIONS,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
}


def _status(error: Exception) -> int:
    if isinstance(error, KafkaError):
        return FAILED if error.code in _WRONG_USE else REFUSED
    return UNREACHABLE if isinstance(error, KafkaConnectionError | TimeoutError) else FAILED


def _wants_json() -> bool:
    return "--json" in sys.argv[1:]


def missing_package(error: ImportError) -> EquipoiseError:
    """Names the extra to install. A missing module that no extra brings is a bug, and stays an error."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        raise error
    return UsageError(f"this needs {module.replace('_', '-')}: pip install 'equipoise[{_EXTRAS[module]}]'")


def _told(error: Exception) -> str:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and not isinstance(error, EquipoiseError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


@contextmanager
def at_a_terminal() -> Iterator[None]:
    """SIGTERM ends `with` blocks, and with them the processes that a command has started. Streams take any letter."""
    sys.stdout, sys.stderr = _any_letter(sys.stdout), _any_letter(sys.stderr)
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before, hook = signal.signal(signal.SIGTERM, _terminate), sys.unraisablehook
    sys.unraisablehook = _signal_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


def _any_letter(stream: TextIO | None) -> TextIO:
    """A terminal that has no UTF-8 gets `\\u2192` for an arrow, rather than an error. Who closes a stream before the
    command starts (`>&-`) wants none of it."""
    if stream is None:
        return open(os.devnull, "w")
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def _terminate(signum: int, frame: FrameType | None) -> None:
    if _is_in_hook(frame):  # an exception would be dropped there
        _signal_soon(signum)
    else:
        sys.exit(TERMINATED)


def run_loop(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Runs it on a loop of its own. SIGTERM cancels it, as Ctrl-C does. An exception from a handler would stop the loop
    in the middle of its work, and Python would print the traceback of a task that nobody waits for."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        return asyncio.run(_until_terminated(main))
    except asyncio.CancelledError:
        sys.exit(TERMINATED)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # a loop that is closed leaves the system's


async def _until_terminated(main: Coroutine[Any, Any, Answer]) -> Answer:
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await main


# -- signals that Python loses


_AGAIN_S = 0.01
_SIGNALS: dict[type[BaseException], int] = {SystemExit: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}


def _signal_again(lost: sys.UnraisableHookArgs) -> None:
    """A signal may come while Python runs a callback of a weak reference or a `__del__`. Python drops the exception
    that ends the command, and the command would go on. The signal is therefore sent again, a moment later."""
    if lost.exc_type in _SIGNALS and threading.current_thread() is threading.main_thread():
        _signal_soon(_SIGNALS[lost.exc_type])
    else:
        sys.__unraisablehook__(lost)


def _signal_soon(signum: int) -> None:
    main = threading.main_thread().ident
    assert main is not None
    again = threading.Timer(_AGAIN_S, _signal, (main, signum))
    again.daemon = True
    again.start()


def _signal(main: int, signum: int) -> None:
    while _is_in_hook(sys._current_frames().get(main)):  # on a busy machine
        time.sleep(_AGAIN_S)
    signal.pthread_kill(main, signum)


def _is_in_hook(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not _signal_again.__code__:
        frame = frame.f_back
    return frame is not None
