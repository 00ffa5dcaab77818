"""How long a hunt goes on: `make check` sets EQUIPOISE_QUICK=1 and tries an eighth of the examples."""

from __future__ import annotations

import os


def examples(full: int) -> int:
    """`full` in `make test`."""
    return max(full // 8, 1) if os.environ.get("EQUIPOISE_QUICK") == "1" else full
