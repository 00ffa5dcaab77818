"""Who owned what, and why the group rebalanced, told from entries of the journal and records of generations."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.views.flapping import causes, flapping
from equipoise.views.timeline import Tables, tell

Entry = dict[str, Any]


def who(name: str) -> Entry:
    client = name.partition("#")[0]  # a#1 and a#2 are the same client, twice
    return {"member_id": name, "client_id": client, "client_host": "/10.0.0.1", "group_instance_id": None}


def generation(number: int, at: int, members: dict[str, list[int]], protocol: str = "range") -> Entry:
    rows = [
        {
            **who(name),
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "topics": ["t"],
            "partitions": [["t", partition] for partition in partitions],
        }
        for name, partitions in members.items()
    ]
    common = {"type": "generation", "at": at, "joined_at": at - 5, "leader": next(iter(members), None)}
    return {**common, "generation": number, "protocol": protocol if members else None, "members": rows}


def rebalance(number: int, started: int, ended: int, trigger: str, name: str, members: int, **more: Any) -> Entry:
    cause = {"trigger": trigger, "who": who(name), "said": more.pop("said", None), "silent_ms": 0, "limit_ms": 0}
    return {
        "type": "rebalance",
        "at": ended,
        "started": started,
        "generation": number,
        "cause": cause,
        "phases_ms": {"detect": 0, "join": ended - started, "assign": 0, "sync": 0},
        "members": members,
        "waited_for": who(""),
        "waited_ms": 0,
        "overtaken": False,
        "moved": [],
        "kept": 0,
        "revoked": [],
        "dark_ms": [],
        **more,
    }


def moved(owner: str, *partitions: int, before: str | None = None) -> list[Any]:
    return [["t", partition, before, owner] for partition in partitions]


def joined(name: str, at: int) -> Entry:
    return {"type": "member_joined", "at": at, "who": who(name)}


def left(name: str, at: int, departure: str = "left", said: str | None = None) -> Entry:
    return {"type": "member_left", "at": at, "who": who(name), "departure": departure, "said": said}


def spans(tables: Tables, partition: int) -> list[tuple[str | None, int, int | None]]:
    rows = [row for row in tables.ownership if row["partition"] == partition]
    rows.sort(key=lambda row: int(row["began"]))
    return [(row.get("member_id"), row["began"], row.get("ended")) for row in rows]


def test_with_a_journal_owners_end_when_they_stopped() -> None:
    journal = [
        rebalance(1, 0, 100, "member_joined", "a", 1, moved=moved("a", 0, 1)),
        rebalance(
            2,
            1000,
            1200,
            "member_joined",
            "b",
            2,
            moved=moved("b", 1, before="a"),
            kept=1,
            dark_ms=[["t", 0, 150], ["t", 1, 150]],
        ),
        rebalance(
            3, 5000, 5100, "session_expired", "b", 1, moved=moved("a", 1, before="b"), kept=1, dark_ms=[["t", 1, 3100]]
        ),
    ]
    told = tell("g", journal, [])
    assert spans(told, 0) == [("a", 100, 1050), (None, 1050, 1200), ("a", 1200, None)]
    assert spans(told, 1) == [
        ("a", 100, 1050),
        (None, 1050, 1200),
        ("b", 1200, 2000),
        (None, 2000, 5100),
        ("a", 5100, None),
    ]
    assert [(row["reason"], row["duration_ms"], row["source"]) for row in told.rebalances] == [
        ("member_joined", 100, "journal"),
        ("member_joined", 200, "journal"),
        ("session_expired", 100, "journal"),
    ]
    restless = {
        row["partition"]: (row["changes"], row["returns"], row["gaps"], row["dark_ms"])
        for row in flapping(told.ownership)
    }
    assert restless == {0: (0, 0, 1, 150), 1: (2, 1, 2, 3250)}
    assert {(row["reason"], row["cause_client"]): row["count"] for row in causes(told.rebalances)} == {
        ("member_joined", "a"): 1,
        ("member_joined", "b"): 1,
        ("session_expired", "b"): 1,
    }


def test_a_cooperative_partition_is_nobodys_between_two_rounds() -> None:
    journal = [
        rebalance(1, 0, 100, "member_joined", "a", 1, moved=moved("a", 0, 1)),
        rebalance(2, 1000, 1100, "member_joined", "b", 2, kept=1, revoked=[["t", 1]]),
        rebalance(3, 1150, 1200, "subscription_changed", "a", 2, moved=moved("b", 1), kept=1, dark_ms=[["t", 1, 100]]),
    ]
    told = tell("g", journal, [])
    assert spans(told, 0) == [("a", 100, None)]
    assert spans(told, 1) == [("a", 100, 1100), (None, 1100, 1200), ("b", 1200, None)]


def test_without_a_journal_generations_tell_who_but_not_how_long() -> None:
    records = [
        generation(1, 100, {"a": [0, 1]}),
        generation(2, 1200, {"a": [0], "b": [1]}),
        generation(3, 5100, {"a": [0, 1]}),
        generation(4, 6000, {"a": [0], "c#1": [1]}),
        generation(5, 7000, {"a": [0], "c#2": [1]}),
        generation(6, 8000, {"a": [1], "c#2": [0]}),
        generation(7, 9000, {}),
        generation(9, 9900, {}),
    ]
    told = tell("g", [], records)
    assert [(row["reason"], row["cause_client"], row["members"]) for row in told.rebalances] == [
        ("member_joined", "a", 1),
        ("member_joined", "b", 2),
        ("member_gone", "b", 1),
        ("member_joined", "c", 2),
        ("member_restarted", "c", 2),
        ("member_rejoined", None, 2),
        ("member_gone", "a", 0),
        ("never_settled", None, 0),  # a generation between them came to no end
    ]
    assert all(row.get("duration_ms") is None and row["source"] == "metadata" for row in told.rebalances)
    assert [row["assign_ms"] for row in told.rebalances] == [5] * 8
    assert spans(told, 1) == [
        ("a", 100, 1200),
        ("b", 1200, 5100),
        ("a", 5100, 6000),
        ("c#1", 6000, 7000),
        ("c#2", 7000, 8000),
        ("a", 8000, 9000),
        (None, 9000, None),
    ]
    last = [row for row in told.ownership if row.get("member_id") is None]
    assert all(row["is_empty"] for row in last), "a group without members is no fault of a rebalance"
    assert {row["member_id"]: (row["began"], row.get("ended"), row.get("why_left")) for row in told.memberships} == {
        "a": (100, 9000, "unknown"),
        "b": (1200, 5100, "unknown"),
        "c#1": (6000, 7000, "unknown"),
        "c#2": (7000, 9000, "unknown"),
    }


def test_both_witnesses_of_a_generation_are_one_rebalance() -> None:
    journal = [
        joined("a", 90),
        rebalance(1, 0, 100, "member_joined", "a", 1, moved=moved("a", 0)),
        joined("b", 1000),
        rebalance(2, 1000, 1200, "member_joined", "b", 2, kept=1, moved=moved("b", 1)),
        left("b", 2000, said="the consumer is closing"),
    ]
    records = [generation(1, 99, {"a": [0]}), generation(2, 1199, {"a": [0], "b": [1]}, "sticky")]
    told = tell("g", journal, records)
    assert [(row["generation"], row["protocol"], row["source"]) for row in told.rebalances] == [
        (1, "range", "journal"),
        (2, "sticky", "journal"),
    ]
    b = next(row for row in told.memberships if row["member_id"] == "b")
    assert (b["began"], b["ended"], b["why_left"], b["said"]) == (1000, 2000, "left", "the consumer is closing")
    assert (b["session_timeout_ms"], b["rebalance_timeout_ms"]) == (10_000, 60_000)


def test_a_journal_that_begins_late_is_completed_by_records() -> None:
    """Retention has taken its first entry; what stays with its owner is then in the record alone."""
    journal = [rebalance(2, 1000, 1200, "member_joined", "b", 2, kept=1, moved=moved("b", 1, before="a"))]
    records = [generation(1, 99, {"a": [0, 1]}), generation(2, 1199, {"a": [0], "b": [1]})]
    told = tell("g", journal, records)
    assert [(row["generation"], row["source"]) for row in told.rebalances] == [(1, "metadata"), (2, "journal")]
    assert spans(told, 0) == [("a", 99, None)]
    assert spans(told, 1) == [("a", 99, 1200), ("b", 1200, None)]


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    records = [generation(1, 100, {"old": [0]}), generation(1, 5000, {"new": [0]})]
    told = tell("g", [rebalance(1, 0, 100, "member_joined", "old", 1, moved=moved("old", 0))], records)
    assert len(told.rebalances) == 1
    assert spans(told, 0) == [("old", 100, 5000), ("new", 5000, None)]


def test_a_group_that_was_deleted_begins_anew() -> None:
    records = [
        generation(1, 100, {"a": [0]}),
        generation(2, 200, {}),
        {"type": "deleted", "at": 300},
        generation(1, 10_000, {"b": [0]}),
    ]
    told = tell("g", [rebalance(1, 0, 100, "member_joined", "a", 1, moved=moved("a", 0))], records)
    assert [(row["generation"], row["reason"], row["source"]) for row in told.rebalances] == [
        (1, "member_joined", "journal"),
        (2, "member_gone", "metadata"),
        (1, "member_joined", "metadata"),
    ]
    assert spans(told, 0) == [("a", 100, 200), (None, 200, 10_000), ("b", 10_000, None)]
    assert flapping(told.ownership)[0]["dark_ms"] == 0


def test_an_overtaken_rebalance_moves_nothing() -> None:
    journal = [
        rebalance(1, 0, 100, "member_joined", "a", 1, moved=moved("a", 0)),
        rebalance(-1, 200, 300, "member_joined", "b", 0, overtaken=True),
        rebalance(2, 300, 400, "member_left", "b", 1, kept=1, dark_ms=[["t", 0, 150]]),
    ]
    told = tell("g", journal, [])
    assert spans(told, 0) == [("a", 100, 250), (None, 250, 400), ("a", 400, None)]
    assert not any(row["is_empty"] for row in told.ownership)


def test_an_overtaken_generation_is_listed_once() -> None:
    """Its assignment was on its way to the disk when the next rebalance began: it is written, and given to nobody."""
    journal = [
        rebalance(1, 0, 100, "member_joined", "a", 1, moved=moved("a", 0, 1)),
        rebalance(2, 200, 300, "member_joined", "b", 2, overtaken=True),
        rebalance(3, 300, 400, "member_left", "b", 1, kept=2),
    ]
    records = [
        generation(1, 99, {"a": [0, 1]}),
        generation(2, 299, {"a": [0], "b": [1]}),
        generation(3, 399, {"a": [0, 1]}),
    ]
    told = tell("g", journal, records)
    assert [(row["generation"], row["source"], row["overtaken"]) for row in told.rebalances] == [
        (1, "journal", False),
        (2, "journal", True),
        (3, "journal", False),
    ]
    assert [row["count"] for row in causes(told.rebalances)] == [1, 1, 1]
    assert spans(told, 0) == spans(told, 1) == [("a", 100, None)], "b has never had anything"


def test_a_rate_is_given_of_an_hour_and_more() -> None:
    """Owners that change each second for half a minute are not counted up to thousands an hour."""
    turns = [
        rebalance(
            turn, turn * 1000 - 1, turn * 1000, "member_joined", "ab"[turn % 2], 1, moved=moved("ab"[turn % 2], 0)
        )
        for turn in range(1, 31)
    ]
    (short,) = flapping(tell("g", turns, []).ownership)
    assert (short["changes"], short["returns"], short["owners_per_hour"], short["score"]) == (29, 28, None, 57)
    late = [*turns, rebalance(31, 7_200_999, 7_201_000, "member_joined", "b", 1, moved=moved("b", 0))]
    (long,) = flapping(tell("g", late, []).ownership)
    assert (long["owners_per_hour"], long["score"]) == (15, 29.5)


def test_a_member_that_did_not_poll_says_so() -> None:
    said = "poll() was not called for 2500 ms (max.poll.interval.ms)"
    java = "consumer poll timeout has expired."
    journal = [
        joined("a", 0),
        left("a", 100, said=said),
        rebalance(2, 100, 110, "member_left", "a", 1, said=said),
        rebalance(3, 200, 210, "member_left", "b", 1, said=java),
        rebalance(4, 300, 310, "member_left", "b", 1, said="the consumer is being closed"),
    ]
    told = tell("g", journal, [])
    assert [row["reason"] for row in told.rebalances] == ["poll_overrun", "poll_overrun", "member_left"]
    assert told.memberships[0]["why_left"] == "poll_overrun"


@pytest.mark.parametrize(("limit_ms", "more"), [(0, {"group_max_size": 3}), (3, {})], ids=["now", "journals of before"])
def test_the_limit_of_members_is_no_timeout(limit_ms: int, more: dict[str, int]) -> None:
    entry = rebalance(2, 0, 100, "size_limit", "", 3)
    entry["cause"] |= {"limit_ms": limit_ms, **more}
    (row,) = tell("g", [entry], []).rebalances
    assert (row["limit_ms"], row["group_max_size"]) == (None, 3)


def test_a_timeout_is_no_limit_of_members() -> None:
    entry = rebalance(2, 0, 100, "session_expired", "a", 1)
    entry["cause"] |= {"limit_ms": 10_000}
    (row,) = tell("g", [entry], []).rebalances
    assert (row["limit_ms"], row["group_max_size"]) == (10_000, None)
