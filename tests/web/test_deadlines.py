"""Deadlines on the page of a group: only where somebody tells them, and prominent only when they matter."""

from __future__ import annotations

import re

from equipoise.console.web.live import Told
from equipoise.console.web.owners import Owners
from equipoise.console.web.pages.group import fragments
from equipoise.views.model import GroupView, MemberView, Ms
from tests.web.views import T0, group, member

NOW = Ms(T0 + 10_000)


def lively(name: str, left_ms: int, **more: object) -> MemberView:
    return member(
        name,
        [0],
        session_timeout_ms=45_000,
        last_seen=Ms(NOW + left_ms - 45_000),
        session_ends=Ms(NOW + left_ms),
        **more,
    )


def parts(view: GroupView) -> dict[str, str]:
    return fragments(view, Owners(), Told())


def shown(view: GroupView) -> dict[str, str]:
    return {name: re.sub("<[^>]+>", " ", html) for name, html in parts(view).items()}


def test_a_calm_group_has_a_bar_for_each_member_and_no_card() -> None:
    view = group(members=(lively("a", 44_000), lively("b", 30_000)), as_of=NOW)
    assert parts(view)["deadlines"] == ""
    assert 'data-left="44000"' in parts(view)["members"]
    assert "44.0 s" in shown(view)["members"]
    assert "1.0 s ago" in shown(view)["members"]


def test_who_is_close_to_the_end_stands_apart() -> None:
    found = shown(group(members=(lively("a", 44_000), lively("late", 9_000)), as_of=NOW))["deadlines"]
    assert "Close to their session's end" in found.replace("&#39;", "'")
    assert "late" in found
    assert " a " not in found


def test_a_rebalance_names_who_is_waited_for() -> None:
    waited = lively("slow", 40_000, awaiting="join", awaited_until=Ms(NOW + 12_000), rebalance_timeout_ms=60_000)
    view = group(members=(lively("a", 44_000), waited), as_of=NOW, state="PreparingRebalance")
    found = shown(view)["deadlines"]
    assert "Waits for 1 member" in found
    assert "slow  has not rejoined" in found
    assert "12.0 s" in found
    assert 'width="20.0"' in parts(view)["deadlines"]


def test_what_nobody_tells_is_a_dash() -> None:
    view = group(members=(member("a", [0]),), as_of=NOW)
    assert parts(view)["deadlines"] == ""
    assert "data-left" not in parts(view)["members"]
