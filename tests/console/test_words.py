"""Reasons in words: the edges, and the completeness. What whole scenarios sound like is in tests/transcripts."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from equipoise.console import words
from equipoise.coordinator.classic.states import TRANSITIONS, State
from equipoise.coordinator.events import (
    CommitRefused,
    Event,
    GroupDeleted,
    MemberFenced,
    MemberJoined,
    MemberLeft,
    MembersSynced,
    StateChanged,
    TargetReached,
)
from equipoise.coordinator.journal import Rebalance, TopicPartition
from equipoise.coordinator.reasons import Cause, Departure, Refusal, Trigger, Who

UUID = "3f2a9c1e-0b4d-4c56-9a77-1c2d3e4f5a6b"
WHO = Who(f"consumer-3-{UUID}", "consumer-3", "/10.0.0.7", "i3")
EVENTS: list[Event] = [
    StateChanged("g", 0, State.EMPTY, State.PREPARING_REBALANCE, 0, Cause(Trigger.MEMBER_JOINED, WHO)),
    MemberJoined("g", 0, WHO),
    MemberLeft("g", 0, WHO, Departure.LEFT),
    MemberFenced("g", 0, WHO, "Heartbeat"),
    CommitRefused("g", 0, WHO, Refusal.OLD_GENERATION, generation_id=1, group_generation_id=2),
    GroupDeleted("g", 0, True),
    MembersSynced("g", 0, 7, (("a-1", 40), ("b-1", 1_240))),
    TargetReached("g", 0, 7, overtaken=False),
]


# -- names and figures


def test_a_member_is_named_by_its_id_with_eight_digits_of_the_uuid() -> None:
    assert words.name(WHO) == "consumer-3-3f2a9c1e"
    assert words.full_name(WHO) == "consumer-3-3f2a9c1e (client consumer-3, 10.0.0.7)"
    assert words.name(Who("a-1")) == "a-1"
    assert words.full_name(Who("a-1")) == "a-1"


def test_who_has_no_member_id_is_named_by_its_client_id() -> None:
    assert words.full_name(Who("", "etl", "/10.0.0.7")) == "etl (10.0.0.7)"
    assert words.name(Who("")) == "a client without a name"


def test_what_clients_send_cannot_move_the_cursor() -> None:
    who = Who("a\x1b[2J-1", "b\r\n", "/\x9bhost")
    assert words.full_name(who) == r"a\x1b[2J-1 (client b\r\n, \x9bhost)"
    assert words.cause(Cause(Trigger.MEMBER_LEFT, Who("a-1"), said="bye\n\x00")) == r'a-1 left, saying "bye\n\x00"'
    refused = CommitRefused(
        "g", 0, Who("a-1", group_instance_id="i\n1"), Refusal.FENCED_INSTANCE, generation_id=1, group_generation_id=1
    )
    assert words.refusal(refused) == r"another member has its group.instance.id i\n1 now"


def test_topics_and_long_names_are_names_too() -> None:
    assert words.partitions([("a\u202eb", 0)]) == r"a\u202eb:0"
    assert len(words.name(Who("x" * 32_767))) == 300


def test_braces_in_a_name_are_no_template() -> None:
    assert words.cause(Cause(Trigger.MEMBER_JOINED, Who("{limit}-1"))) == "{limit}-1 joined"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (119_949, "119.9 s"),
        (120_000, "2 min 0 s"),
        (7_199_999, "119 min 59 s"),
        (7_200_000, "2 h 0 min"),
        (172_799_999, "47 h 59 min"),
        (604_800_000, "7 d 0 h"),
    ],
)
def test_duration(ms: int, text: str) -> None:
    assert words.duration(ms) == text


def test_partitions_are_grouped_by_topic_and_the_many_are_counted() -> None:
    assert words.partitions([]) == ""
    assert words.partitions([("b", 1), ("a", 10), ("a", 2)]) == "a:2,10 b:1"
    many = words.partitions(("t", number) for number in range(1_000))
    assert many == "t:0,1,2,3,4,5,6,7,8,9,10,11 and 988 more"


# -- every reason has words


@pytest.mark.parametrize("trigger", Trigger)
def test_every_trigger(trigger: Trigger) -> None:
    text = words.cause(Cause(trigger, WHO, "so it said", silent_ms=10_019, limit_ms=10_000))
    assert text.endswith(', saying "so it said"')
    assert "{" not in text


@pytest.mark.parametrize("departure", Departure)
def test_every_departure(departure: Departure) -> None:
    text = words.departure(MemberLeft("g", 0, WHO, departure, silent_ms=10_019, limit_ms=10_000))
    assert text.startswith("consumer-3-3f2a9c1e ")
    assert "{" not in text


def test_a_limit_of_members_is_no_time() -> None:
    cause = Cause(Trigger.SIZE_LIMIT, limit_ms=10_000, group_max_size=3)
    left = MemberLeft("g", 0, WHO, Departure.GROUP_FULL, limit_ms=10_000, group_max_size=3)
    assert words.cause(cause).endswith("group.max.size=3")
    assert words.departure(left).endswith("(group.max.size=3)")


@pytest.mark.parametrize("refusal", Refusal)
def test_every_refusal(refusal: Refusal) -> None:
    text = words.event(CommitRefused("g", 0, WHO, refusal, generation_id=1, group_generation_id=2))
    assert text.startswith("commit of consumer-3-3f2a9c1e refused, because ")
    assert "{" not in text


def test_every_kind_of_event() -> None:
    assert {type(event).__name__ for event in EVENTS} == {kind.__name__ for kind in Event.__subclasses__()}
    assert [words.event(event) for event in EVENTS] == [
        "Empty -> PreparingRebalance, because consumer-3-3f2a9c1e joined",
        "consumer-3-3f2a9c1e (client consumer-3, 10.0.0.7) joined",
        "consumer-3-3f2a9c1e left",
        "Heartbeat of consumer-3-3f2a9c1e refused, because another member has its group.instance.id i3 now",
        "commit of consumer-3-3f2a9c1e refused, because it is of generation 1, the group is at 2",
        "deleted, because it was empty and none of its offsets was left",
        "b-1 asked last for its assignment of generation 7, after 1.2 s",
        "every member has its part of epoch 7",
    ]
    assert words.event(GroupDeleted("g", 0, False)) == "deleted"


# -- the journal


def _rebalance() -> Rebalance:
    """Silent for 10 s; four of twelve partitions move, the other eight go on."""
    moved: dict[TopicPartition, tuple[str | None, str]] = {
        ("orders", number): (WHO.member_id, f"consumer-{1 + number % 2}-{UUID}") for number in (3, 6, 9, 12)
    }
    return Rebalance(
        group_id="orders-etl",
        cause=Cause(Trigger.SESSION_EXPIRED, WHO, silent_ms=10_019, limit_ms=10_000),
        started=1_700_000_587_120,
        old_generation=12,
        generation=13,
        joined_at=1_700_000_587_158,
        assigned_at=1_700_000_587_159,
        ended=1_700_000_587_161,
        members=2,
        waited_for=Who(f"consumer-1-{UUID}"),
        waited_ms=38,
        moved=moved,
        kept=8,
        dark_ms=dict.fromkeys(moved, 10_060),
    )


def test_explain_in_the_shape_of_a_page() -> None:
    assert words.explain(_rebalance()) == [
        "Generation 12 → 13 of orders-etl, 22:23:07.120, took 41 ms",
        "  why      consumer-3-3f2a9c1e (client consumer-3, 10.0.0.7) sent no heartbeat for 10.0 s"
        " (session.timeout.ms=10000)",
        "  phases   detect 10,019 ms   join 38 ms (longest: consumer-1-3f2a9c1e)   assign 1 ms   sync 2 ms",
        "  moved    4 of 12 partitions: orders:3,9 from consumer-3-3f2a9c1e to consumer-2-3f2a9c1e;"
        " orders:6,12 from consumer-3-3f2a9c1e to consumer-1-3f2a9c1e",
        "  dark     orders:3,6,9,12 for 10.1 s; the other 8 were not stopped",
    ]


def test_explain_in_another_time_zone() -> None:
    assert "23:53:07.120" in words.explain(_rebalance(), timezone(timedelta(minutes=90)))[0]


def test_rebalance_in_a_list() -> None:
    first, phases, moved, dark = words.rebalance(_rebalance())
    assert first.startswith("12 -> 13  because consumer-3-3f2a9c1e (client consumer-3, 10.0.0.7) sent no heartbeat")
    assert phases == "        detect 10,019 ms, join 38 ms (longest: consumer-1-3f2a9c1e), assign 1 ms, sync 2 ms"
    assert moved.startswith("        moved 4 of 12 partitions: orders:3,9 from")
    assert dark == "        dark: orders:3,6,9,12 for 10.1 s; the other 8 were not stopped"


def test_a_rebalance_that_was_overtaken_before_its_generation() -> None:
    entry = Rebalance("g", Cause(Trigger.MEMBER_JOINED, Who("a-1")), 0, 3, ended=1_500, overtaken=True)
    assert words.rebalance(entry) == [
        "3 -> -  because a-1 joined",
        "        detect 0 ms, join -, assign -, sync -",
        "        overtaken by the next rebalance",
    ]
    assert words.explain(entry)[0] == "Generation 3 of g, 00:00:00.000, took 1.5 s"


def test_a_move_of_thousands_stays_short() -> None:
    entry = _rebalance()
    entry.moved = {("orders", number): (f"old-{number}", f"new-{number}") for number in range(5_000)}
    entry.dark_ms = {("orders", number): number for number in range(5_000)}
    lines = words.explain(entry)
    assert lines[3].endswith("; and 4988 more moves")
    assert "; and 4988 more times; the other 8 were not stopped" in lines[4]
    assert lines[4].startswith("  dark     orders:4999 for 5.0 s")
    assert max(map(len, lines)) < 600


# -- the state diagram


def test_the_diagram_has_every_transition_once_and_labels_mermaid_can_read() -> None:
    rows = words.state_diagram().splitlines()[2:]
    assert len(rows) == len(TRANSITIONS)
    for row, (origin, target) in zip(rows, TRANSITIONS, strict=True):
        way, _, label = row.partition(" : ")
        assert way.split() == [origin.value, "-->", target.value]
        assert not set(label) & set(":;")
