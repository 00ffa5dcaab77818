"""Static members: a restart costs no rebalance, and an instance that has been replaced is told so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from proving.members.events import Place
from proving.members.fleet import Members
from tests.interop.groups import Fleet, view_group

PARTITIONS = 12
# KafkaJS 2 knows no group.instance.id.
CASES = [
    ("confluent-kafka", "range", "sync"),
    ("confluent-kafka", "cooperative-sticky", "sync"),
    ("kafka-python", "range", "sync"),
    ("kafka-python", "cooperative-sticky", "sync"),
    ("aiokafka", "roundrobin", "sync"),
    ("kcat", "range", "auto"),
]


@pytest.mark.parametrize(("client", "assignor", "commit"), CASES)
def test_restart_without_rebalance(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str, assignor: str, commit: str
) -> None:
    """The leader restarts, then its follower, then one is killed and comes back: the others never notice."""
    with Members.of(fleet, topic, assignor=assignor, commit=commit) as members:
        members.join("one", client, instance_id="one")
        members.wait_settled(places)
        members.join("two", client, instance_id="two")
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 4))
        generation, since = view_group(broker, members.group).generation, members.now

        restart(members, members.close, "one", "one again", client=client, instance_id="one", alone=True)
        assert members.rebalances("two", since) == []
        restart(members, members.close, "two", "two again", client=client, instance_id="two")
        restart(members, members.kill, "one again", "one, a third time", client=client, instance_id="one")
        assert [kind for kind, _ in members.rebalances("two again")] == ["assigned"]

        after = view_group(broker, members.group)
        assert (after.state, after.generation) == ("Stable", generation)
        assert sorted(after.members.values(), key=str) == ["one", "two"]
        assert members.read_again() == set()


def restart(members: Members, end: Callable[[str], None], old: str, new: str, **membership: Any) -> None:
    """The new incarnation gets what the old one had, and reads what came meanwhile."""
    owned = members.owned(old)
    end(old)
    written = members.fleet.produce(owned, 2)
    members.join(new, **membership)
    members.wait_until(f"{new} has what {old} had", lambda: members.owned(new) == owned)
    members.wait_read(written)


# -- two processes with one group.instance.id: the second has the place


def replace_instance(members: Members, client: str, places: set[Place]) -> None:
    members.join("old", client, instance_id="same", may_fail=True)
    members.wait_settled(places)
    members.wait_read(members.fleet.produce(places, 1))
    members.join("new", client, instance_id="same")
    members.wait_until("the new one has the partitions", lambda: members.owned("new") == places)
    members.fleet.produce(places, 1)


def test_fenced_librdkafka_ends(broker: Broker, fleet: Fleet, topic: str, places: set[Place]) -> None:
    members = Members.of(fleet, topic)
    replace_instance(members, "confluent-kafka", places)
    assert "fenced by other consumer with same group.instance.id" in members.wait_failed("old")
    assert view_group(broker, members.group).generation == 1
    members.close("new")


def test_fenced_kafka_python_cannot_commit(broker: Broker, fleet: Fleet, topic: str, places: set[Place]) -> None:
    """It stops its heartbeats and reads on; the commits of the new one stand."""
    members = Members.of(fleet, topic)
    replace_instance(members, "kafka-python", places)
    members.wait_until("the old one is refused", lambda: bool(members.told("old", "refused")))
    assert {event.error for event in members.told("old", "refused")} == {"FencedInstanceIdError"}
    assert len(view_group(broker, members.group).members) == 1
    members.close("old", "new")
