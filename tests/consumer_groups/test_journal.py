"""Rule A23.4: one entry for each target epoch says why, what moved, and who was waited for."""

from __future__ import annotations

from equipoise.coordinator.events import TargetReached
from equipoise.coordinator.reasons import Trigger
from tests.consumer_groups.stage import Stage, settle


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
