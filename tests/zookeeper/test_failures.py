"""What happens to groups when brokers, ZooKeeper servers and sessions fail, in both modes."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from equipoise.client import Consumer
from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError
from equipoise.zookeeper import (
    ConsumerRebalanceFailedError,
    ConsumerTimeoutError,
    Ensemble,
    OwnershipLostError,
    ZooKeeperServer,
)
from equipoise.zookeeper.explain import explain_group
from equipoise.zookeeper.session import session_id
from proving.members.events import Row
from tests.zookeeper.town import MODES, Reader, Town

both = pytest.mark.parametrize("mode", MODES)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


# -- brokers


@both
def test_a_broker_that_is_restarted_is_read_on(zookeeper: ZooKeeperServer, mode: str, tmp_path: Path) -> None:
    with Town(zookeeper.connect, uuid.uuid4().hex, tmp_path) as town:
        town.create_topic("orders", 4)
        readers = [town.join(name, {"orders": 1}, mode=mode) for name in ("c1", "c2")]
        town.wait_settled(town.places("orders", 4), *readers)
        rows = town.produce("orders", 4, 10)
        town.wait_read(rows)
        owners, address = town.owners(), town.broker.bootstrap_servers
        town.stop_broker()
        town.start_broker(address)
        rows |= town.produce("orders", 4, 10)
        town.wait_read(rows)
        assert town.owners() == owners
        assert town.ledger.read().keys() == rows
        town.check_owners(mode)


@both
def test_without_brokers_a_consumer_waits_for_the_first(zookeeper: ZooKeeperServer, mode: str, tmp_path: Path) -> None:
    with Town(zookeeper.connect, uuid.uuid4().hex, tmp_path) as town:
        town.create_topic("orders", 2)
        town.stop_broker()
        one = town.join("c1", {"orders": 1}, mode=mode)
        assert one.owned() == frozenset()
        town.start_broker()  # on another port
        town.wait_settled(town.places("orders", 2), one)
        town.wait_read(town.produce("orders", 2, 10))


# -- ZooKeeper


def test_a_zookeeper_server_that_is_killed_and_restarted() -> None:
    """The connection is lost, the sessions are not: they begin anew when the server is back."""
    with ZooKeeperServer() as server, ExitStack() as stack:
        towns = {mode: stack.enter_context(Town(server.connect, mode)) for mode in MODES}
        groups = {}
        for mode, town in towns.items():
            town.create_topic("orders", 4)
            long = {"mode": mode, "zookeeper_session_timeout_ms": 60_000}  # a server may take its time to start
            groups[mode] = [town.join(name, {"orders": 1}, **long) for name in ("c1", "c2")]
            town.wait_settled(town.places("orders", 4), *groups[mode])
            town.wait_read(town.produce("orders", 4, 10))
        ids = {mode: {reader.consumer.consumer_id for reader in readers} for mode, readers in groups.items()}
        server.kill()
        rows = {mode: _read_without_zookeeper(town, mode, groups[mode]) for mode, town in towns.items()}
        server.start()
        for mode, town in towns.items():
            readers, places = groups[mode], town.places("orders", 4)
            town.wait_read(rows[mode])
            town.wait_settled(places, *readers)
            assert {reader.consumer.consumer_id for reader in readers} == ids[mode]
            town.wait_settled(places, *readers, town.join("c3", {"orders": 1}, mode=mode))
            town.wait_read(town.produce("orders", 4, 10))
            town.check_owners(mode)


def _read_without_zookeeper(town: Town, mode: str, readers: list[Reader]) -> set[Row]:
    """As it was, nobody cares: who has lost its session for good reads on all the same. In safe mode nobody reads."""
    clients = [reader.consumer.connector.client for reader in readers]
    town.wait_until("the connections are lost", lambda: not any(client.connected for client in clients))
    if mode == "safe":
        gates = [reader.consumer.connector.gate for reader in readers]
        town.wait_until("nobody reads", lambda: not any(gate.is_open for gate in gates))
    before = sum(town.ledger.read().values())
    rows = town.produce("orders", 4, 10)
    if mode == "faithful":
        town.wait_read(rows)
    else:
        assert not any(gate.is_open for gate in gates)
        with pytest.raises(OwnershipLostError, match="no session at the moment"):
            readers[0].consumer.commit_offsets()
        assert sum(town.ledger.read().values()) == before
    return rows


def test_an_ensemble_that_loses_its_leader(zookeeper_ensemble: Ensemble) -> None:
    with ExitStack() as stack:
        towns = {mode: stack.enter_context(Town(zookeeper_ensemble.connect, mode)) for mode in MODES}
        readers = {}
        for mode, town in towns.items():
            town.create_topic("orders", 4)
            readers[mode] = town.join("c1", {"orders": 1}, mode=mode)
            town.wait_settled(town.places("orders", 4), readers[mode])
        zookeeper_ensemble.leader.kill()
        for mode, town in towns.items():
            rows = town.produce("orders", 4, 10)
            town.wait_until("the rest serves", lambda: any(one.is_leader for one in zookeeper_ensemble.servers))
            town.wait_until("the town is back", partial(_is_connected, town))
            two = town.join("c2", {"orders": 1}, mode=mode)
            town.wait_settled(town.places("orders", 4), readers[mode], two)
            town.wait_read(rows | town.produce("orders", 4, 10))
            town.check_owners(mode)
        town.wait_until("a follower is left", lambda: len(zookeeper_ensemble.followers) == 1)


# -- sessions


@both
def test_a_lost_session_is_made_good(town: Town, mode: str) -> None:
    town.create_topic("orders", 4)
    places = town.places("orders", 4)
    one, two = (town.join(name, {"orders": 1}, mode=mode) for name in ("c1", "c2"))
    town.wait_settled(places, one, two)
    rows = town.produce("orders", 4, 10)
    town.wait_read(rows)
    before = one.consumer.consumer_id
    session = session_id(one.consumer.connector.client)
    town.end_session(one.consumer.connector.client)
    town.wait_until("the session is another", lambda: session_id(one.consumer.connector.client) not in (0, session))
    town.wait_settled(places, one, two)
    town.wait_read(rows | town.produce("orders", 4, 10))
    assert (one.consumer.consumer_id == before) is (mode == "faithful")


def test_a_late_commit_of_an_owner_before_is_refused(town: Town) -> None:
    """Safe mode: the epoch of the partition has moved on, whatever the owner's node says."""
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, auto_commit_enable=False)
    town.wait_settled(town.places("orders", 2), one)
    town.wait_read(town.produce("orders", 2, 10))
    one.consumer.commit_offsets()
    assert (town.offset("orders", 0), town.offset("orders", 1)) == (10, 10)
    town.wait_read(town.produce("orders", 2, 10))
    town.zk.set(town.paths.epoch(ORDERS_0), b"another owner")
    with pytest.raises(OwnershipLostError, match="no longer owns orders-0"):
        one.consumer.commit_offsets()
    assert (town.offset("orders", 0), town.offset("orders", 1)) == (10, 20)


