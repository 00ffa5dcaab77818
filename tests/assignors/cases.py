"""Groups to assign: by hand, drawn by hypothesis, or at random from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from equipoise.assignors import Assignments, Cluster, GroupMember, Members, Topic
from equipoise.wire.consumer_protocol import Partitions, Subscription

RACKS = ("r1", "r2", "r3")


def cluster(**counts: int) -> Cluster:
    return {name: Topic(count) for name, count in counts.items()}


def member(*topics: str, instance: str | None = None, rack: str | None = None) -> GroupMember:
    return GroupMember(Subscription(topics=list(topics), rack_id=rack), instance)


def partitions_of(assignments: Assignments) -> dict[str, Partitions]:
    return {member_id: assignment.assigned_partitions for member_id, assignment in assignments.items()}


def owners(assigned: Mapping[str, Partitions]) -> dict[tuple[str, int], str]:
    """Who has what; no partition twice."""
    found: dict[tuple[str, int], str] = {}
    for member_id, partitions in assigned.items():
        for topic, numbers in partitions.items():
            for number in numbers:
                assert (topic, number) not in found, f"{topic}-{number}: {found[topic, number]} and {member_id}"
                found[topic, number] = member_id
    return found


def check_valid(cluster: Cluster, members: Members, assigned: Mapping[str, Partitions]) -> None:
    """Everything that has a subscriber is assigned, to subscribers, once; every member has its entry."""
    assert assigned.keys() == members.keys()
    subscribed = {topic for member in members.values() for topic in member.subscription.topics if topic in cluster}
    wanted = {(topic, number) for topic in subscribed for number in range(cluster[topic].partitions)}
    found = owners(assigned)
    assert found.keys() == wanted
    for (topic, _), member_id in found.items():
        assert topic in members[member_id].subscription.topics


def random_cluster(random: Random, racks: bool) -> Cluster:
    counts = [random.randint(0, 9) for _ in range(random.randint(1, 5))]
    if random.random() < 0.5:  # co-partitioned topics
        counts = [counts[0]] * len(counts)
    return {
        f"t{number}": Topic(count, _random_racks(random, count) if racks else ()) for number, count in enumerate(counts)
    }


def _random_racks(random: Random, count: int) -> Sequence[frozenset[str]]:
    copies = random.randint(1, 3)
    return tuple(frozenset(random.sample(RACKS, copies)) for _ in range(count))


def random_members(random: Random, topics: Sequence[str], racks: bool) -> Members:
    wanted = [*topics, "unknown"]
    alike = random.random() < 0.4
    same = random.sample(wanted, random.randint(1, len(wanted)))
    members = {}
    for number in range(random.randint(1, 7)):
        chosen = same if alike else random.sample(wanted, random.randint(0, len(wanted)))
        instance = f"i{random.randint(0, 9)}-{number}" if random.random() < 0.3 else None
        rack = random.choice([None, "", *RACKS, *RACKS, "elsewhere"]) if racks else None
        members[f"m{random.randint(0, 99)}-{number}"] = member(*chosen, instance=instance, rack=rack)
    return members


def random_cases(count: int, seed: int) -> list[tuple[Cluster, Members]]:
    random = Random(seed)
    cases = []
    for number in range(count):
        known = random_cluster(random, racks=number % 2 == 1)
        cases.append((known, random_members(random, list(known), racks=number % 2 == 1)))
    return cases
