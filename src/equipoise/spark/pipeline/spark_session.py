"""A Spark session for the command line: finds Java, tunes the settings, and keeps the terminal clean.

Spark's log goes into a file if one is named, else nowhere: its errors also come as exceptions. The output of its Python
processes, with our warnings, goes to `tell`, line by line.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from equipoise.java import java_home
from equipoise.spark.pipeline.errors import PipelineError, Stopped, explained
from equipoise.spark.settings import TUNED, python_path, python_program, share_python

Tell = Callable[[str], None]
_LOG4J = """status = off
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = {level}
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""
_HOST = "127.0.0.1"
# What the JVM says about its own command line, and Python between two tracebacks.
_NOISE = "WARNING: ", "During handling of the above exception", "The above exception was"
_PANDAS = "PySpark does not yet fully support pandas"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SOURCES = "python_streaming_source_runner"
_GATEWAY_S = 10.0
_GLANCE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkApplication:
    """What a session is started with. `log` is the file for Spark's own log. `warms_up`: Spark's Python processes are
    started with the session, in the background."""

    name: str
    master: str
    settings: Mapping[str, str]
    log: Path | None = None
    warms_up: bool = True


@contextmanager
def spark_session(application: SparkApplication, tell: Tell, stopping: threading.Event | None = None) -> Iterator[Any]:
    """The one session of this process; its JVM ends with the block. Stopped: `stopping` was set before it was ready."""
    try:
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession
    except ImportError:
        raise PipelineError("Spark is not installed here: pip install 'equipoise[spark]'") from None
    os.environ["JAVA_HOME"] = str(java_home(tell))
    os.environ.setdefault("PYTHONWARNINGS", f"ignore:{_PANDAS}:FutureWarning")
    warnings.filterwarnings("ignore", _PANDAS, FutureWarning)
    for kind in ("DataFrame", "SQL"):  # these print each error as JSON, with its whole stack
        PySparkLogger.getLogger(f"{kind}QueryContextLogger").disabled = True
    with tempfile.TemporaryDirectory(prefix="equipoise-spark-") as scratch, _without_interrupts():
        master = application.master
        chosen: dict[str, Any] = {"spark.master": master, "spark.app.name": application.name}
        chosen |= _settings(application, Path(scratch)) | _python(application, Path(scratch))
        with _heard(tell), explained():
            session = _started(SparkSession.builder.config(map=chosen), chosen, stopping or threading.Event())
            warming = _prepared(session, application)
        try:
            yield session
        except Exception as error:
            if _was_interrupted(error):
                raise KeyboardInterrupt from None
            raise
        finally:
            with _abandoned(warming):
                _ended(session)


def is_one_machine(master: str) -> bool:
    """Whether executors share this machine's files and Python."""
    return master.startswith("local")


def _python(application: SparkApplication, scratch: Path) -> dict[str, str]:
    """The Python of Spark's processes. On one machine it is this one, with its modules. On a cluster it is the
    configured one, with modules of its own."""
    if is_one_machine(application.master):
        program = python_program(scratch)
        os.environ |= {"PYSPARK_PYTHON": program, "PYSPARK_DRIVER_PYTHON": program, "PYTHONPATH": python_path()}
        return {}
    named = application.settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    return share_python(scratch, named, application.settings.get("spark.executorEnv.PATH"))


def _prepared(session: Any, application: SparkApplication) -> threading.Thread | None:
    """On a cluster our source is registered: one that Spark discovers does not see the modules of
    spark.submit.pyFiles. On one machine Spark's Python processes start in advance, in the thread that is returned."""
    if is_one_machine(application.master):
        from equipoise.spark.warming import warm_up

        return warm_up(session) if application.warms_up else None
    from equipoise.spark.source.data_source import EquipoiseSource

    session.dataSource.register(EquipoiseSource)
    return None


def _settings(application: SparkApplication, scratch: Path) -> dict[str, str]:
    log, given = application.log, application.settings
    configuration = scratch / "log4j2.properties"
    level, file = ("off", scratch / "spark.log") if log is None else ("warn", log.absolute())
    configuration.write_text(_LOG4J.format(level=level, log=file), encoding="utf-8")
    settings = TUNED | {
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        "spark.sql.streaming.numRecentProgressUpdates": "50",
    }
    if is_one_machine(application.master):
        # 200 tasks per shuffle, Spark's default, would be the most of a small batch's time on one machine.
        settings |= {"spark.driver.host": _HOST, "spark.driver.bindAddress": _HOST}
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    options = f"-Dlog4j2.configurationFile={configuration} {given.get(_JAVA_OPTIONS, '')}".strip()
    return settings | dict(given) | {_JAVA_OPTIONS: options}


