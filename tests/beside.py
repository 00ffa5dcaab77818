"""Which test files go to the same worker of pytest-xdist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

# By group, the parameter of a test or a fixture: what it stands for costs more than most of the tests that have it.
_CLUSTER, _SPARK = "kafka-cluster", "spark"
_ASKS = {
    _CLUSTER: re.compile(r"\bkafka_cluster: "),
    _SPARK: re.compile(r"def \w+\([^)]*\b(spark|play): "),
}


class Groups(LoadFileScheduling):  # type: ignore[misc]
    """A worker takes a file; all files of the cluster of Apache Kafka; or all of one Spark session, of which there is
    one for two workers."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._root = config.rootpath
        self._groups: dict[str, str] = {}
        self._sessions = max(1, self.numnodes // 2)
        self._with_spark = 0

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file not in self._groups:
            self._groups[file] = self._group_of(file)
        return self._groups[file]

    def _group_of(self, file: str) -> str:
        asked = asked_by(self._root / file)
        if asked != _SPARK:
            return asked or file
        self._with_spark += 1
        return f"{_SPARK}-{self._with_spark % self._sessions}"


def asked_by(path: Path) -> str:
    """What the tests of a file share with others; nothing if they do not."""
    text = path.read_text(encoding="utf-8")
    return next((name for name, pattern in _ASKS.items() if pattern.search(text)), "")
