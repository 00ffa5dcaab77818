"""What consumers with group.protocol=consumer go through, on whichever broker: rules B of
docs/rules/consumer-members.md over sockets."""

from __future__ import annotations

import threading
import uuid
from collections import Counter

import pytest

from equipoise import Admin, Consumer, TopicPartition
from equipoise.errors import CommitFailedError
from equipoise.member.consumer.member import ConsumerMember
from equipoise.wire.errors import ErrorCode
from tests.client.group_of_readers import Running, readers, until
from tests.client.writing import Reachable, produce


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def create(broker: Reachable, partitions: int = 6, prefix: str = "t") -> str:
    topic = fresh(prefix)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, replication_factor=1)
    return topic


def settled(*running: Running, total: int = 6) -> None:
    """Until they share all partitions evenly, each known to one alone."""

    def holds() -> bool:
        owned = [partition for one in running for partition in one.owns]
        sizes = [len(one.owns) for one in running]
        return sorted(owned) == list(range(total)) and max(sizes) - min(sizes) <= 1

    until(holds)


def read_all(topic: str, count: int, *running: Running) -> None:
    until(lambda: sum(len(one.records) for one in running) >= count)
    found = Counter(record for one in running for record in one.records)
    assert sum(found.values()) == count == len(found), "records were read twice"
    assert {name for name, _, _ in found} == {topic}


def joins_and_reads(broker: Reachable) -> None:
    topic = create(broker)
    produce(broker, topic, 60, partitions=6)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic)
        read_all(topic, 60, a)
        assert isinstance(a.consumer._engine.member, ConsumerMember)
        assert a.consumer.member_id
        assert a.consumer.generation_id > 0
        assert a.kinds[-1] == "on_assigned"
        assert a.failures == []


def hands_over(broker: Reachable) -> None:
    """A second one joins, both read on, the first leaves: every record once, since poll() commits before it revokes."""
    topic = create(broker)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic)
        settled(a)
        produce(broker, topic, 60, partitions=6)
        read_all(topic, 60, a)
        b = group.add("b", topic)
        settled(a, b)
        assert "on_lost" not in a.kinds
        produce(broker, topic, 60, partitions=6)
        read_all(topic, 120, a, b)
        a.close()
        settled(b)
        produce(broker, topic, 60, partitions=6)
        read_all(topic, 180, a, b)
        assert a.failures == b.failures == []


def many_come_and_go(broker: Reachable) -> None:
    topic = create(broker, 12)
    with readers(broker, fresh("g")) as group:
        everyone = [group.add(f"m{number}", topic) for number in range(3)]
        settled(*everyone, total=12)
        produce(broker, topic, 120, partitions=12)
        everyone.append(group.add("m3", topic))
        settled(*everyone, total=12)
        produce(broker, topic, 120, partitions=12)
        for gone in everyone[:2]:
            gone.close()
        settled(*everyone[2:], total=12)
        produce(broker, topic, 120, partitions=12)
        read_all(topic, 360, *everyone)


def commits(broker: Reachable) -> None:
    topic, group_id = create(broker, 2), fresh("g")
    produce(broker, topic, 20, partitions=2)
    with readers(broker, group_id) as group:
        a = group.add("a", topic, enable_auto_commit=False)
        until(lambda: len(a.records) == 20)
        a.stop()
        a.consumer.commit()
        found = a.consumer.committed()
        assert {at.offset for at in found.values()} == {10}
    produce(broker, topic, 10, partitions=2)
    with readers(broker, group_id) as group:
        b = group.add("b", topic)
        until(lambda: len(b.records) == 10)
        assert {offset for _, _, offset in b.records} == set(range(10, 15))


def commits_of_others_are_refused(broker: Reachable) -> None:
    """A consumer that is no member, and assigns itself, cannot commit to a group with members."""
    topic, group_id = create(broker, 1), fresh("g")
    with readers(broker, group_id) as group:
        a = group.add("a", topic)
        settled(a, total=1)
        outsider = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group_id})
        with outsider:
            outsider.assign([(topic, 0)])
            with pytest.raises(CommitFailedError) as refused:
                outsider.commit({TopicPartition(topic, 0): 5})
            assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def patterns_of_the_broker(broker: Reachable) -> None:
    mark = uuid.uuid4().hex[:8]
    first, other = f"{mark}-one", f"other-{mark}-one"
    with Admin(broker.bootstrap_servers) as admin:
        for name in (first, other):
            admin.create_topic(name, 2, replication_factor=1)
        produce(broker, first, 10, partitions=2)
        with readers(broker, fresh("g")) as group:
            a = group.add("a", regex=f"{mark}-.*")
            until(lambda: len(a.records) == 10)
            assert a.consumer.subscription() == {first}
            second = f"{mark}-two"
            admin.create_topic(second, 1, replication_factor=1)
            produce(broker, second, 5, partitions=1)
            until(lambda: len(a.records) == 15)
            assert {name for name, _, _ in a.records} == {first, second}
            a.stop()
            a.consumer.subscribe([other])
            assert a.consumer.subscription() == {other}


