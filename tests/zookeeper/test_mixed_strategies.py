"""Members with different strategies in one group: what they leave unread, who tells, and how safe mode refuses them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from equipoise.console.zookeeper_words import findings
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import UsageError
from equipoise.zookeeper import ConsumerRebalanceFailedError, InconsistentStrategyError, whitelist
from equipoise.zookeeper.explain import explain_group
from equipoise.zookeeper.protocol.errors import NotRegisteredError
from equipoise.zookeeper.protocol.group import GroupNodes
from equipoise.zookeeper.protocol.steps import Steps
from equipoise.zookeeper.protocol.views import AssignmentContext
from tests.zookeeper.town import Reader, Town

T0, T1 = TopicPartition("t0", 0), TopicPartition("t1", 0)
TOPICS = {"t0": 1, "t1": 1}


def create_topics(town: Town) -> None:
    for topic in TOPICS:
        town.create_topic(topic, 1)


def settle(town: Town, *readers: Reader) -> None:
    """Each has rebalanced for the members that are there now."""
    for reader in readers:
        connector = reader.consumer.connector
        before = connector.policy.attempts
        connector.rebalance_event_triggered()
        town.wait_until("it has rebalanced", partial(_has_attempted, connector, before))
    town.wait_until("it has ended", lambda: all(_is_idle(reader) for reader in readers))


def _is_idle(reader: Reader) -> bool:
    lock = reader.consumer.connector.rebalance_lock
    if lock.acquire(blocking=False):
        lock.release()
        return True
    return False


def test_the_smallest_silent_orphan_live(town: Town) -> None:
    """Two topics of one partition; the first member has roundrobin, the second range. Nobody has an error."""
    create_topics(town)
    first = town.join("c0", TOPICS, mode="faithful", partition_assignment_strategy="roundrobin")
    second = town.join("c1", TOPICS, mode="faithful", partition_assignment_strategy="range")
    settle(town, first, second)
    read = town.produce("t0", 1, 10)
    unread = town.produce("t1", 1, 10)
    town.wait_read(read)
    settle(town, first, second)
    town.wait_until("the first owns t0, and nobody t1", lambda: town.owners() == {T0: "billing_c0-0"})
    town.wait_until("both know", lambda: (first.owned(), second.owned()) == ({T0}, frozenset()))
    assert not town.ledger.read().keys() & unread
    assert (first.errors, second.errors) == ([], [])
    view = explain_group(town.zk, town.group)
    assert [one.partition for one in view.unowned] == [T1]
    assert view.claimed_twice == {}
    words = " ".join(findings(view))
    assert "t1-0 has no owner: last offset written" in words or "t1-0 has no owner: never owned" in words
    assert "different strategies (range, roundrobin (t-p))" in words


def test_the_other_way_round_one_of_them_gets_nothing(town: Town) -> None:
    """Both claim t1: who comes first keeps its share, and the other loses all of its own. Which one is chance."""
    create_topics(town)
    town.join("c0", TOPICS, mode="faithful", partition_assignment_strategy="range")
    few = {"rebalance_max_retries": 3, "rebalance_backoff_ms": 50}
    second = town.reader("c1", mode="faithful", partition_assignment_strategy="roundrobin", **few)
    outcomes = [{T0: "billing_c0-0", T1: "billing_c0-0"}, {T1: "billing_c1-0"}]
    with suppress(ConsumerRebalanceFailedError):  # which need not be its last attempt: its own arrival is news to it
        second.start(TOPICS)
    town.wait_until("one has what it claims, and the other nothing", lambda: town.owners() in outcomes)


def test_roundrobin_of_0_8_2_fails_where_members_do_not_read_the_same(town: Town) -> None:
    """Faithful: each attempt of either, until the topics are the same."""
    create_topics(town)
    strict = {
        "mode": "faithful",
        "partition_assignment_strategy": "roundrobin",
        "roundrobin_text_form": "[t,p]",
        "roundrobin_equal_subscriptions": True,
        "rebalance_max_retries": 3,
        "rebalance_backoff_ms": 50,
    }
    first = town.join("c0", TOPICS, **strict)
    town.wait_settled({T0, T1}, first)
    second = town.reader("c1", **strict)
    with pytest.raises(ConsumerRebalanceFailedError, match=r"UnequalSubscriptionsError.*c1-0 read only one"):
        second.start({"t0": 1})
    town.wait_until("the first has nothing either", lambda: not first.owned() and town.owners() == {})
    town.leave(second)
    town.wait_settled({T0, T1}, first)


def test_safe_mode_refuses_the_second(town: Town) -> None:
    create_topics(town)
    first = town.join("c0", TOPICS, partition_assignment_strategy="roundrobin")
    second = town.reader("c1", partition_assignment_strategy="range")
    with pytest.raises(
        InconsistentStrategyError, match=r"strategy=range, but the first member .* has roundrobin \(t-p\)"
    ):
        second.start(TOPICS)
    town.wait_settled({T0, T1}, first)
    town.wait_read(town.produce("t0", 1, 10) | town.produce("t1", 1, 10))
    third = town.join("c2", TOPICS, partition_assignment_strategy="roundrobin")
    town.wait_settled({T0, T1}, first, third)


def test_safe_mode_refuses_another_text_form(town: Town) -> None:
    create_topics(town)
    town.join("c0", TOPICS, partition_assignment_strategy="roundrobin")
    second = town.reader("c1", partition_assignment_strategy="roundrobin", roundrobin_text_form="[t,p]")
    with pytest.raises(InconsistentStrategyError, match=r"strategy=roundrobin \(\[t,p\]\)"):
        second.start(TOPICS)


def test_safe_mode_does_not_join_members_that_tell_nothing(town: Town) -> None:
    create_topics(town)
    town.join("c0", TOPICS, mode="faithful")
    with pytest.raises(InconsistentStrategyError, match="does not tell its strategy"):
        town.reader("c1").start(TOPICS)


def test_a_member_of_the_old_kind_that_comes_later_is_not_counted(town: Town) -> None:
    create_topics(town)
    first = town.join("c5", TOPICS, partition_assignment_strategy="roundrobin")
    old = town.reader("c0", mode="faithful", rebalance_max_retries=2, rebalance_backoff_ms=50)
    with pytest.raises(ConsumerRebalanceFailedError):
        old.start(TOPICS)
    settle(town, first)
    assert first.owned() == {T0, T1}
    town.wait_read(town.produce("t0", 1, 10) | town.produce("t1", 1, 10))


def test_a_member_that_turns_out_not_to_fit_ends_its_streams_with_the_reason(town: Town) -> None:
    """As when two register at the same moment: the check comes with every rebalance."""
    create_topics(town)
    one = town.join("c1", TOPICS)
    town.wait_settled({T0, T1}, one)
    connector = one.consumer.connector
    with connector.rebalance_lock:
        object.__setattr__(connector.config, "partition_assignment_strategy", "roundrobin")
    town.zk.set(town.paths.registration(one.consumer.consumer_id), _registration(town, one))
    connector.policy._members.clear()  # type: ignore[attr-defined]
    connector.rebalance_event_triggered()
    town.wait_until("both streams have ended", lambda: len(one.errors) == 2)
    assert all(isinstance(error, InconsistentStrategyError) for error in one.errors)
    town.wait_until("it has left", lambda: (town.members(), town.owners()) == (set(), {}))


def _registration(town: Town, reader: Reader) -> bytes:
    return bytes(town.zk.get(town.paths.registration(reader.consumer.consumer_id))[0])


def test_a_filter_with_another_view_of_internal_topics_left_an_orphan(town: Town) -> None:
    """Faithful, the same strategy: each applies the filter of the other with its own view (specification, 8.5)."""
    town.create_topic("orders", 2)
    town.zk.create("/brokers/topics/__consumer_offsets", b'{"version":1,"partitions":{"0":[71]}}')
    first = town.join("c0", whitelist(".*"), mode="faithful", exclude_internal_topics=True)
    second = town.join("c1", whitelist(".*"), mode="faithful", exclude_internal_topics=False)
    settle(town, first, second)
    internal = TopicPartition("__consumer_offsets", 0)
    town.wait_until("two are owned", lambda: len(town.owners()) == 2)
    assert internal not in town.owners()
    town.leave(first)
    town.wait_until("alone it reads all", lambda: internal in second.owned())


def test_in_safe_mode_each_filter_counts_as_its_member_means_it(town: Town) -> None:
    town.create_topic("orders", 2)
    town.zk.create("/brokers/topics/__consumer_offsets", b'{"version":1,"partitions":{"0":[71]}}')
    town.join("c0", whitelist(".*"), exclude_internal_topics=True)
    second = town.join("c1", whitelist(".*"), exclude_internal_topics=False)
    town.wait_until("the second has it", lambda: TopicPartition("__consumer_offsets", 0) in second.owned())
    town.wait_until("all are owned", lambda: len(town.owners()) == 3)


def test_an_orphan_is_found_and_told(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    """A registered member that owns nothing, as the old ones end: its share is nobody's."""
    create_topics(town)
    one = town.join("c0", TOPICS, rebalance_max_retries=4, rebalance_backoff_ms=50)
    town.wait_settled({T0, T1}, one)
    ghost = one.consumer.consumer_id.replace("c0", "a0")
    town.zk.create(town.paths.registration(ghost), _registration(town, one), ephemeral=True)
    connector = one.consumer.connector
    town.wait_until("the orphans are found", lambda: connector.policy.orphans == {T0, T1})  # type: ignore[attr-defined]
    town.wait_until("it is told", lambda: "nobody owns t0-0, t1-0, for 0.2 s at least" in caplog.text)
    town.zk.delete(town.paths.registration(ghost))
    town.wait_until("there are none", lambda: not connector.policy.orphans)  # type: ignore[attr-defined]
    town.wait_settled({T0, T1}, one)


