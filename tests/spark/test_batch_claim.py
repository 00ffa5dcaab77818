"""What a query holds of its group, exactly once: after a restart, and as the source tells the sink."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from equipoise.broker import Broker
from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.member.partitions import TopicPartition
from equipoise.spark.source.batch_claim import BatchClaim, ClaimFile, read_claim
from tests.spark.engine import Engine, until
from tests.spark.members import ALL, MEMBER, PARTITIONS, broker, commit_as_other, fill, offsets
from tests.spark.streams import members

__all__ = ["broker"]
EXACT = {**MEMBER, "delivery": "exactly-once"}


def killed_in_a_batch(broker: Broker) -> Engine:
    """A query that has planned to read ten records of each partition, and is gone."""
    first = Engine(broker.bootstrap_servers, **EXACT)
    until("it has all", lambda: len(first.owned) == PARTITIONS, first.batch)
    fill(broker)
    until("it has a batch", first.plan)
    first.kill()
    broker.groups["g"].kick(members(broker.bootstrap_servers)[0]["member_id"])
    return first


def test_what_others_have_read_is_not_read_again(broker: Broker) -> None:
    first = killed_in_a_batch(broker)
    commit_as_other(broker, {0: 10, 1: 4})
    again = Engine(broker.bootstrap_servers, first, **EXACT)
    assert again.run_again() == [("t", 1, 4, 10), ("t", 2, 0, 10), ("t", 3, 0, 10)]
    fill(broker)
    until("it reads on", lambda: len(again.records()) == 26 + 10 * PARTITIONS, again.batch)
    begun = {0: 10, 1: 4, 2: 0, 3: 0}
    assert sorted(again.records()) == [(one, at) for one in ALL for at in range(begun[one], 20)]
    until("the group knows", lambda: offsets(broker) == dict.fromkeys(ALL, 20), again.batch)
    again.stop()


def test_what_is_with_others_is_not_read_again_before_it_comes_back(broker: Broker) -> None:
    """The group decides where it goes on, also if the last commit is the query's own: the checkpoint says otherwise."""
    first = killed_in_a_batch(broker)
    other = Engine(broker.bootstrap_servers, **EXACT, maxOffsetsPerTrigger="1")
    until("another query has all", lambda: len(other.owned) == PARTITIONS, other.batch)
    again = Engine(broker.bootstrap_servers, first, **EXACT)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(again.run_again)
        until("the query has joined", running.done, other.batch)
    assert {partition for _, partition, *_ in running.result()} <= again.owned < set(ALL)
    other.reader.run(other.planner.partitions.commit_batch(other.start), "the commit")  # the sink's part
    other.stop()
    until("it has all that is left", lambda: len({*again.records(), *other.records()}) == 10 * PARTITIONS, again.batch)
    assert sorted([*again.records(), *other.records()]) == [(one, at) for one in ALL for at in range(10)]
    again.stop()


A, B = TopicPartition("t", 0), TopicPartition("t", 1)
PLACE = ConsumerGroupMetadata("g", 3, "m")
CLAIM = BatchClaim(batch=7, ends={A: 10, B: 20}, group=PLACE)


def test_a_claim_follows_the_member() -> None:
    later = PLACE._replace(generation_id=4)
    assert CLAIM.moved(later, frozenset({A, B})) == BatchClaim(batch=7, ends={A: 10, B: 20}, group=later)
    without = CLAIM.moved(later, frozenset({B}))
    assert (without.lost, without.moved(later, frozenset({A, B})).lost) == ({A}, {A})  # others may have read it


@pytest.mark.parametrize("generation", [-1, 0])
def test_a_member_that_is_out_has_lost_all(generation: int) -> None:
    """With generation -1 the coordinator would check nothing."""
    out = CLAIM.moved(ConsumerGroupMetadata("g", generation, ""), frozenset({A, B}))
    assert (out.group, out.lost) == (PLACE, {A, B})


def test_the_sink_finds_what_the_source_has_written() -> None:
    file = ClaimFile()
    assert read_claim("nobody") is None
    file.write("q0", CLAIM)
    assert read_claim("q0") == CLAIM
    file.move(PLACE._replace(group_instance_id="i"), frozenset({A}))
    found = read_claim("q0")
    assert found is not None
    assert (found.group.group_instance_id, found.lost) == ("i", {B})
    file.remove()
    assert read_claim("q0") is None
