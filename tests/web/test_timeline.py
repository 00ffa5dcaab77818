"""The picture as JSON: a snapshot, and events that make the next picture of the last."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from bench.console import story as tale
from equipoise.console.web.owners import Owners
from equipoise.console.web.timeline import KEPT, LagSample, Timeline, difference, kind_of, snapshot, timeline
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.views.model import GroupView, Ms
from tests.web.views import T0, WINDOW, group, member, rebalance, who


def picture(view: GroupView, owners: Owners | None = None, lag: list[LagSample] | None = None) -> Timeline:
    return timeline(view, owners or Owners(), lag or [], WINDOW)


def test_times_of_a_lane_are_differences() -> None:
    view = group(rebalance(1, 100, {0: (None, "a")}), rebalance(2, 700, {0: ("a", "b")}), members=(member("b", [0]),))
    shown = snapshot(picture(view), 7)
    assert shown["seq"] == 7
    assert shown["lanes"] == [{"topic": "orders", "partition": 0, "at": [T0 + 100, 600], "owner": [0, 1]}]
    assert [one["name"] for one in shown["owners"]] == ["a", "b"]


def test_a_rebalance_has_its_kind_sentence_and_address() -> None:
    view = group(rebalance(1, 100, {0: (None, "a")}, kept=3, dark={0: 20}), group_id="a/b?")
    one = snapshot(picture(view), 0)["rebalances"][0]
    assert one["kind"] == "joined"
    assert one["text"] == "14:00:00, generation 1: a joined; 1 of 4 partitions moved"
    assert one["stopped"] == 1
    assert one["url"] == "/groups/etl/rebalances/1"


def test_a_member_that_polled_too_late_is_a_kind_of_its_own() -> None:
    late = Cause(Trigger.MEMBER_LEFT, who("a"), "consumer poll timeout has expired.")
    assert kind_of(rebalance(1, 1, {}, cause=late)) == "late"
    assert kind_of(rebalance(1, 1, {}, cause=replace_said(late))) == "left"


def replace_said(cause: Cause) -> Cause:
    return Cause(cause.trigger, cause.who, "the consumer is being closed")


def test_another_protocol_is_a_mark_on_the_axis() -> None:
    view = group(rebalance(1, 100, {0: (None, "a")}), rebalance(2, 700, {0: ("a", "b")}, protocol="cooperative-sticky"))
    assert [(one["at"] - T0, one["text"]) for one in picture(view).marks] == [(700, "range → cooperative-sticky")]


def test_more_partitions_are_a_mark_on_the_axis() -> None:
    first, second = rebalance(1, 100, {0: (None, "a")}), rebalance(2, 700, {1: (None, "b")}, kept=1)
    empty, again = rebalance(3, 800, {}, members=0), rebalance(4, 900, {0: ("a", "b")}, kept=1)
    marks = picture(group(first, second, empty, again)).marks
    assert [(one["at"] - T0, one["text"]) for one in marks] == [(700, "1 → 2 partitions")]


def test_what_lies_before_the_window_is_cut() -> None:
    view = group(rebalance(1, 100, {0: (None, "a")}), rebalance(2, 7_000, {0: ("a", "b")}))
    shown = timeline(view, Owners(), [LagSample(T0, 1), LagSample(T0 + 9_000, 2)], 5_000)
    assert shown.began == T0 + 5_000
    assert shown.rows["orders", 0] == [(T0 + 5_000, 0), (T0 + 7_000, 1)]
    assert [one["key"] for one in shown.rebalances] == ["2"]
    assert [one.records for one in shown.lag] == [2]


def test_no_more_than_500_rebalances_are_kept() -> None:
    turns = [rebalance(n, n * 10, {0: ("ab"[n % 2], "ba"[n % 2])}) for n in range(1, KEPT + 100)]
    shown = picture(group(*turns))
    assert len(shown.rebalances) == KEPT
    assert shown.began == T0 + 1_000
    assert len(shown.rows["orders", 0]) == KEPT


# -- events: a browser's model, in Python


class Browser:
    """What static/model.js does with a snapshot and events."""

    def __init__(self, shown: dict[str, Any]) -> None:
        self.began = shown["from"]
        self.owners = shown["owners"]
        self.lanes = [list(zip(accumulate(one["at"]), one["owner"], strict=True)) for one in shown["lanes"]]
        self.keys = [one["key"] for one in shown["rebalances"]]
        self.lag = shown["lag"]["records"]

    def apply(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "lag":
            self.lag = [*self.lag, event["records"]]
        if kind == "members":
            self.owners = event["owners"]
        if kind != "rebalance":
            return
        self.owners = event["owners"] or self.owners
        for index, at, owner in event["changes"]:
            lane = [span for span in self.lanes[index] if span[0] < at]
            if not lane or lane[-1][1] != owner:
                lane.append((at, owner))
            self.lanes[index] = lane
        self.keys += [one["key"] for one in event["rebalances"] if one["key"] not in self.keys]
        self.began = event["from"]


# Where something else begins: the restart, another protocol, a lost host, the end. Between them are leaps.
TURNS = [count for begin in (1, 20, 79, 99, 142) for count in range(begin, begin + 6)]
EVERY = range(1, len(tale.told().rebalances) + 1)


def growing(counts: Iterable[int]) -> Iterator[GroupView]:
    """The told group with so many of its rebalances, and then so many."""
    story = tale.told()
    whole = tale.view(story)
    for count in counts:
        shown = tuple(story.rebalances[:count])
        yield replace(whole, rebalances=shown, as_of=Ms(shown[-1].at + 5), members=whole.members[:2])


@pytest.mark.parametrize("counts", [TURNS, pytest.param(EVERY, marks=pytest.mark.soak)], ids=["turns", "every"])
def test_events_make_the_same_picture_as_a_new_snapshot(counts: Iterable[int]) -> None:
    owners = Owners()
    views = growing(counts)
    last = picture(next(views), owners)
    for view in views:
        now = picture(view, owners)
        browser = Browser(json.loads(json.dumps(snapshot(last, 1))))
        events = difference(last, now)
        if events is None:
            assert list(last.rows) != list(now.rows)
        else:
            for kind, event in events:
                browser.apply(kind, json.loads(json.dumps(event)))
            assert browser.lanes == list(now.rows.values())
            assert browser.owners == now.owners
            assert browser.keys == [one["key"] for one in now.rebalances]
        last = now


def test_nothing_new_is_no_event() -> None:
    view = group(rebalance(1, 100, {0: (None, "a")}))
    assert difference(picture(view), picture(view)) == []


def test_other_partitions_need_a_new_snapshot() -> None:
    before = group(rebalance(1, 100, {0: (None, "a")}))
    after = group(rebalance(1, 100, {0: (None, "a"), 1: (None, "a")}))
    owners = Owners()
    assert difference(picture(before, owners), picture(after, owners)) is None


def test_a_state_and_lag_are_events_of_their_own() -> None:
    before = picture(group(), lag=[LagSample(T0, 1)])
    after = picture(group(state="PreparingRebalance"), lag=[LagSample(T0, 1), LagSample(T0 + 5, None)])
    events = dict(difference(before, after) or ())
    assert events["state"]["running"] == "a rebalance is running"
    assert events["lag"]["records"] is None