def test_a_late_commit_of_an_owner_before_was_accepted(town: Town) -> None:
    """Faithful mode: nobody looks."""
    town.create_topic("orders", 1)
    one = town.join("c1", {"orders": 1}, mode="faithful", auto_commit_enable=False)
    town.wait_read(town.produce("orders", 1, 10))
    town.zk.delete(town.paths.owner(ORDERS_0))
    town.zk.create(town.paths.offset(ORDERS_0), b"70", makepath=True)
    one.consumer.commit_offsets()
    assert town.offset("orders", 0) == 10


# -- conflicts


@both
def test_a_foreign_owner_fails_the_whole_claim_and_nothing_is_left_behind(town: Town, mode: str) -> None:
    town.create_topic("orders", 3)
    town.zk.create(town.paths.owner(ORDERS_1), b"somebody-0", makepath=True)
    one = town.reader("c1", mode=mode, rebalance_max_retries=3, rebalance_backoff_ms=50)
    with pytest.raises(ConsumerRebalanceFailedError, match="can't rebalance after 3 attempts, 50 ms apart"):
        one.start({"orders": 1})
    assert one.consumer.connector.policy.attempts >= 3
    assert (one.consumer.owned(), town.owners()) == (frozenset(), {ORDERS_1: "somebody-0"})
    # As it was, it stays a member that owns nothing, and is counted; now it is none.
    assert town.members() == ({one.consumer.consumer_id} if mode == "faithful" else set())


@both
def test_a_claim_succeeds_when_the_owner_before_is_gone(town: Town, mode: str) -> None:
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, mode=mode)
    town.zk.create(town.paths.owner(TopicPartition("orders", 2)), b"somebody-0")
    before = one.consumer.connector.policy.attempts
    town.admin.add_partitions("orders", 3)
    town.wait_until("it has tried", lambda: one.consumer.connector.policy.attempts > before + 1)
    assert len(one.owned()) == (2 if mode == "safe" else 0)  # what stays is read on, or everything waits
    town.zk.delete(town.paths.owner(TopicPartition("orders", 2)))
    town.wait_settled(town.places("orders", 3), one)


