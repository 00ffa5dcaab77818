"""A streaming query that begins again if Spark has given it up before it began.

The process of a source has 10 s to connect back to Spark, which cannot be set, and is too little on a busy machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException


class Query:
    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._query = start()

    @property
    def isActive(self) -> bool:
        error = None if self._query.isActive else self._query.exception()
        if error is not None and "failed to connect back" in str(error):
            self._query = self._start()
        return bool(self._query.isActive)

    @property
    def lastProgress(self) -> Any:
        return self._query.lastProgress

    def exception(self) -> Any:
        return self._query.exception()

    def awaitTermination(self) -> None:
        """Raises what the query has ended with."""
        while True:
            try:
                if self._query.awaitTermination(1):
                    return
            except StreamingQueryException:
                if not self.isActive:
                    raise

    def stop(self) -> None:
        self._query.stop()
