"""The judge of the group tests is judged: two owners at a time are seen, one after the other is fine."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from aiokafka import TopicPartition

from proving.members.aiokafka_member import Listener as AioKafkaListener
from proving.members.child import Member
from proving.members.events import Event, Ledger, MemberError, Place
from proving.members.hosts import Membership

ZERO: Place = ("topic", 0)
BOTH: frozenset[Place] = frozenset({ZERO, ("topic", 1)})


def ledger(*events: tuple[float, str, str, frozenset[Place]]) -> Ledger:
    made = Ledger()
    for event in events:
        made.note(Event(*event))
    return made


@pytest.mark.parametrize("release", ["revoked", "lost", "stopped", "killed"])
def test_one_after_the_other(release: str) -> None:
    told = ledger((1, "a", "assigned", BOTH), (2, "a", release, BOTH), (2, "b", "assigned", BOTH))
    told.check_single_owners()
    assert (told.owned("a"), told.owned("b")) == (frozenset(), BOTH)


def test_order_is_by_time_and_not_by_arrival() -> None:
    ledger((3, "b", "assigned", BOTH), (1, "a", "assigned", BOTH), (2, "a", "revoked", BOTH)).check_single_owners()


@pytest.mark.parametrize("revoked", [frozenset(), BOTH - {ZERO}], ids=["nothing given up", "the other given up"])
def test_two_at_a_time(revoked: frozenset[Place]) -> None:
    told = ledger((1, "a", "assigned", BOTH), (2, "a", "revoked", revoked), (3, "b", "assigned", frozenset({ZERO})))
    with pytest.raises(MemberError, match="two owners"):
        told.check_single_owners()


def test_late_release() -> None:
    told = ledger((1, "a", "assigned", BOTH), (2, "b", "assigned", BOTH), (3, "a", "stopped", frozenset()))
    with pytest.raises(MemberError, match="two owners"):
        told.check_single_owners()


def test_whole_assignment_replaces() -> None:
    told = ledger((1, "a", "assigned", BOTH))
    told.note(Event(2, "a", "assigned", frozenset({ZERO}), whole=True))
    assert told.owned("a") == {ZERO}
    told.note(Event(3, "b", "assigned", BOTH - {ZERO}))
    told.check_single_owners()


def test_what_aiokafka_is_assigned_on_its_way_out_is_nobodys(capsys: pytest.CaptureFixture[str]) -> None:
    """Its rebalance goes on while it stops, and nobody is told when it gives up what that brings."""
    member = Member("", {**asdict(Membership("group")), "member": "a"})
    listener = AioKafkaListener(member)
    listener.on_partitions_assigned({TopicPartition(*ZERO)})
    listener.stop()
    listener.on_partitions_assigned({TopicPartition(*ZERO)})
    assert [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()] == ["assigned", "stopped"]


def test_commits_cover_the_records_before() -> None:
    told = Ledger()
    told.note(Event(1, "a", "records", rows=(("topic", 0, 4), ("topic", 0, 5))))
    assert told.committed() == {}
    told.note(Event(2, "a", "committed"))
    told.note(Event(3, "a", "records", rows=(("topic", 0, 6),)))
    assert told.committed() == {ZERO: 6}
