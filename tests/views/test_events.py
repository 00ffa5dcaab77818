"""Events from rows of the journal, and that newer rows do no harm."""

from __future__ import annotations

from typing import Any

from equipoise.broker.groups.journal import event_row
from equipoise.coordinator.events import CommitRefused, Event, GroupDeleted, MemberFenced, MemberJoined, MemberLeft
from equipoise.coordinator.reasons import Departure, Refusal, Who
from equipoise.views.events import events_of

WHO = Who("etl-1-uuid", "etl-1", "/10.0.0.1", "pod-1")
ALL: list[Event] = [
    MemberFenced("etl", 5, WHO, "Heartbeat"),
    CommitRefused("etl", 6, WHO, Refusal.OLD_GENERATION, generation_id=3, group_generation_id=4),
    MemberLeft("etl", 7, WHO, Departure.SESSION_EXPIRED, silent_ms=45_010, limit_ms=45_000),
    GroupDeleted("etl", 8, expired=True),
]


def rows(*events: Event) -> list[dict[str, Any]]:
    return [event_row(one, 0) for one in events]


def test_what_the_broker_writes_comes_back() -> None:
    assert events_of(rows(*ALL)) == ALL


def test_other_rows_and_names_of_a_newer_broker_are_left_out() -> None:
    newer = rows(ALL[1], ALL[2])
    newer[0]["refusal"] = "full_moon"
    newer[1]["departure"] = "abducted"
    assert events_of([*newer, *rows(MemberJoined("etl", 9, WHO)), {"type": "novelty"}]) == []
