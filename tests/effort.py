"""How long a hunt goes on: `make check` sets EQUIPOISE_QUICK=1 and tries a quarter of the examples."""

from __future__ import annotations

import os


def examples(full: int) -> int:
    """`full` in `make test`."""
    return full // 4 if os.environ.get("EQUIPOISE_QUICK") == "1" else full
