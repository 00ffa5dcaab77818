"""Members of real clients whose connections end: a process that is killed makes room for the others long before its
session ends; one that is only cut off, alone or with all others, loses nothing."""

from __future__ import annotations

import time

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.reasons import Trigger
from proving.members.events import Place
from proving.members.fleet import Members
from proving.members.view import CONSUMER
from tests.interop.groups import Fleet, view_group

PARTITIONS = 6
SESSION_MS = 45_000
SHOWN_S = 3.5  # a member's heartbeat interval is known, usually 3 s
OVERDUE_S = 6.0  # after a heartbeat of the consumer protocol the next one is half a second overdue
JUST_NOW_MS = 300
SOON_S = 8.0  # 3.5 s at most for the broker, and the client's own time on a busy machine; a session is 45 s
CLIENTS = [
    ("equipoise", "range"),
    ("equipoise", "cooperative-sticky"),
    ("confluent-kafka", "range"),
    ("confluent-kafka", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("aiokafka", "range"),
]
clients = pytest.mark.parametrize(("client", "assignor"), CLIENTS)
CRASHING = [*CLIENTS, ("equipoise", CONSUMER), ("confluent-kafka", CONSUMER)]


def wait_shown(members: Members, broker: Broker) -> None:
    """The broker has seen two heartbeats of each member, an interval apart."""

    def look(server: Server) -> bool:
        core = server.group_coordinator.shard_of(members.group).core
        if members.group in core.consumer_groups:
            return True  # the broker has told them theirs
        group = core.groups[members.group]
        return all(one.longest_silence_ms >= 50 for one in group.members.values())

    members.wait_until("the heartbeat intervals are known", lambda: broker.call(look))


def cut(broker: Broker, group: str, count: int) -> int:
    """Ends so many connections that carry members of the group, as a network does: neither side has said so."""

    def end(server: Server) -> int:
        carrying = [one for one in server.connections if any(key[0] == group for key in one.carried.members)]
        for one in carrying[:count]:
            one._transport.abort()
        return len(carrying[:count])

    return broker.call(end)


@pytest.mark.parametrize(("client", "assignor"), CRASHING)
def test_a_killed_process_makes_room(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str, assignor: str
) -> None:
    with Members.of(fleet, topic, assignor=assignor, session_ms=SESSION_MS) as members:
        members.join("one", client)
        members.join("two", client)
        members.join("victim", client, alone=True)
        members.wait_settled(places)
        wait_shown(members, broker)
        began = time.monotonic()
        members.kill("victim")
        members.wait_settled(places)
        assert time.monotonic() - began < (SOON_S if assignor != CONSUMER else SOON_S + 2)  # their interval is 5 s
        if assignor != CONSUMER:
            causes = [entry.cause.trigger for entry in broker.groups[members.group].rebalances]
            assert causes.count(Trigger.CONNECTION_LOST) == 1


@clients
def test_a_member_that_is_cut_off_comes_back_and_nobody_notices(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str, assignor: str
) -> None:
    with Members.of(fleet, topic, assignor=assignor, session_ms=SESSION_MS) as members:
        for name in ("one", "two", "three"):
            members.join(name, client)
        members.wait_settled(places)
        wait_shown(members, broker)
        before, since = view_group(broker, members.group), members.now
        for _ in range(3):
            assert cut(broker, members.group, 1) == 1
            time.sleep(SHOWN_S)  # what must not happen would happen within this time
        members.wait_read(fleet.produce(places, 3))
        assert view_group(broker, members.group) == before
        assert [members.rebalances(name, since) for name in members.names] == [[], [], []]


def cut_after_heartbeat(broker: Broker, group: str) -> bool:
    """Ends the connection of a member whose heartbeat has just come and is held; False: there is none."""

    def end(server: Server) -> bool:
        now, core = server.clock.now(), server.group_coordinator.shard_of(group).core
        for one in server.connections:
            found = (core.presence_of(*key) for key in one.carried.members if key[0] == group)
            if one.held_heartbeat.is_held and any(each and now - each.last_seen < JUST_NOW_MS for each in found):
                one._transport.abort()
                return True
        return False

    return broker.call(end)


@pytest.mark.parametrize("client", ["equipoise", "confluent-kafka"])
def test_a_consumer_that_is_cut_off_is_waited_for_until_its_heartbeat_is_due(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str
) -> None:
    """Rule 7.9.3: librdkafka connects again at once, and sends its next heartbeat 5 s after the last one."""
    with Members.of(fleet, topic, assignor=CONSUMER) as members:
        for name in ("one", "two", "three"):
            members.join(name, client)
        members.wait_settled(places)
        before, since = view_group(broker, members.group), members.now
        members.wait_until("a heartbeat is held", lambda: cut_after_heartbeat(broker, members.group))
        time.sleep(OVERDUE_S)  # what must not happen would happen within this time
        members.wait_read(fleet.produce(places, 3))
        assert view_group(broker, members.group) == before
        assert [members.rebalances(name, since) for name in members.names] == [[], [], []]


@pytest.mark.parametrize("client", ["equipoise", "confluent-kafka", "kafka-python", "aiokafka"])
def test_a_proxy_that_drops_everybody_empties_no_group(
    broker: Broker, fleet: Fleet, topic: str, places: set[Place], client: str
) -> None:
    with Members.of(fleet, topic, assignor="range", session_ms=SESSION_MS) as members:
        for name in ("one", "two", "three"):
            members.join(name, client)
        members.wait_settled(places)
        wait_shown(members, broker)
        before, since = view_group(broker, members.group), members.now
        assert cut(broker, members.group, 100) >= 3
        time.sleep(2 * SHOWN_S)  # what must not happen would happen within this time
        members.wait_read(fleet.produce(places, 3))
        assert view_group(broker, members.group) == before
        assert [members.rebalances(name, since) for name in members.names] == [[], [], []]
