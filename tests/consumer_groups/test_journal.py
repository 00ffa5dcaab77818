"""Rule A23.4: one entry for each target epoch says why, what moved, who was called, and who waited for whom."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipoise.broker.groups.journal import json_pieces, rebalance_row
from equipoise.console.words import explain, rebalance
from equipoise.coordinator.consumer import story as told
from equipoise.coordinator.events import TargetReached
from equipoise.coordinator.journal import Rebalance, Wait
from equipoise.coordinator.reasons import Trigger
from equipoise.views.timeline import tell
from tests.consumer_groups.stage import SESSION, Member, Stage, settle


def test_an_entry_for_every_target_epoch() -> None:
    stage = Stage(t=4)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    a.ack()
    began = stage.now
    b.join("t")
    stage.advance(700)
    a.beat()
    stage.advance(300)
    a.ack()
    b.beat()
    journal = stage.group.journal
    while journal.settle() is not None:
        pass
    first, second = journal.entries
    assert (first.cause.trigger, first.cause.who.member_id, first.generation) == (Trigger.MEMBER_JOINED, "a", 2)
    assert (len(first.moved), first.kept, first.members) == (4, 0, 1)
    assert (second.cause.trigger, second.cause.who.member_id) == (Trigger.MEMBER_JOINED, "b")
    assert (second.old_generation, second.generation, second.started, second.ended) == (2, 3, began, began + 1_000)
    assert (set(second.moved.values()), second.kept, second.members) == ({("a", "b")}, 2, 2)
    assert (second.waited_for.member_id, second.waited_ms, second.overtaken) == ("a", 1_000, False)


def test_a_member_with_a_long_id_does_not_make_a_long_entry() -> None:
    """The id is the client's choice, 32 KB at most: 1,000 partitions would be a row of 32 MB."""
    stage = Stage(t=1_000)
    a = stage.member("a" * 32_000)
    a.join("t")
    a.ack()
    (entry,) = stage.group.journal.entries
    assert sum(len(owner) for _, owner in entry.moved.values()) <= 500_000
    assert (len(entry.moved) + entry.cut, entry.moved[("t", 0)]) == (1_000, (None, "a" * 32_000))


def test_a_target_that_is_overtaken_has_its_entry_too() -> None:
    stage = Stage(t=4)
    a, b, c = (stage.member(name) for name in "abc")
    a.join("t")
    a.ack()
    b.join("t")
    c.join("t")
    settle(stage, a, b, c)
    assert [(one.generation, one.overtaken) for one in stage.group.journal.entries] == [
        (2, False),
        (3, True),
        (4, False),
    ]
    reached = [(one.epoch, one.overtaken) for one in stage.events if isinstance(one, TargetReached)]
    assert reached == [(2, False), (3, True), (4, False)]


def test_causes_of_each_kind() -> None:
    stage = Stage(t=2, u=1)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    a.ack()
    a.send(subscribed_topic_names=["t", "u"])
    stage.set_topics(t=3)
    a.beat()
    b.join("t", server_assignor="range")
    settle(stage, a, b)
    b.leave()
    settle(stage, a)
    assert [one.cause.trigger for one in stage.group.journal.entries] == [
        Trigger.MEMBER_JOINED,
        Trigger.SUBSCRIPTION_CHANGED,
        Trigger.TOPICS_CHANGED,
        Trigger.MEMBER_JOINED,
        Trigger.MEMBER_LEFT,
    ]
    a.leave()
    assert stage.group.journal.entries[-1].revoked == [("t", 0), ("t", 1), ("t", 2), ("u", 0)]


def entries(stage: Stage) -> list[Rebalance]:
    journal = stage.group.journal
    while journal.settle() is not None:
        pass
    return list(journal.entries)


