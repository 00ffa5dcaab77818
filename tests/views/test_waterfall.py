"""The waterfall: for each member when it came and when it had its assignment, as far as the source tells."""

from __future__ import annotations

import json
from typing import Any

from equipoise.broker.groups.journal import event_row, rebalance_row
from equipoise.coordinator.events import MembersSynced
from equipoise.views.rebalances import from_row, rebalance_views
from equipoise.views.waterfall import Track, tracks
from tests.views.test_rebalances import made_entry
from tests.views.test_timeline import rebalance as old_row


def rows(*late: tuple[str, int], **more: Any) -> list[dict[str, Any]]:
    found = [rebalance_row(made_entry(**more))]
    if late:
        found.append(event_row(MembersSynced("g", 2_000, 7, late), 0))
    return [json.loads(json.dumps(one)) for one in found]


ARRIVALS = {"b-1": 200, "c-1": 150, "d-1": 20}


def test_who_asked_in_time_has_it_at_the_end_and_who_did_not_when_it_asked() -> None:
    (view,) = rebalance_views("g", rows(("c-1", 900), arrivals=ARRIVALS, unsynced=("c-1", "s-1")), [])
    assert tracks(view) == [
        Track("s-1", None, None, is_waited_for=True),
        Track("c-1", 150, 900),
        Track("b-1", 200, 300),
        Track("d-1", 20, 300),
    ]


def test_syncs_belong_to_the_last_rebalance_of_their_generation() -> None:
    first, synced = rows(("c-1", 900), arrivals=ARRIVALS, unsynced=("c-1",))
    deleted = first | {"at": 90_000, "started": 89_000}  # the group was deleted and is there again
    again = synced | {"syncs": [["c-1", 1_500]]}
    views = rebalance_views("g", [synced, first, synced, deleted, again], [])
    assert [one.synced for one in views] == [(("c-1", 900),), (("c-1", 1_500),)]


def test_an_overtaken_rebalance_gave_nobody_anything() -> None:
    (view,) = rebalance_views("g", rows(arrivals={"b-1": 200}, overtaken=True), [])
    assert tracks(view) == [Track("b-1", 200, None)]


def test_an_older_journal_does_not_tell_who_asked() -> None:
    row = old_row(3, 900, 1_000, "member_left", "a", 1) | {"arrivals": [["b", 5]]}
    assert tracks(from_row(row)) == [Track("b", 5, None)]


def test_of_a_target_epoch_who_was_called_and_when_its_partitions_last_changed() -> None:
    called, done = {"a": 5, "b": 400}, {"a": 390, "b": 400}
    (view,) = rebalance_views("g", rows(is_target=True, called=called, done=done), [])
    assert tracks(view) == [Track("b", 400, 400), Track("a", 5, 390)]
