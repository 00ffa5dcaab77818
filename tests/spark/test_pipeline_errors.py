"""Pages of Spark to a sentence each: texts as Spark 4.3 gives them, shortened in the middle."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from equipoise.java import java_home, version
from equipoise.spark.pipeline.errors import PipelineError, explain, explained
from equipoise.spark.pipeline.runner import _until_told
from equipoise.spark.pipeline.spark_session import _was_interrupted, without_tracebacks
from equipoise.wire.errors import EquipoiseError, UsageError


class AnalysisException(Exception):
    """Told from others by its name, as PySpark's is."""

    def __init__(self, desc: str) -> None:
        super().__init__(desc)
        self.desc = desc


class ParseException(AnalysisException):
    pass


STREAM_FAILED = """[STREAM_FAILED] Query [id = 0a1b, runId = 2c3d] terminated with exception: {what}
=== Streaming Query ===
Identifier: orders-0 [id = 0a1b, runId = 2c3d]
Current Committed Offsets: {{}}
Current State: ACTIVE
JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.runStream(StreamExecution.scala:404)
"""
IN_A_SOURCE = """[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latest:
Traceback (most recent call last):
  File "site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 200, in main
    latest_offset_func(reader, infile, outfile)
  File "equipoise/spark/source/offset_reader.py", line 90, in check_topics
    raise UsageError(
equipoise.wire.errors.UsageError: topic 'orders' does not exist at 127.0.0.1:9092: create it, or check its name
 SQLSTATE: 38000"""
IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task 0.0
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "shop/orders.py", line 12, in cents
    return 100 // amount
           ~~~~^^~~~~~~
ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""
IN_JAVA = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2935)
Caused by: org.apache.spark.SparkException: Task failed while writing rows to file:/out.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:803)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""


NO_FORMAT = """An error occurred while calling o51.start.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: parket. Make \
sure the provider name is correct and the package is properly registered. SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:770)
Caused by: java.lang.ClassNotFoundException: parket.DefaultSource
\tat java.base/java.net.URLClassLoader.findClass(URLClassLoader.java:445)
"""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            AnalysisException(
                "[TABLE_OR_VIEW_NOT_FOUND] The table or view `sorce` cannot be found. Verify the spelling.\n"
                "To tolerate the error on drop use DROP VIEW IF EXISTS. SQLSTATE: 42P01; line 2 pos 14;\n"
                "'Project [*]\n+- 'UnresolvedRelation [sorce], [], false\n"
            ),
            "SQL, line 2, character 15: The table or view `sorce` cannot be found. Verify the spelling",
        ),
        (
            ParseException(
                "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'. SQLSTATE: 42601 (line 1, pos 0)\n\n"
                "== SQL ==\nselct * from source\n^^^\n"
            ),
            "SQL, line 1, character 1: Syntax error at or near 'selct'",
        ),
        (
            AnalysisException(
                "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `valeu` cannot be resolved. SQLSTATE: 42703;\n'Project"
            ),
            "SQL: A column `valeu` cannot be resolved",
        ),
        (
            RuntimeError(STREAM_FAILED.format(what=IN_A_SOURCE)),
            "topic 'orders' does not exist at 127.0.0.1:9092: create it, or check its name",
        ),
        (RuntimeError(STREAM_FAILED.format(what=IN_A_TASK)), "ZeroDivisionError: integer division or modulo by zero"),
        (RuntimeError(STREAM_FAILED.format(what=IN_JAVA)), "No space left on device (IOException)"),
        (
            RuntimeError(NO_FORMAT),
            "Spark has no format 'parket': check its name, or bring it, as by spark.jars.packages",
        ),
        (RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited."), "Java gateway process exited"),
        (RuntimeError(""), "Spark failed without a word"),
    ],
)
def test_one_sentence(error: Exception, sentence: str) -> None:
    assert str(explain(error)) == sentence


