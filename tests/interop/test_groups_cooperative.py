"""The trace of KIP-429 with real clients: a cooperative member owns three partitions, a second one joins. Three
generations, in the middle one a partition that nobody owns, and two partitions on which the first never stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.journal import Rebalance
from equipoise.coordinator.step import Step
from proving.members.events import Place, Row
from proving.members.fleet import Members, places_of
from tests.interop.drivers import Confluent
from tests.interop.drivers.base import PATIENCE_S
from tests.interop.groups import SETTINGS, Fleet, view_group

# A rebalance of a Stable group waits until the test lets it go on.
GATED = {**SETTINGS, "group.rebalance.debounce.ms": 3_600_000, "group.rebalance.incremental": "off"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(GATED) as running:
        yield running


def wait_all_joined(members: Members, broker: Broker, count: int) -> None:
    def has_joined(server: Server) -> bool:
        group = server.group_coordinator.shard_of(members.group).core.groups[members.group]
        return group.state.value == "PreparingRebalance" and group.has_all_joined and len(group.members) == count

    members.wait_until(f"{count} members have joined", lambda: broker.call(has_joined))


def let_go_on(broker: Broker, group_id: str) -> None:
    def complete(server: Server) -> None:
        shard, now = server.group_coordinator.shard_of(group_id), server.clock.now()
        step = Step(now)
        group = shard.core.groups[group_id]
        group.not_before = now
        shard.core.rebalancer.maybe_complete_join(group, step)
        shard.run(step)

    broker.call(complete)


def described(confluent: Confluent, group_id: str) -> list[set[Place]]:
    """What each member has by DescribeGroups, the most first."""
    group = confluent.admin.describe_consumer_groups([group_id])[group_id].result(PATIENCE_S)
    assigned = [{(p.topic, p.partition) for p in m.assignment.topic_partitions} for m in group.members]
    return sorted(assigned, key=len, reverse=True)


def journal(broker: Broker, group_id: str) -> list[Rebalance]:
    return broker.call(
        lambda server: list(server.group_coordinator.shard_of(group_id).core.groups[group_id].journal.entries)
    )


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "kcat"])
def test_three_rounds(broker: Broker, fleet: Fleet, confluent: Confluent, topic: str, client: str) -> None:
    confluent.create_topic(topic, 3)
    places = places_of(topic, 3)
    settings: dict[str, Any] = {"commit": "auto"} if client == "kcat" else {"poll_ms": 3_000}
    with Members.of(fleet, topic, assignor="cooperative-sticky", **settings) as members:
        members.join("first", client)
        members.wait_settled(places)
        members.wait_read(fleet.produce(places, 1))
        g, since = view_group(broker, members.group).generation, members.now

        # Both have joined; the first still has all.
        members.join("second", client)
        wait_all_joined(members, broker, 2)
        assert members.rebalances("first", since) == []
        written = read_meanwhile(members, client, places)
        let_go_on(broker, members.group)

        # One partition was taken from the first and given to nobody; having let go of it, the first has joined again.
        members.wait_until("the first gives one up", lambda: len(members.owned("first")) == 2)
        wait_all_joined(members, broker, 2)
        kept = members.owned("first")
        (moved,) = places - kept
        assert view_group(broker, members.group).generation == g + 1
        assert described(confluent, members.group) == [kept, set()]
        written |= read_meanwhile(members, client, kept)
        unread = fleet.produce({moved}, 1)
        let_go_on(broker, members.group)

        # Now the second has it, and goes on where the first had ended.
        members.wait_until("the second has it", lambda: members.owned("second") == {moved})
        members.wait_read(unread | written)
        assert view_group(broker, members.group).generation == g + 2
        assert described(confluent, members.group) == [kept, {moved}]
        assert members.rebalances("first", since) == [("revoked", {moved})]
        assert members.rebalances("second") == [("assigned", {moved})]
        assert members.read_again() == set()
        middle, last = journal(broker, members.group)[-2:]
        assert (middle.generation, middle.kept, middle.revoked, middle.moved) == (g + 1, 2, [moved], {})
        assert (last.generation, last.kept, last.revoked, list(last.moved)) == (g + 2, 2, [], [moved])
        let_go_on_at_the_end(members, broker)


def read_meanwhile(members: Members, client: str, places: set[Place] | frozenset[Place]) -> set[Row]:
    """While the group waits, the first reads on, until it commits: that waits behind its JoinGroup, as on Kafka. Only
    kafka-python's poll returns nothing until the join is over."""
    written = members.fleet.produce(places, 1)
    if client != "kafka-python":
        members.wait_until("the first reads on", lambda: not written.isdisjoint(members.ledger.read()))
    return written


def let_go_on_at_the_end(members: Members, broker: Broker) -> None:
    members.close("second")
    wait_all_joined(members, broker, 1)
    let_go_on(broker, members.group)
    members.wait_until("the first has all", lambda: len(members.owned("first")) == 3)
