"""The seed of all random moments."""

from __future__ import annotations

import os
import random

import pytest


@pytest.fixture
def moments() -> random.Random:
    seed = int(os.environ.get("EQUIPOISE_SEED", random.randrange(10**9)))
    print(f"EQUIPOISE_SEED={seed}")
    return random.Random(seed)