def three_with_one_more() -> tuple[Stage, Member, Member, Member]:
    """b and c come to a, which has four partitions and takes a second to give up."""
    stage = Stage(t=4)
    a, b, c = (stage.member(name) for name in "abc")
    a.join("t")
    a.ack()
    b.join("t")
    stage.advance(200)
    a.beat()
    stage.advance(1_000)
    a.ack()
    b.beat()
    b.ack()
    return stage, a, b, c


def test_who_was_called_who_waited_and_how_long_it_was_dark() -> None:
    stage, _, _, _ = three_with_one_more()
    entry = entries(stage)[-1]
    assert entry.called == {"a": 200, "b": 1_200}
    assert entry.done == {"a": 1_200, "b": 1_200}, "a has given up, and b has what it gave"
    assert entry.waits == [Wait("b", "a", 2, 1_200)]
    assert entry.dark_ms == {("t", 2): 1_000, ("t", 3): 1_000}, "dark from when a was told to give it up"
    assert entry.longest_dark_ms == 1_000


def test_who_is_not_concerned_is_not_called() -> None:
    stage, a, b, c = three_with_one_more()
    c.join("t")
    settle(stage, a, b, c)
    entry = entries(stage)[-1]
    assert len(entry.moved) == 1
    (loser,) = {before for before, _ in entry.moved.values()}
    assert entry.called.keys() == {loser, "c"}


def test_all_causes_since_the_last_target_are_told() -> None:
    stage = Stage({"group_consumer_assignment_interval_ms": 1_000}, t=6)
    a, b, c, d = (stage.member(name) for name in "abcd")
    a.join("t")
    a.ack()
    b.join("t")
    c.join("t")
    d.join("t")
    d.leave()
    settle(stage, a, b, c)
    entry = entries(stage)[-1]
    causes = [entry.cause, *entry.further_causes]
    assert [(one.trigger, one.who.member_id) for one in causes] == [
        (Trigger.MEMBER_JOINED, "b"),
        (Trigger.MEMBER_JOINED, "c"),
        (Trigger.MEMBER_JOINED, "d"),
        (Trigger.MEMBER_LEFT, "d"),
    ]
    assert (entry.old_generation, entry.generation) == (2, 6)


def test_the_cause_of_a_refused_heartbeat_is_not_told() -> None:
    stage = Stage(t=2)
    a = stage.member("a")
    a.join("t")
    a.ack()
    assert stage.member("b").join("t", subscribed_topic_regex="(").error_code == 128
    c = stage.member("c")
    c.join("t")
    settle(stage, a, c)
    last = entries(stage)[-1]
    assert (last.cause.who.member_id, last.further_causes) == ("c", [])


def test_a_lost_member_leaves_the_dark_since_it_was_last_heard_of() -> None:
    stage = Stage(t=2)
    a, b = stage.member("a"), stage.member("b")
    a.join("t")
    b.join("t")
    settle(stage, a, b)
    last_heard = stage.group.presence_of("b").last_seen
    while "b" in stage.group.members:
        stage.advance(3_000)
        a.beat()
    settle(stage, a)
    entry = entries(stage)[-1]
    (dark,) = entry.dark_ms.values()
    assert entry.cause.trigger is Trigger.SESSION_EXPIRED
    assert SESSION <= dark <= stage.now - last_heard
    assert entry.longest_dark_ms == dark
    assert list(entry.moved.values()) == [("b", "a")]


def test_an_overtaken_target_lists_what_moved_until_then() -> None:
    stage = Stage(t=4)
    a, b, c = (stage.member(name) for name in "abc")
    a.join("t")
    a.ack()
    b.join("t")
    stage.advance(500)
    a.beat()
    a.ack()  # free now, and b has not asked yet
    c.join("t")
    settle(stage, a, b, c)
    overtaken, last = entries(stage)[-2:]
    assert overtaken.overtaken
    assert overtaken.revoked == [("t", 2), ("t", 3)]
    assert overtaken.waits == [Wait("b", "a", 2, 500)]
    taken = {partition: owner for entry in (overtaken, last) for partition, (_, owner) in entry.moved.items()}
    owners = {(stage.image.name_of(topic), number): one for (topic, number), one in stage.group.owners.items()}
    assert {partition: owner for partition, owner in owners.items() if owner != "a"} == {
        partition: owner for partition, owner in taken.items() if owner != "a"
    }