def test_after_the_last_attempt_safe_mode_tries_again_by_itself(town: Town) -> None:
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, rebalance_max_retries=2, rebalance_backoff_ms=50)
    town.wait_settled(town.places("orders", 2), one)
    town.zk.create(town.paths.owner(TopicPartition("orders", 2)), b"somebody-0")
    town.admin.add_partitions("orders", 3)
    before = one.consumer.connector.policy.attempts
    town.wait_until("many attempts", lambda: one.consumer.connector.policy.attempts > before + 6)
    town.zk.delete(town.paths.owner(TopicPartition("orders", 2)))
    town.wait_settled(town.places("orders", 3), one)


def test_a_claim_of_which_nothing_came_leaves_no_nodes_behind(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Safe mode: the nodes are written, and then the offsets cannot be had; meanwhile a partition is another's."""
    town.create_topic("orders", 2)
    one = town.join("c2", {"orders": 1})
    town.wait_settled(town.places("orders", 2), one)
    connector, failures = one.consumer.connector, []

    def fail(_partitions: object) -> dict[TopicPartition, int]:
        failures.append(1)
        raise EquipoiseError("the offsets cannot be had")

    monkeypatch.setattr(connector.policy, "fetch_offsets", fail)
    town.admin.add_partitions("orders", 4)
    town.wait_until("it has failed", lambda: len(failures) > 1)
    two = town.join("c1", {"orders": 1})
    town.wait_until("the first half is the other's", lambda: two.owned() == town.places("orders", 2))
    monkeypatch.undo()
    town.wait_settled(town.places("orders", 4), one, two)
    town.wait_read(town.produce("orders", 4, 10))


# -- offsets


@both
def test_a_group_goes_on_under_a_coordinator_where_it_stopped(town: Town, mode: str) -> None:
    town.create_topic("orders", 4)
    readers = [town.join(name, {"orders": 1}, mode=mode, offsets_storage="kafka") for name in ("c1", "c2")]
    town.wait_settled(town.places("orders", 4), *readers)
    town.wait_read(town.produce("orders", 4, 25))
    for reader in readers:
        town.leave(reader)
    assert [town.offset("orders", number) for number in range(4)] == [25] * 4
    rest = town.produce("orders", 4, 5)
    settings = {"bootstrap.servers": town.broker.bootstrap_servers, "group.id": town.group}
    with Consumer(settings, auto_offset_reset="none") as consumer:
        consumer.subscribe(["orders"])
        found: set[Row] = set()
        while found != rest:
            rows = {(record.topic, record.partition, record.offset) for record in consumer.poll(30)}
            assert rows
            assert rows <= rest
            found |= rows


@both
def test_offsets_in_kafka_alone(town: Town, mode: str) -> None:
    town.create_topic("orders", 2)
    settings = {"mode": mode, "offsets_storage": "kafka", "dual_commit_enabled": False}
    town.leave(_read(town, "c1", **settings))
    assert not town.zk.exists(town.paths.offsets)
    _read(town, "c2", **settings)
    assert set(town.ledger.read().values()) == {1}


def _read(town: Town, name: str, **settings: Any) -> Reader:
    reader = town.join(name, {"orders": 1}, **settings)
    town.wait_settled(town.places("orders", 2), reader)
    town.wait_read(town.produce("orders", 2, 10))
    return reader


@both
def test_of_two_stores_the_larger_offset_counts(town: Town, mode: str) -> None:
    town.create_topic("orders", 2)
    town.leave(_read(town, "c1", mode=mode, offsets_storage="kafka"))
    town.zk.set(town.paths.offset(ORDERS_0), b"3")  # behind Kafka's 10
    town.zk.set(town.paths.offset(ORDERS_1), b"15")  # ahead of it
    rows = town.produce("orders", 2, 10)
    town.join("c2", {"orders": 1}, mode=mode, offsets_storage="kafka")
    town.wait_read({row for row in rows if row[1] == 0 or row[2] >= 15})
    assert not {("orders", 1, offset) for offset in range(10, 15)} & town.ledger.read().keys()


@both
def test_without_an_offset_reading_begins_at_the_end_and_that_is_committed(town: Town, mode: str) -> None:
    town.create_topic("orders", 1)
    town.produce("orders", 1, 10)
    one = town.reader("c1", mode=mode, auto_offset_reset="largest")
    one.start({"orders": 1})

    def is_committed() -> bool:
        one.consumer.commit_offsets()
        return bool(town.zk.exists(town.paths.offset(ORDERS_0)))

    town.wait_until("the end is committed", is_committed)
    assert town.offset("orders", 0) == 10
    rows = town.produce("orders", 1, 5)
    town.wait_read(rows)
    assert town.ledger.read().keys() == rows


@both
def test_an_offset_beyond_the_end_hides_no_records(town: Town, mode: str) -> None:
    """The log has lost its end, or a broker without a disk was restarted: auto.offset.reset decides."""
    town.create_topic("orders", 1)
    town.zk.create(town.paths.offset(ORDERS_0), b"50", makepath=True)
    rows = town.produce("orders", 1, 10)
    one = town.join("c1", {"orders": 1}, mode=mode)
    town.wait_read(rows)
    one.consumer.commit_offsets()
    assert town.offset("orders", 0) == 10


@both
def test_a_negative_offset_is_none(town: Town, mode: str) -> None:
    """As old tools wrote it: auto.offset.reset decides."""
    town.create_topic("orders", 1)
    town.zk.create(town.paths.offset(ORDERS_0), b"-1", makepath=True)
    town.join("c1", {"orders": 1}, mode=mode)
    town.wait_read(town.produce("orders", 1, 10))


@both
def test_an_offset_that_is_no_number_is_named(town: Town, mode: str) -> None:
    town.create_topic("orders", 1)
    town.zk.create(town.paths.offset(ORDERS_0), b"ten", makepath=True)
    one = town.reader("c1", mode=mode, rebalance_max_retries=2, rebalance_backoff_ms=50)
    with pytest.raises(ConsumerRebalanceFailedError, match=r"/consumers/billing/offsets/orders/0 .* is no offset"):
        one.start({"orders": 1})


def test_what_another_member_calls_a_topic_may_be_none(town: Town) -> None:
    """Its name is no path: a member of the old kind does not hinder the others by it."""
    town.create_topic("orders", 2)
    registered = b'{"version":1,"subscription":{"orders":1,"":1,"a/../b":1},"pattern":"static","timestamp":"1"}'
    town.zk.create(town.paths.registration("billing_zz"), registered, makepath=True)
    one = town.join("c1", {"orders": 1}, mode="faithful")
    assert one.owned() == {ORDERS_0}
    assert [view.partition for view in explain_group(town.zk, town.group).unowned] == [ORDERS_1]


def test_a_topic_that_is_created_anew_while_it_is_read(town: Town) -> None:
    """Safe mode; as it was, the consumer itself would create the topic again."""
    town.create_topic("orders", 1)
    one = town.join("c1", {"orders": 1})
    town.wait_read(town.produce("orders", 1, 10))
    town.admin.delete_topic("orders")
    town.wait_until("it is gone", lambda: not town.zk.exists("/brokers/topics/orders"))
    town.create_topic("orders", 1)
    again = town.produce("orders", 1, 5)
    town.wait_until("its records are read", lambda: all(town.ledger.read()[row] == 2 for row in again))
    one.consumer.commit_offsets()
    assert town.offset("orders", 0) == 5


# -- streams


def test_a_stream_that_waits_too_long_says_so_and_can_be_read_on(town: Town) -> None:
    town.create_topic("orders", 1)
    one = town.reader("c1", consumer_timeout_ms=50)
    (stream,) = one.consumer.create_message_streams({"orders": 1})["orders"]
    with pytest.raises(ConsumerTimeoutError, match=r"consumer.timeout.ms, which is 0.05 s"):
        next(stream)
    town.produce("orders", 1, 3)
    first = stream.take(30)
    assert first is not None
    assert (first.offset, first.value) == (0, b"0")


@both
def test_a_full_stream_does_not_stand_in_the_way_of_a_rebalance(town: Town, mode: str) -> None:
    town.create_topic("orders", 2)
    rows = town.produce("orders", 2, 3000)
    one = town.reader("c1", mode=mode)
    one.consumer.create_message_streams({"orders": 1})  # nobody reads
    two = town.join("c2", {"orders": 1}, mode=mode)
    town.wait_settled(town.places("orders", 2), one, two)
    town.leave(one)
    town.wait_settled(town.places("orders", 2), two)
    town.wait_read(rows)


def _is_connected(town: Town) -> bool:
    return bool(town.zk.connected)
