"""How long a hunt goes on. Ordinary runs draw the same examples each time; `make soak` draws all of them anew."""

from __future__ import annotations

import os

DRAWS_NEW = os.environ.get("EQUIPOISE_NEW_EXAMPLES") == "1"


def examples(full: int) -> int:
    """An eighth of `full` in `make test`; a sixteenth in `make check`, which sets EQUIPOISE_QUICK=1."""
    if DRAWS_NEW:
        return full
    return max(full // (16 if os.environ.get("EQUIPOISE_QUICK") == "1" else 8), 1)
