"""The pytest plugin. It loads with every pytest run where Equipoise is installed, so it imports nothing at first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from equipoise.broker import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker in this process, in memory, on a free port of 127.0.0.1; gone when the test ends."""
    from equipoise.broker import Broker

    with Broker() as running:
        yield running
