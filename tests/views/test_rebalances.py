"""Rebalances as views: the journal's word where there is one, else what two records let one conclude."""

from __future__ import annotations

import json
from typing import Any

from equipoise.broker.groups.journal import rebalance_row
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.reasons import Cause, Trigger, Who
from equipoise.views.model import Dark, Guess, GuessKind, Move, Phases, Source
from equipoise.views.rebalances import culprit, from_entry, from_row, reason, rebalance_views
from tests.views.test_timeline import generation, who
from tests.views.test_timeline import rebalance as row

LATE = "consumer poll timeout has expired."


def made_entry(**more: Any) -> Rebalance:
    cause = Cause(Trigger.SESSION_EXPIRED, Who("a-1", "a", "/10.0.0.1"), None, 45_000, 45_000)
    entry = Rebalance("g", cause, 1_000, 6, generation=7, joined_at=1_200, assigned_at=1_250, ended=1_300, members=2)
    entry.waited_for, entry.waited_ms, entry.arrivals = Who("b-1", "b"), 200, {"b-1": 200}
    entry.protocol, entry.kept, entry.revoked = "range", 1, [("t", 3)]
    entry.moved, entry.dark_ms = {("t", 1): ("a-1", "b-1"), ("t", 0): (None, "b-1")}, {("t", 1): 45_300}
    for name, value in more.items():
        setattr(entry, name, value)
    return entry


def test_a_row_of_the_journal_says_what_the_coordinators_entry_says() -> None:
    entry = made_entry()
    view = from_row(json.loads(json.dumps(rebalance_row(entry))))
    assert from_entry(entry) == rebalance_views("g", [json.loads(json.dumps(rebalance_row(entry)))], [])[0]
    assert view.cause == entry.cause
    assert view.phases == Phases(45_000, 200, 50, 50)
    assert view.moved == (Move("t", 0, None, "b-1"), Move("t", 1, "a-1", "b-1"))
    assert (view.dark, view.arrivals, view.duration_ms) == ((Dark("t", 1, 45_300),), (("b-1", 200),), 300)


def test_a_row_of_an_older_journal_lacks_what_was_noted_later() -> None:
    old = row(3, 900, 1_000, "member_left", "a", 1)
    view = from_row(old)
    assert (view.protocol, view.arrivals, view.cut, view.old_generation) == (None, (), 0, None)
    limit = row(3, 900, 1_000, "size_limit", "", 1)
    limit["cause"]["limit_ms"] = 5
    assert from_row(limit).cause == Cause(Trigger.SIZE_LIMIT, Who("", "", "/10.0.0.1"), None, 0, 0, 5)


def test_a_trigger_of_a_newer_broker_is_unknown_and_no_cause() -> None:
    cause = from_row(row(3, 900, 1_000, "moon_phase", "a", 1)).cause
    assert isinstance(cause, Guess)
    assert cause.kind is GuessKind.UNKNOWN


def test_without_a_journal_the_cause_is_a_guess_and_the_begin_unknown() -> None:
    records = [generation(1, 1_000, {"a": [0, 1]}), generation(2, 5_000, {"a": [0], "b": [1]})]
    first, second = rebalance_views("g", [], records)
    assert first.cause == Guess(GuessKind.MEMBER_JOINED, Who(**who("a")))
    assert second.cause == Guess(GuessKind.MEMBER_JOINED, Who(**who("b")))
    assert (second.started, second.duration_ms, second.dark, second.source) == (None, None, None, Source.OFFSETS_TOPIC)
    assert second.phases == Phases(None, None, 5, None)
    assert (second.moved, second.kept, second.old_generation) == ((Move("t", 1, "a", "b"),), 1, 1)
    assert first.moved == ()  # who had them before is not known


def test_where_both_speak_the_journal_counts_and_a_second_of_a_generation_has_its_own_key() -> None:
    journal = [
        row(2, 4_800, 4_900, "member_joined", "b", 2, overtaken=True),
        row(2, 4_900, 5_000, "member_joined", "b", 2),
    ]
    records = [generation(1, 1_000, {"a": [0]}), generation(2, 5_000, {"a": [0], "b": []})]
    views = rebalance_views("g", journal, records)
    assert [(one.key, isinstance(one.cause, Cause)) for one in views] == [("1", False), ("2", True), ("2.2", True)]


def test_a_member_that_polled_too_late_has_a_reason_of_its_own() -> None:
    late = from_row(row(2, 0, 10, "member_left", "b", 2, said=LATE))
    assert reason(late) == "poll_overrun"
    assert reason(from_row(row(2, 0, 10, "member_left", "b", 2))) == "member_left"
    guessed = rebalance_views("g", [], [generation(1, 0, {"a": [0], "b": []}), generation(2, 9, {"a": [0]})])
    assert reason(guessed[1]) == "member_gone"
    found = culprit(guessed[1])
    assert found is not None
    assert found.client_id == "b"
    nobody = from_entry(made_entry(cause=Cause(Trigger.ASSIGNMENT_NOT_WRITTEN)))
    assert culprit(nobody) is None