def _started(builder: Any, settings: Mapping[str, str], stopping: threading.Event) -> Any:
    """Starts the JVM in a thread, which Ctrl-C can abandon: in the main thread PySpark would print a traceback. The
    session is created in the main thread, because Spark keeps the active session by thread."""
    from pyspark import SparkConf, SparkContext

    failures: list[Exception] = []

    def start() -> None:
        try:
            SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
        except Exception as error:  # noqa: BLE001 told, or left alone, below
            failures.append(error)

    thread = threading.Thread(target=start, name="spark-starts", daemon=True)
    thread.start()
    while thread.is_alive() and not stopping.is_set():
        thread.join(_GLANCE_S)
    if stopping.is_set():
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # its thread is about to lose the JVM
        raise Stopped("Spark was told to end before it had started")
    if failures:
        raise failures[0]
    return builder.getOrCreate()


@contextmanager
def _heard(tell: Tell) -> Iterator[None]:
    """A JVM that starts in the block has a pipe for stderr, which is read while it lives; half started, it is ended.

    PySpark does not return the process before it is ready. A JVM that is abandoned earlier would stay for ever.
    """
    module: Any = importlib.import_module("pyspark.java_gateway")
    started: list[subprocess.Popen[bytes]] = []
    is_over = threading.Event()

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = subprocess.Popen(*arguments, **(options | {"stderr": subprocess.PIPE}))
        started.append(process)
        if is_over.is_set():  # by an abandoned thread
            process.kill()
        threading.Thread(target=_read, args=(process.stderr, tell), name="spark-says", daemon=True).start()
        return process

    original, module.Popen = module.Popen, start
    try:
        yield
    except BaseException as error:
        is_over.set()
        for process in started:
            process.kill()
            process.wait()
        if not isinstance(error, Stopped):
            module.Popen = original
        raise
    module.Popen = original


def _read(pipe: IO[bytes], tell: Tell) -> None:
    with pipe:
        for line in without_tracebacks(line.decode(errors="replace") for line in pipe):
            if line.strip() and not line.startswith(_NOISE):
                tell(line.rstrip())


def without_tracebacks(lines: Iterable[str]) -> Iterator[str]:
    """Filters tracebacks out of the processes' output. A failure that matters also arrives as an exception."""
    is_inside = False
    for line in lines:
        if line.startswith("Traceback "):
            is_inside = True
        elif is_inside:
            is_inside = line.startswith((" ", "\n"))  # the line with the exception is the last
        else:
            yield line


# -- the end


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Py4J logs Ctrl-C with its traceback if the main thread waits for the JVM, and what fails when it tells the JVM.
    To end a command is no error."""
    loggers = logging.getLogger(), logging.getLogger("py4j.clientserver")
    for one in loggers:
        one.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not _was_interrupted(record.exc_info[1])


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether it comes of Ctrl-C: after it PySpark asks the JVM once more, over a connection that is half closed."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def _abandoned(warming: threading.Thread | None) -> Iterator[None]:
    """A session may end before its processes are warm, or in the middle of a call. Py4J would log that its connection
    ends."""
    py4j = logging.getLogger("py4j")
    level = py4j.level
    py4j.setLevel(logging.CRITICAL)
    try:
        yield
        if warming is not None:
            warming.join(_GATEWAY_S)
    finally:
        py4j.setLevel(level)


def _ended(session: Any) -> None:
    gateway = session.sparkContext._gateway
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a JVM that has ended already, by the same signal
        session.stop()
    with contextlib.suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()  # which the JVM takes as its end
    try:
        gateway.proc.wait(_GATEWAY_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()


def wait_for_sources(session: Any, seconds: float) -> bool:
    """Waits until the processes of the sources have ended: they leave their groups when a query stops."""
    deadline = time.monotonic() + seconds
    while _has_sources(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _has_sources(session: Any) -> bool:
    process = session.sparkContext._jvm.java.lang.ProcessHandle.current()
    children = process.children().toArray()
    return any(_SOURCES in str(child.info().commandLine().orElse("")) for child in children)