def test_an_entry_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "COMPARED", 10)
    stage = Stage({"group_consumer_assignment_interval_ms": 1_000}, t=40)
    a = stage.member("a")
    a.join("t")
    a.ack()
    for number in range(120):
        stage.member(f"m{number}").join("t")
    a.leave()
    stage.advance(1_000)
    stage.member("m0").join("t")
    stage.advance(1_000)
    stage.member("z").join("t")
    first, second = entries(stage)[:2]
    assert (len(first.moved), first.cut, first.kept) == (10, 30, 0)
    assert len(second.further_causes) == 100
    story = stage.group.story
    assert max(len(story.owners), len(story.dark), len(story.awaited), len(story.causes)) <= 10


def test_the_entry_of_a_large_target_is_listed_in_steps() -> None:
    """It is as complete as that of a small one, when the journal is settled."""
    stage = Stage(t=5_000)
    a = stage.member("a")
    a.join("t")
    a.ack()
    (entry,) = stage.group.journal.entries
    assert entry.moved == {}, "left for later"
    steps = sum(1 for _ in stage.group.journal.settling())
    assert steps >= 50
    assert (entry.moved[("t", 4_999)], len(entry.moved), entry.kept, entry.cut) == ((None, "a"), 5_000, 0, 0)
    assert not stage.group.journal.has_unsettled


@pytest.mark.parametrize("count", [0, 499, 500, 501, 1_000, 1_250])
def test_a_long_row_becomes_text_in_pieces(count: int) -> None:
    many = [["t", number, None, "a"] for number in range(count)]
    rows: list[dict[str, Any]] = [
        {"type": "rebalance", "moved": many, "kept": 3},
        {"moved": many},
        {"moved": many, "dark_ms": many, "cause": {"said": 'a",'}},
        {"kept": 1, "moved": many},
    ]
    for row in rows:
        for lazy in (row, {name: iter(value) if isinstance(value, list) else value for name, value in row.items()}):
            pieces = list(json_pieces(lazy))
            assert "".join(pieces) == json.dumps(row, separators=(",", ":"))
            assert (len(pieces) > 2) is (count > 500)
            assert max(map(len, pieces)) < 20_000


def test_the_row_the_words_and_the_history_read_it() -> None:
    stage, _, _, _ = three_with_one_more()
    entry = entries(stage)[-1]
    row = rebalance_row(entry)
    assert (row["called"], row["waits"]) == ([["a", 200], ["b", 1_200]], [["b", "a", 2, 1_200]])
    assert (row["further_causes"], row["longest_dark_ms"]) == ([], 1_000)
    assert explain(entry) == EXPLAINED.splitlines()
    assert any("called 2 of 2: a, b" in line for line in rebalance(entry))
    rows = [rebalance_row(one) for one in entries(stage)]
    tables = tell("g", rows, [])
    last = tables.rebalances[-1]
    assert (last["called"], last["longest_dark_ms"], last["moved"]) == (2, 1_000, 2)
    spans = [one for one in tables.ownership if one["partition"] == 3]
    assert [one.get("member_id") for one in spans] == ["a", None, "b"]
    gap = spans[1]
    assert gap["ended"] - gap["began"] == 1_000


EXPLAINED = """\
Epoch 2 → 3 of g, 22:13:20.000, took 1.2 s
  why      b (client b, h) joined
  phases   detect 0 ms   target 0 ms   reconcile 1,200 ms (longest: a)
  called   2 of 2: a, b
  waited   b 1.2 s for a
  moved    2 of 4 partitions: t:2,3 from a to b
  dark     t:2,3 for 1.0 s; the other 2 were not stopped"""
