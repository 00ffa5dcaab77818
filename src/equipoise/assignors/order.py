"""The orders of Java's assignors, and the subscribers of topics. Members of equal subscriptions form a class."""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.assignors.assignor import Cluster, Members

TopicsBySubscribers = dict[frozenset[int], list[str]]


def java_order(text: str) -> bytes:
    """Java's order of strings, by UTF-16 units: code points above U+FFFF come before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(members: Members) -> list[str]:
    """Static members first, by group.instance.id; then the others by member id."""

    def key(member_id: str) -> tuple[bool, bytes]:
        instance = members[member_id].group_instance_id
        return instance is None, java_order(member_id if instance is None else instance)

    return sorted(members, key=key)


class Subscribers:
    """The members of each existing topic, in a given order of members."""

    def __init__(self, cluster: Cluster, members: Members, order: Iterable[str]) -> None:
        self.order = list(order)
        self.class_of: list[int] = []  # of each member in order
        classes: dict[frozenset[str], int] = {}
        for member_id in self.order:
            topics = frozenset(members[member_id].subscription.topics)
            self.class_of.append(classes.setdefault(topics, len(classes)))
        self.classes = list(classes)
        self.topics = self._sorted_topics(cluster)

    def _sorted_topics(self, cluster: Cluster) -> list[str]:
        wanted = frozenset().union(*self.classes)
        return sorted((topic for topic in wanted if topic in cluster and cluster[topic].partitions > 0), key=java_order)

    def topics_by_classes(self) -> TopicsBySubscribers:
        """Topics by the classes that subscribe to them, in order of topics."""
        classes_of: dict[str, list[int]] = {topic: [] for topic in self.topics}
        for number, subscribed in enumerate(self.classes):
            for topic in subscribed:
                if topic in classes_of:
                    classes_of[topic].append(number)
        topics: TopicsBySubscribers = {}
        for topic, classes in classes_of.items():
            topics.setdefault(frozenset(classes), []).append(topic)
        return topics

    def positions(self, classes: frozenset[int]) -> list[int]:
        """The positions of the members of some classes in the order."""
        return [position for position, number in enumerate(self.class_of) if number in classes]