# -- equipoise zookeeper explain


def explain(town: Town, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "equipoise", "zookeeper", "explain", "--zookeeper", town.connect, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_explain_tells_who_owns_what(town: Town) -> None:
    create_topics(town)
    one = town.join("c0", TOPICS)
    town.wait_settled({T0, T1}, one)
    town.wait_read(town.produce("t0", 1, 10))
    one.consumer.commit_offsets()
    stranger = TopicPartition("t2", 0)
    town.zk.create(town.paths.owner(stranger), b"somebody-0", makepath=True)
    ended = explain(town, town.group)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "group billing: 1 member, 3 partitions, 0 without an owner" in ended.stdout
    assert f"t0-0       {one.consumer.consumer_id}-0" in ended.stdout
    assert "t2-0 is owned by somebody-0, which is no member" in ended.stdout
    document = json.loads(explain(town, town.group, "--json").stdout)
    assert {one["partition"]: one["offset"] for one in document["owned"]}["t0-0"] == 10
    assert document["members"][0]["strategy"] == "range"


def test_explain_tells_what_is_claimed_twice(town: Town) -> None:
    create_topics(town)
    first = town.join("c0", TOPICS)
    town.wait_settled({T0, T1}, first)
    other = json.loads(_registration(town, first)) | {"strategy": "roundrobin", "form": "t-p"}
    town.zk.create(town.paths.registration("billing_c1"), json.dumps(other).encode(), ephemeral=True)
    view = explain_group(town.zk, town.group)
    assert view.claimed_twice == {T1: ["billing_c1", first.consumer.consumer_id]} or view.claimed_twice == {
        T1: [first.consumer.consumer_id, "billing_c1"]
    }


def test_explain_reads_again_if_a_member_leaves_meanwhile(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topics(town)
    one = town.join("c0", TOPICS)
    context, failures = GroupNodes.context, []

    def fail_once(group: GroupNodes, exclude_internal: bool) -> Steps[AssignmentContext]:
        failures.append(1)
        if len(failures) == 1:
            raise NotRegisteredError
        return context(group, exclude_internal)

    with monkeypatch.context() as patched:
        patched.setattr(GroupNodes, "context", fail_once)
        view = explain_group(town.zk, town.group)
    assert [member.consumer_id for member in view.members] == [one.consumer.consumer_id]


def test_explain_only_reads(town: Town) -> None:
    """Also a path that is not there, because it was mistyped: another command would make it."""
    command = [sys.executable, "-m", "equipoise", "zookeeper", "explain", "--zookeeper", f"{town.connect}/mistyped"]
    ended = subprocess.run([*command, "billing"], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (2, "equipoise: ZooKeeper knows no group 'billing': there are none\n")
    assert "mistyped" not in town.children("/")


def test_explain_of_a_group_that_is_not_there(town: Town) -> None:
    with pytest.raises(UsageError, match="ZooKeeper knows no group 'nobody': there are none"):
        explain_group(town.zk, "nobody")
    ended = explain(town, "nobody")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1


def _has_attempted(connector: Any, before: int) -> bool:
    return bool(connector.policy.attempts > before)
