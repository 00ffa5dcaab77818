"""Groups to assign: by hand, drawn by hypothesis, or at random from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from hypothesis import strategies as st

from equipoise.assignors import Assignments, Cluster, GroupMember, Members, Topic
from equipoise.assignors.racks import is_near, racks_matter
from equipoise.wire.consumer_protocol import (
    NO_GENERATION,
    Partitions,
    StickyUserData,
    Subscription,
    encode_sticky_user_data,
)

RACKS = ("r1", "r2", "r3")
Owned = Mapping[tuple[str, int], str]  # the owner of a topic's partition
Score = tuple[int, int, int]  # squares of loads, partitions not in their owner's rack, moves: less is better


def cluster(**counts: int) -> Cluster:
    return {name: Topic(count) for name, count in counts.items()}


def member(*topics: str, instance: str | None = None, rack: str | None = None) -> GroupMember:
    return GroupMember(Subscription(topics=list(topics), rack_id=rack), instance)


def partitions_of(assignments: Assignments) -> dict[str, Partitions]:
    return {member_id: assignment.assigned_partitions for member_id, assignment in assignments.items()}


def owners(assigned: Mapping[str, Partitions]) -> Owned:
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


class Group(NamedTuple):
    """A group before a rebalance."""

    cluster: Cluster
    topics: Mapping[str, list[str]]  # that each member subscribes to
    owned: Owned = MappingProxyType({})
    racks: Mapping[str, str | None] = MappingProxyType({})

    def sticky(self) -> Members:
        """Members of `sticky`, who remember in the user data."""
        return {
            name: GroupMember(Subscription(topics=topics, user_data=self._memory(name), rack_id=self.racks.get(name)))
            for name, topics in self.topics.items()
        }

    def cooperative(self, generation_id: int = 1) -> Members:
        """Members of `cooperative-sticky`, who still own."""
        return {name: owning(self.topics[name], self.owned_by(name), generation_id) for name in self.topics}

    def owned_by(self, member_id: str) -> Partitions:
        partitions: Partitions = {}
        for (topic, number), owner in self.owned.items():
            if owner == member_id:
                partitions.setdefault(topic, []).append(number)
        return partitions

    def partitions(self) -> list[tuple[str, int]]:
        return [(name, number) for name, topic in self.cluster.items() for number in range(topic.partitions)]

    def is_far(self, member_id: str, topic: str, number: int) -> bool:
        """Whether a member is not in a rack of the replicas, and racks matter."""
        wanted = {name for topics in self.topics.values() for name in topics if name in self.cluster}
        replicas = [racks for name in wanted for racks in self.cluster[name].racks]
        rack = self.racks.get(member_id)
        return racks_matter(self.racks.values(), replicas) and not is_near(rack, self.cluster[topic].racks[number])

    def score(self, assigned: Mapping[str, Partitions]) -> Score:
        loads = [sum(map(len, partitions.values())) for partitions in assigned.values()]
        found = owners(assigned)
        far = sum(self.is_far(name, *key) for key, name in found.items())
        return sum(load * load for load in loads), far, sum(self.owned.get(key) != name for key, name in found.items())

    def _memory(self, member_id: str) -> bytes:
        return encode_sticky_user_data(StickyUserData(owned_partitions=self.owned_by(member_id), generation_id=1))


def owning(topics: Sequence[str], owned: Partitions, generation_id: int = NO_GENERATION) -> GroupMember:
    return GroupMember(Subscription(topics=list(topics), owned_partitions=owned, generation_id=generation_id))


@st.composite
def groups(draw: st.DrawFn, alike: bool = False, racks: bool = False) -> Group:
    """Small enough for brute force. Some owners are not there any more, or not subscribed; some own most."""
    replicas = draw(st.lists(st.frozensets(st.sampled_from(RACKS), min_size=1), min_size=1, max_size=3))
    known = {
        f"t{number}": Topic(count, tuple(draw(st.sampled_from(replicas)) for _ in range(count)) if racks else ())
        for number, count in enumerate(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    }
    names = [f"m{number}" for number in range(draw(st.integers(1, 5)))]
    wanted = st.sets(st.sampled_from([*known, "unknown"])).map(sorted)
    choices = draw(st.lists(wanted, min_size=1, max_size=1 if alike else 4))
    topics = {name: draw(st.sampled_from(choices)) for name in names}
    owner = st.sampled_from([*draw(st.sets(st.sampled_from(names))), "gone"])
    owned = {key: draw(owner) for key in Group(known, topics).partitions()}
    rack = st.sampled_from([None, *RACKS])
    return Group(
        known,
        topics,
        {key: name for key, name in owned.items() if name != "gone"},
        {name: draw(rack) for name in names} if racks else {},
    )


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


def random_groups(count: int, seed: int, racks: bool = False) -> list[Group]:
    """Many with equal subscriptions; between nothing and everything is owned, evenly or not. Everyone subscribes to
    something: where one member does not, Kafka's sticky assignor (4.3) may give it what it does not want."""
    random = Random(seed)
    found = []
    for _ in range(count):
        known = random_cluster(random, racks)
        members = random_members(random, list(known), racks)
        topics = {name: member.subscription.topics or list(known) for name, member in members.items()}
        share, some = random.random(), random.sample(list(members), random.randint(1, len(members)))
        owned = {key: random.choice(some) for key in Group(known, topics).partitions() if random.random() < share}
        racks_of = {name: member.subscription.rack_id for name, member in members.items()}
        found.append(Group(known, topics, owned, racks_of))
    return found


def random_cases(count: int, seed: int) -> list[tuple[Cluster, Members]]:
    """Every other one with racks."""
    random = Random(seed)
    cases = []
    for number in range(count):
        known = random_cluster(random, racks=number % 2 == 1)
        cases.append((known, random_members(random, list(known), racks=number % 2 == 1)))
    return cases