def test_a_jvm_that_is_gone() -> None:
    """Py4J says that it has an error in sending or receiving, or that nobody listens, or cannot say what it has."""

    class Speechless(Exception):
        """As a Py4JJavaError, which asks the JVM for its words."""

        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "refused")

    assert str(explain(Speechless())).startswith("Spark's JVM has ended")
    for error in (
        Py4JNetworkError("Error while sending or receiving"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        assert str(explain(error)).startswith("Spark's JVM has ended, as if it had been killed or had no memory left: ")


def test_what_fails_because_all_are_told_to_end_is_no_error() -> None:
    """`timeout` and systemd send SIGTERM to the JVM too, which may be gone before the signal is seen here."""
    stopping = threading.Event()
    with pytest.raises(PipelineError, match="JVM has ended"), _until_told(stopping):
        raise ConnectionRefusedError
    threading.Timer(0.1, stopping.set).start()
    with _until_told(stopping):
        raise ConnectionRefusedError
    with pytest.raises(UsageError), _until_told(stopping):
        raise UsageError("a mistake stays one")


def test_a_long_one_is_cut() -> None:
    assert len(str(explain(RuntimeError("x" * 5000)))) < 650


def test_what_we_say_ourselves_is_left_alone() -> None:
    with pytest.raises(UsageError, match="as it is"), explained():
        raise UsageError("as it is")
    with pytest.raises(EquipoiseError, match="spoilt"), explained():
        raise RuntimeError("[COND] spoilt")


def test_tracebacks_of_processes_that_are_stopped_are_left_out() -> None:
    said = 'one\nTraceback (most recent call last):\n  File "a.py", line 1\n    x\nBrokenPipeError: [Errno 32]\ntwo\n'
    assert list(without_tracebacks(said.splitlines(keepends=True))) == ["one\n", "two\n"]


def half_closed() -> None:
    raise Py4JNetworkError("Answer from Java side is empty")


def interrupted() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        half_closed()


@pytest.mark.parametrize("call", [half_closed, interrupted])
def test_what_fails_because_of_ctrl_c_is_ctrl_c(call: Callable[[], None]) -> None:
    """PySpark asks the JVM once more, over a connection that is half closed."""
    with pytest.raises(PipelineError) as caught, explained():
        call()
    assert _was_interrupted(caught.value) == (call is interrupted)


# -- Java


def fake_java(home: Path, says: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, but for what the test puts into JAVA_HOME."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "empty"))
    return tmp_path / "java"


def test_java_that_will_do(bare: Path) -> None:
    fake_java(bare, 'openjdk version "21.0.8" 2025-07-15')
    assert java_home() == bare


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ('openjdk version "11.0.2"', "Java 11, where Spark needs 17 or newer"),
        ("no such thing", "no Java that starts"),
        (None, "no bin/java"),
    ],
)
def test_a_java_home_that_is_passed_over_is_told(
    bare: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, found: str
) -> None:
    told: list[str] = []
    if says is not None:
        fake_java(bare, says)
    good = bare.parent / "good"
    fake_java(good, 'openjdk version "21.0.8" 2025-07-15')
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert java_home(told.append) == good
    assert told == [f"warning: JAVA_HOME is {bare}, which has {found}: using {good}"]
    monkeypatch.setenv("JAVA_HOME", str(good))
    java_home(told.append)
    monkeypatch.delenv("JAVA_HOME")
    java_home(told.append)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("says", "found"), [('java version "1.8.0_392"', "8"), ("no such thing", "no Java that starts")]
)
def test_java_that_is_too_old(bare: Path, says: str, found: str) -> None:
    fake_java(bare, says)
    with pytest.raises(EquipoiseError) as caught:
        java_home()
    assert f"Spark needs Java 17 or newer and finds only {found} in {bare}: run `make java`" in str(caught.value)


def test_who_has_no_checkout_is_not_sent_to_its_makefile(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.java._BRINGER", bare / "nowhere")
    with pytest.raises(EquipoiseError) as caught:
        java_home()
    assert str(caught.value) == (
        "Spark needs Java 17 or newer and there is none: install a JRE (for instance openjdk-17-jre-headless) and set "
        "JAVA_HOME"
    )


def test_no_java(bare: Path) -> None:
    with pytest.raises(EquipoiseError, match="Spark needs Java 17 or newer and there is none"):
        java_home()
    assert version(bare) == 0
