"""A figure of a bench, with its unit and aim; what is said of the machine; how numbers are written."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

MORE_IS_BETTER = frozenset({"MB/s", "1/s", "/min", "times"})  # of all other units less is
VERDICTS = {None: "", True: "met", False: "MISSED"}


class Figure(NamedTuple):
    """A row of the table."""

    key: str
    title: str
    unit: str
    aim: float | None = None

    @property
    def more_is_better(self) -> bool:
        return self.unit in MORE_IS_BETTER

    def best(self, values: Sequence[float]) -> float:
        return max(values) if self.more_is_better else min(values)

    def meets_aim(self, value: float | None) -> bool | None:
        if self.aim is None or value is None:
            return None
        return value >= self.aim if self.more_is_better else value <= self.aim

    @property
    def aim_text(self) -> str:
        return "" if self.aim is None else f"{'>=' if self.more_is_better else '<='} {self.aim:,g}"


def rounded(value: float) -> float:
    """Four digits are more than any of these measurements can promise. What is counted stays as it is."""
    return value if isinstance(value, int) else float(f"{value:.4g}")


def short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "system": platform.platform(), "architecture": platform.machine()}


def versions(*packages: str) -> dict[str, str]:
    """Of the packages that take part; without any, of those that are in most benches."""
    found = {"equipoise": version("equipoise"), "python": platform.python_version()}
    if packages:
        return found | {name: version(name) for name in packages}
    import confluent_kafka

    return found | {"confluent-kafka": version("confluent-kafka"), "librdkafka": str(confluent_kafka.libversion()[0])}


def print_circumstances(seconds: float, notes: Sequence[str], *packages: str) -> None:
    print(", ".join(f"{name} {number}" for name, number in versions(*packages).items()), end="")
    print(f"; {os.cpu_count()} cores; {seconds:.0f} s")
    print("\n".join(notes))
