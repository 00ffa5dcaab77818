"""Turns the errors of Spark and Py4J, which fill pages, into one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from equipoise.wire.errors import EquipoiseError

_OURS = re.compile(r"(?:equipoise\.[\w.]+\.)?(?:UsageError|KafkaError|EquipoiseError|ProtocolError): (.+)")
_PYTHON = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit)): (.+)")
_JAVA = re.compile(r"(?:Caused by: )?(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error)): (.+)")
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] ?")
_STATE = re.compile(r"\s*SQLSTATE: \w+\.?")
_WHERE = re.compile(r";? ?\(?line (\d+),? pos (\d+)\)?;?")
_FRAMES = re.compile(r"^\s+(?:at |File |\.\.\. \d+ more)|^Traceback ")
_NO_FORMAT = re.compile(r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: ([^\s]+?)\. ")
_LONGEST = 600
_JVM_GONE = (
    "Spark's JVM has ended, as if it had been killed or had no memory left: --log FILE keeps what it says, "
    "spark.driver.memory gives it more"
)


class PipelineError(EquipoiseError):
    """A pipeline cannot be started, or has failed. The message is one sentence."""


class Stopped(EquipoiseError):
    """The run was stopped before its Spark session was ready."""


def explain(error: BaseException) -> PipelineError:
    """The error as one sentence. A message of our own code, wherever Spark wrapped it, is returned as it is."""
    if type(error).__name__ == "Py4JNetworkError" or isinstance(error, ConnectionError):
        return PipelineError(_JVM_GONE)
    try:
        text = _text(error)
    except Exception:  # noqa: BLE001  Py4J asks the JVM for the words of its exceptions
        return PipelineError(_JVM_GONE)
    told = _of_ours(text) or _of_python(text) or _of_format(text) or _of_sql(error, text) or _of_spark(text)
    return PipelineError(told)


@contextmanager
def explained() -> Iterator[None]:
    """A block of calls to Spark: whatever they raise becomes a PipelineError."""
    try:
        yield
    except EquipoiseError:
        raise
    except Exception as error:  # noqa: BLE001 Spark, Py4J and the JVM each have their own
        raise explain(error) from None


def _text(error: BaseException) -> str:
    """The message without the wrapping. PySpark keeps the JVM's message in a field, Py4J appends it to its own."""
    for name in ("desc", "_desc", "_message"):
        told = getattr(error, name, None)
        if isinstance(told, str) and told:
            return told
    return str(error)


def _of_ours(text: str) -> str | None:
    said = [found.group(1) for line in text.splitlines() if (found := _OURS.fullmatch(line.strip()))]
    return _sentence(said[-1]) if said else None


def _of_python(text: str) -> str | None:
    """The last line of the last traceback: a user's function has failed, in the driver or in a worker."""
    if "Traceback (most recent call last)" not in text:
        return None
    said = [found.groups() for line in text.splitlines() if (found := _PYTHON.fullmatch(line.strip()))]
    return _sentence(f"{said[-1][0]}: {said[-1][1]}") if said else None


def _of_format(text: str) -> str | None:
    """The format that Spark did not find. Java's message has the class that it tried last: `parket.DefaultSource`."""
    found = _NO_FORMAT.search(text)
    if found is None:
        return None
    return f"Spark has no format {found.group(1)!r}: check its name, or bring it, as by spark.jars.packages"


def _of_sql(error: BaseException, text: str) -> str | None:
    if type(error).__name__ not in ("AnalysisException", "ParseException"):
        return None
    where = _WHERE.search(text)
    told = _sentence(_first(text))
    return f"SQL, line {where.group(1)}, character {int(where.group(2)) + 1}: {told}" if where else f"SQL: {told}"


def _of_spark(text: str) -> str:
    """The innermost cause if Java names one, else the first line with words."""
    causes = [found.groups() for line in text.splitlines() if (found := _JAVA.match(line.strip()))]
    if causes:
        return _sentence(f"{causes[-1][1]} ({causes[-1][0]})")
    return _sentence(_first(text))


def _first(text: str) -> str:
    return next(_telling(text), "Spark failed without a word")


def _telling(text: str) -> Iterator[str]:
    for line in text.splitlines():
        told = line.strip()
        if told and not told.startswith(("== ", "'", "+-", "JVM stacktrace")) and not _FRAMES.match(line):
            yield told


def _sentence(text: str) -> str:
    """The sentence without error classes and SQL states."""
    text = _WHERE.sub("", _STATE.sub("", _CONDITION.sub("", text)))
    text = re.sub(r"\s+", " ", text).strip().rstrip(".;")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
