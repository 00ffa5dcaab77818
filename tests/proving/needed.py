"""What is fetched may not be there: then a test is skipped by name, or fails where Apache Kafka is required."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from proving.fetched import Unavailable

Part = TypeVar("Part")


def needed(make: Callable[[], Part]) -> Part:
    try:
        return make()
    except Unavailable as missing:
        if os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
