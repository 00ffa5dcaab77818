"""The differences from Apache Kafka that are meant, as the comparison knows them. docs/differences.md is made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from equipoise.proving.conformance.steps import Ask, Script, Step

PARKED = "parked"


class Found(NamedTuple):
    """A difference: of what (a request, a group), where in it, and both values."""

    script: Script
    step: Step
    key: str
    path: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        where = f"{self.key} {self.path}".strip()
        return f"{where}: kafka {self.kafka!r}, ours {self.ours!r}"


class Listed(NamedTuple):
    name: str
    kafka: str
    ours: str
    reason: str
    matches: Callable[[Found], bool]
    ends: bool = False  # the script cannot go on: the groups are no longer alike


def _is_answered_by_us_alone(found: Found, apis: tuple[str, ...], error: str) -> bool:
    return (
        found.key.split()[2:3] in [[api] for api in apis]
        and found.kafka == PARKED
        and isinstance(found.ours, dict)
        and found.ours["error_code"] == error
    )


def _names_a_protocol_twice(found: Found) -> bool:
    rows = found.step.fields.get("protocols", ()) if isinstance(found.step, Ask) else ()
    return len({row["name"] for row in rows}) < len(rows)


LISTED = (
    Listed(
        "an older request of the same member",
        "JoinGroup or SyncGroup that a newer one of the same member has taken the place of is never answered.",
        "It is answered REBALANCE_IN_PROGRESS.",
        "Nobody waits for the answer but a client that has reconnected; without one the connection would count as "
        "busy for ever.",
        lambda found: _is_answered_by_us_alone(found, ("JoinGroup", "SyncGroup"), "REBALANCE_IN_PROGRESS"),
    ),
    Listed(
        "SyncGroup of a member that is removed",
        "A parked SyncGroup of a member that leaves, or is removed, is never answered.",
        "It is answered UNKNOWN_MEMBER_ID.",
        "As for a parked JoinGroup, to which Kafka answers the same.",
        lambda found: _is_answered_by_us_alone(found, ("SyncGroup",), "UNKNOWN_MEMBER_ID"),
    ),
    Listed(
        "a protocol twice in one JoinGroup",
        "The join phase never ends: the member counts as two, and the vote fails with an internal error.",
        "The protocol counts once.",
        "A client's slip should not stop a group.",
        _names_a_protocol_twice,
        ends=True,
    ),
)


def listed(found: Found) -> Listed | None:
    return next((row for row in LISTED if row.matches(found)), None)
