"""How long a hunt goes on. Every run draws new examples, so that many short runs try as much as a long one."""

from __future__ import annotations

import os


def examples(full: int) -> int:
    """Half of `full` in `make test`; an eighth in `make check`, which sets EQUIPOISE_QUICK=1."""
    return max(full // (8 if os.environ.get("EQUIPOISE_QUICK") == "1" else 2), 1)
