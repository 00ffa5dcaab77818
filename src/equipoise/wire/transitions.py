"""Tables of state transitions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)


def transitions(origins_of: Mapping[State, Mapping[State, str]]) -> dict[tuple[State, State], str]:
    """Origin and target of each transition, with its reason. The table is written by targets, each with the states that
    it is reached from."""
    return {(origin, target): why for target, origins in origins_of.items() for origin, why in origins.items()}
