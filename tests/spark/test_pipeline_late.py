"""A Python process of Spark that is not ready within 10 s: `equipoise run` starts the query again, a few times."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from equipoise.spark.pipeline import runner
from equipoise.spark.pipeline.errors import PipelineError
from equipoise.spark.pipeline.runner import Run

LATE = Exception("org.apache.spark.SparkException: Python worker failed to connect back.")


class Query:
    """One that has failed, or runs."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure
        self.recentProgress: list[object] = []

    def exception(self) -> Exception | None:
        return self._failure


def running(*failures: Exception | None) -> tuple[Any, io.StringIO]:
    """A run whose queries fail in this order; the first one has begun."""
    said = io.StringIO()
    plan = SimpleNamespace(pipeline=SimpleNamespace(name="p"), members=1)
    one = runner._Running(cast(Run, plan), Console(file=said), threading.Event())
    queries = iter([Query(failure) for failure in failures])
    one.start = lambda spark, number: next(queries)  # type: ignore[method-assign]
    one.queries = [one.start(None, 0)]
    return one, said


def test_it_is_started_again_and_that_is_said() -> None:
    one, said = running(LATE, None)
    assert one.look(None)
    assert not one.look(None)
    assert said.getvalue().count("was not ready by then; once more") == 1


def test_after_some_times_it_is_an_error() -> None:
    one, said = running(*[LATE] * 10)
    assert all(one.look(None) for _ in range(5))
    with pytest.raises(PipelineError, match="failed to connect back"):
        one.look(None)
    assert said.getvalue().count("once more") == 5


def test_another_failure_is_an_error_at_once() -> None:
    one, said = running(Exception("no such column"))
    with pytest.raises(PipelineError, match="no such column"):
        one.look(None)
    assert said.getvalue() == ""
