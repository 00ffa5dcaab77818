"""The assignment that each consumer of that time computed alone: range and roundrobin, exactly. Pure functions.

Their names and idea are those of today's assignors. Their units are threads (streams) of consumers, not members.
roundrobin orders partitions by Java's string hash of their text, which Kafka 1.0 changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Literal, NamedTuple

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError

Name = Literal["range", "roundrobin"]
TextForm = Literal["t-p", "[t,p]"]
Members = Mapping[str, Mapping[str, int]]  # consumer id, topic, number of streams
Partitions = Mapping[str, Sequence[int]]  # of each topic
Decision = dict[TopicPartition, str]  # the thread that is to read it


class UnequalSubscriptionsError(EquipoiseError):
    """Members do not read the same topics with the same streams, and the roundrobin of that time wants them to."""


class Strategy(NamedTuple):
    """How a consumer decides. `form`: the text that roundrobin hashes, t-p since Kafka 1.0, [t,p] before.

    `wants_equals`: roundrobin of Kafka 0.8.2 to 0.10.1, which refuses a group whose topics have not all the same
    threads.
    """

    name: Name
    form: TextForm = "t-p"
    wants_equals: bool = False

    def __str__(self) -> str:
        return self.name if self.name == "range" else f"{self.name} ({self.form})"

    def assign(self, members: Members, partitions: Partitions) -> Decision:
        """For all members: each topic's partitions among the threads that read it."""
        threads = threads_by_topic(members)
        if self.name == "range":
            return _range(threads, partitions)
        if self.wants_equals:
            _check_equal(threads)
        return _roundrobin(threads, partitions, self.form)

    def agrees_with(self, other: Strategy | None) -> bool:
        """Whether both give the same answers: range hashes nothing."""
        return other is not None and self.name == other.name and (self.name == "range" or self.form == other.form)


def thread_ids(consumer_id: str, streams: int) -> list[str]:
    """Numbered from 0 for each topic: thread 0 of two topics is the same one."""
    return [f"{consumer_id}-{number}" for number in range(streams)]


def consumer_of(thread_id: str) -> str:
    """The consumer of a thread: thread ids are CONSUMER-NUMBER."""
    return thread_id.rpartition("-")[0]


def threads_by_topic(members: Members) -> dict[str, list[str]]:
    """In the order of text: c-10 comes before c-2."""
    found: dict[str, list[str]] = {}
    for consumer_id, topics in members.items():
        for topic, streams in topics.items():
            found.setdefault(topic, []).extend(thread_ids(consumer_id, streams))
    return {topic: sorted(threads) for topic, threads in found.items() if threads}


def share_of(consumer_id: str, decision: Mapping[TopicPartition, str]) -> Decision:
    """The part of a decision that goes to the threads of one consumer."""
    return {partition: thread for partition, thread in decision.items() if consumer_of(thread) == consumer_id}


def _range(threads: Mapping[str, Sequence[str]], partitions: Partitions) -> Decision:
    decision: Decision = {}
    for topic, readers in sorted(threads.items()):
        numbers = sorted(partitions.get(topic, ()))
        each, extra = divmod(len(numbers), len(readers))
        start = 0
        for rank, thread in enumerate(readers):
            end = start + each + (rank < extra)
            decision |= {TopicPartition(topic, number): thread for number in numbers[start:end]}
            start = end
    return decision


def _check_equal(threads: Mapping[str, Sequence[str]]) -> None:
    for one, other in pairwise(sorted(threads)):
        if threads[one] != threads[other]:
            differing = sorted(set(threads[one]) ^ set(threads[other]))
            raise UnequalSubscriptionsError(
                "roundrobin of Kafka 0.8.2 to 0.10.1 wants all members to read the same topics, with as many streams "
                f"of each: of {one} and {other}, {', '.join(differing)} read only one"
            )


def _roundrobin(threads: Mapping[str, Sequence[str]], partitions: Partitions, form: TextForm) -> Decision:
    ordered = in_hash_order(
        [TopicPartition(topic, number) for topic in sorted(threads) for number in sorted(partitions.get(topic, ()))],
        form,
    )
    circle = cycle(sorted({thread for readers in threads.values() for thread in readers}))
    readers = {topic: frozenset(names) for topic, names in threads.items()}
    # Threads that do not read the topic are passed over, and have had their turn.
    return {partition: next(thread for thread in circle if thread in readers[partition.topic]) for partition in ordered}


def in_hash_order(partitions: Sequence[TopicPartition], form: TextForm) -> list[TopicPartition]:
    """The order in which roundrobin deals partitions: by Java's hash of their text, so that neighbours part."""
    return sorted(partitions, key=lambda one: java_hash(text_of(one, form)))


def text_of(partition: TopicPartition, form: TextForm) -> str:
    """A partition as the members' version of Kafka prints it. The hash, and so the assignment, depends on it."""
    return f"[{partition.topic},{partition.partition}]" if form == "[t,p]" else str(partition)


def java_hash(text: str) -> int:
    """String.hashCode: 31 times the sum so far, plus the next character, in 32 bits with a sign."""
    total = 0
    for character in text:
        total = (31 * total + ord(character)) & 0xFFFFFFFF
    return total - (1 << 32) if total >= 1 << 31 else total
