"""Episodes: what belongs together, and in a few words what it was."""

from __future__ import annotations

from equipoise.console import words
from equipoise.coordinator.reasons import Trigger
from equipoise.views.episodes import episodes
from equipoise.views.model import Guess, GuessKind, RebalanceView
from tests.views.made import MINUTE, caused, rebalance, who

JOIN, LEAVE, SILENT = Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.SESSION_EXPIRED
LATE = "consumer poll timeout has expired."


def told(*rebalances: RebalanceView) -> list[str]:
    return [words.episode(one) for one in episodes(rebalances)]


def test_one_that_stands_alone_is_no_episode() -> None:
    assert told(rebalance(0, caused(JOIN, "a")), rebalance(2 * MINUTE, caused(JOIN, "b"))) == []


def test_a_client_that_polls_too_late_again_and_again() -> None:
    rows = []
    for turn in range(4):
        rows.append(rebalance(turn * 7 * MINUTE, caused(LEAVE, "etl-17", said=LATE)))
        rows.append(rebalance(turn * 7 * MINUTE + 500, caused(JOIN, "etl-17")))
    assert told(*rows) == ["etl-17 polls too late, out 4 times"]
    (found,) = episodes(rows)
    assert (found.began, found.ended, len(found.rebalances)) == (-100, 21 * MINUTE + 500, 8)


def test_a_rolling_restart_is_those_that_left_and_came_back() -> None:
    rows = []
    for number in range(3):
        rows.append(rebalance(number * 9_000, caused(LEAVE, f"w-{number}")))
        rows.append(rebalance(number * 9_000 + 4_000, caused(JOIN, f"w-{number}")))
    assert told(*rows) == ["rolling restart of 3"]
    guessed = [rebalance(number, Guess(GuessKind.MEMBER_RESTARTED, who(f"w-{number}"))) for number in range(3)]
    assert told(*guessed) == ["rolling restart of 3"]


def test_members_of_one_host_that_fell_silent_together() -> None:
    rows = [rebalance(number, caused(SILENT, f"w-{number}", "/10.0.2.4")) for number in range(6)]
    assert told(*rows) == ["host 10.0.2.4 lost, 6 members"]
    apart = [rebalance(number, caused(SILENT, f"w-{number}", f"10.0.2.{number}")) for number in range(2)]
    assert told(*apart) == ["2 lost"]


def test_joins_leaves_and_anything_else() -> None:
    assert told(*(rebalance(number, caused(JOIN, f"w-{number}")) for number in range(20))) == ["20 joined"]
    assert told(*(rebalance(number, caused(LEAVE, f"w-{number}")) for number in range(2))) == ["2 left"]
    assert told(rebalance(0, caused(JOIN, "a")), rebalance(9, caused(LEAVE, "b"))) == ["1 out, 1 in"]
    six = [
        rebalance(0, caused(JOIN, "a"), members=50),
        rebalance(3 * MINUTE, caused(SILENT, "w-0"), members=44),  # its cause names the first of them
        rebalance(3 * MINUTE + 9, caused(JOIN, "b"), members=45),
    ]
    assert told(*six) == ["6 out, 1 in"]
    unknown = Guess(GuessKind.MEMBER_REJOINED)
    assert told(rebalance(0, unknown), rebalance(9, unknown)) == ["2 rebalances"]


def test_a_minute_apart_is_another_episode_unless_one_client_caused_both() -> None:
    first = [rebalance(0, caused(JOIN, "a")), rebalance(9, caused(JOIN, "b"))]
    later = [rebalance(9 + MINUTE, caused(JOIN, "c")), rebalance(19 + MINUTE, caused(JOIN, "d"))]
    assert told(*first, *later) == ["2 joined", "2 joined"]
