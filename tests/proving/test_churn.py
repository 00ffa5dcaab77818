"""Row 119 of the plan of tests: members of four clients, all with the consumer protocol, come and go in one group.

No partition has two owners at any instant, none is without one for two heartbeat intervals, and every record is read
once by those who commit before they give up. A killed member's records may be read again.
"""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import pytest

from equipoise.broker import Broker
from proving.members.events import Ledger, Place
from proving.members.fleet import Fleet, Members, places_of
from proving.members.hosts import CONSUMER

CLIENTS = ("equipoise", "java", "confluent-kafka", "franz-go")
TOPIC, PARTITIONS, MOST = "churned", 12, 7
INTERVAL_MS = 1_000
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": INTERVAL_MS,
    "group.consumer.heartbeat.interval.ms": INTERVAL_MS,
    "group.consumer.assignment.interval.ms": 0,
}


def longest_gap(ledger: Ledger, places: set[Place]) -> float:
    """The longest time in seconds for which a partition was without owner, between two owners."""
    spans = ledger.spans()
    pairs = (pair for place in places for pair in itertools.pairwise(sorted(spans.get(place, []))))
    return max((after.start - before.end for before, after in pairs), default=0.0)


def churn(members: Members, places: set[Place], seconds: float, chance: random.Random) -> int:
    """Members join and close by chance, one at a time or two at once, while records come."""
    numbers, ends, rounds = itertools.count(1), time.monotonic() + seconds, 0
    for client in CLIENTS:
        members.join(f"{client} {next(numbers)}", client)
    members.wait_settled(places)
    while time.monotonic() < ends:
        rounds += 1
        rows = members.fleet.produce(places, 2)
        for _ in range(chance.choice((1, 1, 2))):
            if len(members.names) > 2 and (len(members.names) >= MOST or chance.random() < 0.5):
                members.close(chance.choice(members.names))
            else:
                client = chance.choice(CLIENTS)
                members.join(f"{client} {next(numbers)}", client)
        rows |= members.fleet.produce(places, 2)
        members.wait_settled(places)
        members.wait_read(rows)
    return rounds


@pytest.mark.kafka
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.soak)])
def test_four_clients_come_and_go_in_one_consumer_group(tmp_path: Path, seconds: int) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    places = places_of(TOPIC, PARTITIONS)
    with (
        Broker(SETTINGS, topics={TOPIC: PARTITIONS}) as broker,
        Fleet(broker.bootstrap_servers, tmp_path / "log") as fleet,
        Members.of(fleet, TOPIC, assignor=CONSUMER) as members,
    ):
        assert churn(members, places, seconds, random.Random(seed)) >= 3
        assert members.read_again() == set()
        assert longest_gap(members.ledger, places) < 2 * INTERVAL_MS / 1_000
