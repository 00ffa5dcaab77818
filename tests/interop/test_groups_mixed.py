"""Our consumer in one group with others: when it is late, and when it restarts as a static member."""

from __future__ import annotations

import pytest

from proving.members.events import Place
from proving.members.fleet import Members
from tests.interop.groups import Fleet

PARTITIONS = 6
SHORT_MS = 2_000
MIXES = [
    ("confluent-kafka", "range"),
    ("confluent-kafka", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "cooperative-sticky"),
]


@pytest.mark.parametrize(("other", "assignor"), MIXES)
def test_ours_is_late_and_comes_back(fleet: Fleet, topic: str, places: set[Place], other: str, assignor: str) -> None:
    """The other gets what it had; its commit is refused for good, and it joins again."""
    with Members.of(fleet, topic, assignor=assignor) as members:
        members.join("steady", other)
        members.join("slow", "equipoise", max_poll_ms=SHORT_MS, session_ms=SHORT_MS)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 3))
        members.pause("slow")
        rows = fleet.produce(places, 1)
        members.wait_until("the slow one is at work", lambda: bool(members.told("slow", "paused")))
        members.wait_until("the other has all", lambda: members.owned("steady") == places)
        members.wait_read(rows)
        members.resume("slow")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 3))
        assert {event.error for event in members.told("slow", "refused")} == {"CommitFailedError"}
        assert members.told("slow", "lost")
        assert members.read_again() == set()


@pytest.mark.parametrize(("other", "assignor"), MIXES)
def test_ours_restarts_as_a_static_member(
    fleet: Fleet, topic: str, places: set[Place], other: str, assignor: str
) -> None:
    """Closed or killed, it has the same partitions again, and the other never notices."""
    with Members.of(fleet, topic, assignor=assignor) as members:
        members.join("other", other, instance_id="other")
        members.join("one", "equipoise", instance_id="one")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 3))
        since, owned = members.now, members.owned("one")
        members.close("one")
        members.join("again", "equipoise", instance_id="one", alone=True)
        members.wait_until("it has what it had", lambda: members.owned("again") == owned)
        members.wait_read(fleet.produce(places, 3))
        members.kill("again")
        members.join("a third time", "equipoise", instance_id="one")
        members.wait_until("it has what it had", lambda: members.owned("a third time") == owned)
        members.wait_read(fleet.produce(places, 3))
        assert members.rebalances("other", since) == []
