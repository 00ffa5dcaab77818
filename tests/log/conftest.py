from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.log.log_helpers import Medium


@pytest.fixture(params=["disk", "memory"])
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Medium]:
    medium = Medium(tmp_path / "t-0" if request.param == "disk" else None)
    yield medium
    medium.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Medium]:
    medium = Medium(tmp_path / "t-0")
    yield medium
    medium.close()
