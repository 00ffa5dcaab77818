"""The time that records carry."""

from __future__ import annotations

from typing import NewType

# Milliseconds since 1970, as records carry them. `now` counts from anywhere: the two are never compared.
WallTime = NewType("WallTime", int)