def a_bad_pattern_is_fatal(broker: Reachable) -> None:
    create(broker, 1)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", regex="a(b")
        until(lambda: len(a.failures) >= 2)
        assert {getattr(one, "code", None) for one in a.failures} == {ErrorCode.INVALID_REGULAR_EXPRESSION}


def a_static_member_restarts(broker: Reachable) -> None:
    """It leaves for a while: what it owned waits for it, and nobody else moves."""
    topic = create(broker)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic, group_instance_id="one")
        b = group.add("b", topic, group_instance_id="two")
        settled(a, b)
        owned, told = a.owns, list(b.told)
        a.close()
        again = group.add("a again", topic, group_instance_id="one")
        until(lambda: again.owns == owned)
        assert b.told == told
        settled(again, b)


def an_administrator_removes_a_member(broker: Reachable) -> None:
    topic = create(broker)
    produce(broker, topic, 60, partitions=6)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic)
        read_all(topic, 60, a)
        a.consumer.commit_async()
        member_id = a.consumer.member_id
        group.ledger.forgiven.add("a")
        group.remove(member_id)
        until(lambda: "on_lost" in a.kinds)
        settled(a)
        assert a.consumer.member_id == member_id
        produce(broker, topic, 60, partitions=6)
        until(lambda: len(set(a.records)) == 120)


def partitions_are_added(broker: Reachable) -> None:
    topic = create(broker, 2)
    with readers(broker, fresh("g")) as group:
        a, b = group.add("a", topic), group.add("b", topic)
        settled(a, b, total=2)
        with Admin(broker.bootstrap_servers) as admin:
            admin.add_partitions(topic, 6)
        settled(a, b, total=6)
        produce(broker, topic, 60, partitions=6)
        read_all(topic, 60, a, b)


def an_application_polls_too_late(broker: Reachable) -> None:
    topic = create(broker)
    with readers(broker, fresh("g")) as group:
        group.ledger.forgiven.add("a")
        a = group.add("a", topic, max_poll_interval_ms=2_000)
        b = group.add("b", topic)
        settled(a, b)
        a.is_paused.set()
        until(lambda: len(b.owns) == 6)
        assert "on_lost" not in a.kinds
        a.is_paused.clear()
        until(lambda: "on_lost" in a.kinds)
        settled(a, b)


def a_listener_fails_and_is_called_again(broker: Reachable) -> None:
    topic = create(broker)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic)
        settled(a)
        attempts = threading.Semaphore(0)

        def fail_once() -> None:
            attempts.release()
            a.in_revoked = lambda: None
            raise RuntimeError("not now")

        a.in_revoked = fail_once
        b = group.add("b", topic)
        settled(a, b)
        assert [str(one) for one in a.failures] == ["not now"]
        assert a.kinds.count("on_revoked") == 2


def auto_takes_the_consumer_protocol(broker: Reachable) -> None:
    topic = create(broker, 1)
    produce(broker, topic, 5, partitions=1)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic, group_protocol="auto")
        until(lambda: len(a.records) == 5)
        assert isinstance(a.consumer._engine.member, ConsumerMember)
        plain = group.add("b", topic, group_protocol="auto", session_timeout_ms=10_000)
        assert not isinstance(plain.consumer._engine.member, ConsumerMember)


def a_classic_member_shares_the_group(broker: Reachable) -> None:
    """Rolling upgrade from classic members, and back. The scout waits until the coordinator has heard of the topic:
    what classic members own of a topic that it does not know yet, Apache Kafka 4.3.1 takes for free when it upgrades
    the group, and gives it to others."""
    topic = create(broker)
    with readers(broker, fresh("g")) as group:
        scout = group.add("scout", topic)
        settled(scout)
        scout.close()
        old = group.add("old", topic, group_protocol="classic", heartbeat_interval_ms=200, session_timeout_ms=30_000)
        settled(old)
        new = group.add("new", topic)
        settled(old, new)
        old.close()
        settled(new)
        back = group.add("back", topic, group_protocol="classic", heartbeat_interval_ms=200, session_timeout_ms=30_000)
        settled(new, back)
        new.close()
        settled(back)


def unsubscribes_and_subscribes_again(broker: Reachable) -> None:
    topic, other = create(broker, 2), create(broker, 2)
    with readers(broker, fresh("g")) as group:
        a = group.add("a", topic)
        settled(a, total=2)
        a.is_paused.set()
        a.stop()
        a.consumer.unsubscribe()
        assert a.consumer.assignment() == set()
        a.consumer.subscribe([other], a)
        until(lambda: not a.consumer.poll(0.1) and {one.topic for one in a.consumer.assignment()} == {other})


SCENARIOS = [
    joins_and_reads,
    hands_over,
    many_come_and_go,
    commits,
    commits_of_others_are_refused,
    a_bad_pattern_is_fatal,
    a_static_member_restarts,
    an_administrator_removes_a_member,
    partitions_are_added,
    an_application_polls_too_late,
    a_listener_fails_and_is_called_again,
    auto_takes_the_consumer_protocol,
    unsubscribes_and_subscribes_again,
]
PATTERNS = [patterns_of_the_broker]
MIXED = [a_classic_member_shares_the_group]
