"""How long a hunt goes on. Ordinary runs draw the same examples each time; `make soak` draws all of them anew."""

from __future__ import annotations

import os

DRAWS_NEW = os.environ.get("EQUIPOISE_NEW_EXAMPLES") == "1"


def examples(full: int) -> int:
    """A sixteenth of `full`: they are the same in every run, and a second run of them would find nothing new."""
    return full if DRAWS_NEW else max(full // 16, 1)
