"""Groups on a real ZooKeeper server: joins, leaves, deaths, new partitions and topics, in both modes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from equipoise.zookeeper import whitelist
from proving.members.events import Event
from tests.zookeeper.member import heard
from tests.zookeeper.town import MODES, Town

both = pytest.mark.parametrize("mode", MODES)


@both
def test_three_members_share_twelve_partitions_and_every_record_is_read(town: Town, mode: str) -> None:
    town.create_topic("orders", 12)
    places = town.places("orders", 12)
    rows = town.produce("orders", 12, 20)
    one = town.join("c1", {"orders": 1}, mode=mode)
    town.wait_settled(places, one)
    rows |= town.produce("orders", 12, 20)
    two = town.join("c2", {"orders": 2}, mode=mode)
    three = town.join("c3", {"orders": 1}, mode=mode)
    town.wait_settled(places, one, two, three)
    assert [len(one.owned()), len(two.owned()), len(three.owned())] == [3, 6, 3]
    rows |= town.produce("orders", 12, 20)
    town.wait_read(rows)
    town.leave(two)
    rows |= town.produce("orders", 12, 20)
    town.wait_settled(places, one, three)
    town.wait_read(rows)
    town.leave(one)
    town.wait_settled(places, three)
    town.leave(three)
    town.check_owners(mode)
    assert town.ledger.read().keys() == rows
    assert (town.members(), town.owners()) == (set(), {})
    assert all(town.offset("orders", number) == 80 for number in range(12))
    if mode == "safe":  # as it was, an offset could be read before the owner before had written its last
        assert set(town.ledger.read().values()) == {1}


@contextmanager
def apart(town: Town, name: str, mode: str) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own; what it says is noted."""
    command = [sys.executable, "-m", "tests.zookeeper.member", town.connect, town.group, name, mode, "orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        thread = threading.Thread(target=_hear, args=(town, name, process))
        thread.start()
        try:
            yield process
        finally:
            process.kill()
            thread.join()


def _hear(town: Town, name: str, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):  # the last may be cut short
            town.ledger.note(heard(line, name))


@both
def test_a_killed_member_is_missed_when_its_session_ends(town: Town, mode: str) -> None:
    town.create_topic("orders", 6)
    places = town.places("orders", 6)
    one = town.join("c1", {"orders": 1}, mode=mode)
    with apart(town, "c2", mode) as process:
        town.wait_until("each has half", lambda: len(one.owned()) == len(town.ledger.owned("c2")) == 3)
        rows = town.produce("orders", 6, 10)
        town.wait_until("c2 has read", lambda: bool(town.ledger.read_by({"c2"})))
        process.kill()
        process.wait()
        town.ledger.note(Event(time.monotonic(), "c2", "killed"))
        town.wait_until(
            "nobody knows before its session has ended", lambda: len(town.owners()) == 6 or len(town.members()) == 1
        )
        rows |= town.produce("orders", 6, 10)
        town.wait_settled(places, one)
    town.wait_read(rows)
    town.check_owners(mode)
    # Read again is only what the killed one had read, and not committed.
    assert {row for row, times in town.ledger.read().items() if times > 1} <= set(town.ledger.read_by({"c2"}))
    assert set(town.ledger.read_by({"c1"}).values()) == {1}


@both
def test_added_partitions_are_shared(town: Town, mode: str) -> None:
    town.create_topic("orders", 2)
    readers = [town.join(name, {"orders": 1}, mode=mode) for name in ("c1", "c2")]
    town.wait_settled(town.places("orders", 2), *readers)
    town.admin.add_partitions("orders", 6)
    town.wait_settled(town.places("orders", 6), *readers)
    town.wait_read(town.produce("orders", 6, 10))
    town.check_owners(mode)


@both
def test_a_topic_that_does_not_exist_yet_is_waited_for(town: Town, mode: str) -> None:
    one = town.join("c1", {"orders": 1}, mode=mode)
    assert one.owned() == frozenset()
    town.create_topic("orders", 2)
    town.wait_settled(town.places("orders", 2), one)


@both
def test_a_new_topic_that_a_filter_allows_is_read(town: Town, mode: str) -> None:
    town.create_topic("orders.eu", 2)
    town.create_topic("payments", 2)
    readers = [town.join(name, whitelist("orders.*"), mode=mode) for name in ("c1", "c2")]
    town.wait_settled(town.places("orders.eu", 2), *readers)
    town.create_topic("orders.us", 4)
    both_topics = town.places("orders.eu", 2) | town.places("orders.us", 4)
    town.wait_settled(both_topics, *readers)
    town.wait_read(town.produce("orders.us", 4, 10) | town.produce("orders.eu", 2, 10))
    town.admin.add_partitions("orders.us", 6)
    town.wait_settled(both_topics | town.places("orders.us", 6), *readers)
    town.check_owners(mode)


@both
def test_streams_have_their_own_partitions(town: Town, mode: str) -> None:
    town.create_topic("orders", 4)
    town.create_topic("payments", 1)
    one = town.join("c1", {"orders": 2, "payments": 1}, mode=mode, partition_assignment_strategy="roundrobin")
    town.wait_settled(town.places("orders", 4) | town.places("payments", 1), one)
    threads = {thread.rpartition("-")[2] for thread in town.owners().values()}
    assert threads == {"0", "1"}
    town.wait_read(town.produce("orders", 4, 10) | town.produce("payments", 1, 10))
