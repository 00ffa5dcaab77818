"""Members that are cut off from ZooKeeper, but not from the brokers; and what may go wrong between two steps."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss

from equipoise.member.partitions import TopicPartition
from equipoise.wire.errors import EquipoiseError, ProtocolError
from equipoise.zookeeper import ZooKeeperServer, whitelist
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.layout import BROKER_IDS
from equipoise.zookeeper.session import open_client, session_id
from tests.zookeeper.door import Door
from tests.zookeeper.town import MODES, Reader, Town, connected

both = pytest.mark.parametrize("mode", MODES)
ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def door(zookeeper: ZooKeeperServer) -> Iterator[Door]:
    with Door(zookeeper.connect) as running:
        yield running


def join_through(door: Door, town: Town, name: str, session_ms: int, **settings: object) -> Reader:
    hosts = f"{door.address}/{town.connect.partition('/')[2]}"
    return town.join(name, {"orders": 1}, zookeeper_connect=hosts, zookeeper_session_timeout_ms=session_ms, **settings)


# -- silence


@both
def test_a_member_that_is_cut_off_reads_on_as_it_was_and_not_in_safe_mode(town: Town, door: Door, mode: str) -> None:
    """Its session ends, others take its partitions, and it hears nothing of it."""
    town.create_topic("orders", 4)
    places = town.places("orders", 4)
    one = join_through(door, town, "c1", 4000, mode=mode)
    two = town.join("c2", {"orders": 1}, mode=mode)
    town.wait_settled(places, one, two)
    first = town.produce("orders", 4, 10)
    town.wait_read(first)
    one.consumer.commit_offsets()
    door.shut()
    second = town.produce("orders", 4, 10)  # some of them are still read by the first, and never committed
    town.wait_until("the other has all", lambda: two.owned() == places)
    third = town.produce("orders", 4, 10)
    town.wait_read(second | third)
    if mode == "faithful":
        town.wait_until("some are read by both", lambda: set(town.ledger.read_by({"c1"})) & third != set())
        return
    assert not set(town.ledger.read_by({"c1"})) & third
    assert {town.ledger.read()[row] for row in first | third} == {1}
    door.open()
    town.wait_settled(places, one, two)
    town.wait_read(town.produce("orders", 4, 10))
    town.tenures.check()


def test_a_server_that_takes_a_connection_and_never_answers_does_not_cost_the_session(town: Town, door: Door) -> None:
    town.create_topic("orders", 2)
    one = join_through(door, town, "c1", 15_000)
    connector = one.consumer.connector
    before = session_id(connector.client), one.consumer.consumer_id
    links = len(door.links)
    door.shut()
    door.cut()
    town.wait_until("it tries to come back", lambda: len(door.links) > links)
    door.open()  # not for that attempt
    town.wait_until("it is back", lambda: connector.gate.is_open)
    town.wait_read(town.produce("orders", 2, 10))
    assert (session_id(connector.client), one.consumer.consumer_id) == before


def test_a_consumer_is_closed_though_the_servers_are_gone_in_the_middle_of_a_rebalance(
    town: Town, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    town.create_topic("orders", 2)
    one = join_through(door, town, "c1", 9_000)
    connector, entered, leave = one.consumer.connector, threading.Event(), threading.Event()
    brokers = connector.policy.group.brokers

    def slowly() -> object:
        entered.set()
        assert leave.wait(60)
        return brokers()

    monkeypatch.setattr(connector.policy.group, "brokers", slowly)
    connector.rebalance_event_triggered()
    assert entered.wait(60)
    closing = threading.Thread(target=one.consumer.close)
    closing.start()
    town.wait_until("it closes", connector.is_closing)
    door.shut()
    door.cut()
    town.wait_until("the connection is lost", lambda: not connector.client.connected)
    leave.set()
    closing.join(60)
    assert not closing.is_alive()


# -- nodes that others have deleted


def test_a_missing_node_is_found_when_the_connection_is_back_and_nobody_is_counted_twice(
    town: Town, door: Door
) -> None:
    """The session is the same: neither its registration nor its other nodes may stand in the way."""
    town.create_topic("orders", 2)
    one = join_through(door, town, "c1", 20_000)
    town.wait_settled(town.places("orders", 2), one)
    before = one.consumer.consumer_id
    town.zk.delete(town.paths.owner(ORDERS_0))
    door.cut()
    town.wait_until("it has another id", lambda: one.consumer.consumer_id != before)
    town.wait_settled(town.places("orders", 2), one)
    town.wait_read(town.produce("orders", 2, 10))


def test_a_missing_node_is_found_by_whoever_looks_for_orphans(town: Town) -> None:
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, rebalance_max_retries=4, rebalance_backoff_ms=50)
    town.wait_settled(town.places("orders", 2), one)
    town.zk.delete(town.paths.owner(ORDERS_0))
    town.wait_until("it is owned again", lambda: ORDERS_0 in town.owners())
    town.wait_settled(town.places("orders", 2), one)


def test_a_group_that_is_deleted_while_it_is_read_comes_back(town: Town) -> None:
    """All at once, so that the member can see nothing but a group that is not there."""
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, rebalance_max_retries=4, rebalance_backoff_ms=50)
    town.wait_settled(town.places("orders", 2), one)
    before = one.consumer.consumer_id
    deletion = town.zk.transaction()
    for path in _below(town, town.paths.root):
        deletion.delete(path)
    assert set(deletion.commit()) == {True}
    town.wait_until("it has another id", lambda: one.consumer.consumer_id != before)
    town.wait_settled(town.places("orders", 2), one)
    town.wait_settled(town.places("orders", 2), one, town.join("c2", {"orders": 1}))


def _below(town: Town, path: str) -> list[str]:
    """Children first."""
    return [below for child in town.children(path) for below in _below(town, f"{path}/{child}")] + [path]


def test_a_session_lost_during_the_first_rebalance(town: Town) -> None:
    town.create_topic("orders", 2)
    town.zk.create(town.paths.owner(ORDERS_0), b"somebody-0", makepath=True)
    one = town.reader("c1")
    joining = threading.Thread(target=one.start, args=({"orders": 1},))
    joining.start()
    town.wait_until("it is blocked", lambda: _attempts(one) > 1)
    town.end_session(one.consumer.connector.client)
    joining.join(60)
    assert not joining.is_alive()
    town.zk.delete(town.paths.owner(ORDERS_0))
    town.wait_settled(town.places("orders", 2), one)
    town.wait_read(town.produce("orders", 2, 10))


def _attempts(reader: Reader) -> int:
    try:
        return reader.consumer.connector.policy.attempts
    except EquipoiseError:
        return 0  # it has not begun


# -- steps that fail


@both
def test_a_watch_for_brokers_that_could_not_be_set_is_set_later(
    zookeeper: ZooKeeperServer, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Town(zookeeper.connect, uuid.uuid4().hex, tmp_path) as town:
        town.create_topic("orders", 2)
        town.stop_broker()
        failures = _fail_to_watch_brokers(monkeypatch)
        one = town.join("c1", {"orders": 1}, mode=mode)
        assert failures == [BROKER_IDS]
        town.start_broker()
        town.wait_settled(town.places("orders", 2), one)


def _fail_to_watch_brokers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    failures: list[str] = []
    ensure = KazooClient.ensure_path

    def fail(client: KazooClient, path: str, acl: object = None) -> object:
        if path == BROKER_IDS and not failures:
            failures.append(path)
            raise ConnectionLoss
        return ensure(client, path, acl)

    monkeypatch.setattr(KazooClient, "ensure_path", fail)
    return failures


@both
def test_what_has_happened_besides_a_failure_is_seen_to(town: Town, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    town.create_topic("orders", 2)
    one = town.join("c1", whitelist("orders"), mode=mode)
    town.wait_settled(town.places("orders", 2), one)
    connector, failures = one.consumer.connector, []

    def fail_once(*_: object) -> bool:
        failures.append(1)
        if len(failures) == 1:
            raise EquipoiseError("the topics cannot be had")
        return False

    monkeypatch.setattr(connector.subscription, "follow", fail_once)
    before = connector.policy.attempts
    with connector._changed:
        connector.notify(ConsumerEvent.TOPICS)
        connector.notify(ConsumerEvent.REBALANCE)
    town.wait_until("it has rebalanced", lambda: connector.policy.attempts > before)
    assert failures


@both
def test_an_answer_that_cannot_be_read_does_not_end_the_reading(
    town: Town, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, mode=mode)
    town.wait_settled(town.places("orders", 2), one)
    reader = one.consumer.connector.fetchers._reader
    assert reader is not None
    failures: list[Any] = []
    poll = reader.poll

    def fail(timeout: float) -> object:
        if len(failures) < 2:
            failures.append(1)
            raise ProtocolError("a batch that cannot be read")
        return poll(timeout)

    monkeypatch.setattr(reader, "poll", fail)
    town.wait_read(town.produce("orders", 2, 10))
    assert len(failures) == 2


@both
def test_a_listener_that_wants_to_end_the_process_fails_an_attempt(
    town: Town, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """pytest.fail() and sys.exit() are no Exceptions: they would end the thread that rebalances."""
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, mode=mode)
    town.wait_settled(town.places("orders", 2), one)
    starting = one.before_starting_fetchers
    endings: list[int] = []

    def end_once(consumer_id: str, decision: Mapping[TopicPartition, str]) -> None:
        if not endings:
            endings.append(1)
            sys.exit("enough")
        starting(consumer_id, decision)

    monkeypatch.setattr(one, "before_starting_fetchers", end_once)
    two = town.join("c2", {"orders": 1}, mode=mode)
    town.wait_settled(town.places("orders", 2), one, two)
    assert endings
    told = "\n".join(caplog.messages)
    assert mode == "faithful" or "RuntimeError(\"the listener raised SystemExit('enough')\")" in told
    town.leave(two)
    town.wait_settled(town.places("orders", 2), one)
    town.wait_read(town.produce("orders", 2, 10))


@both
def test_a_consumer_that_commits_nothing_by_itself_does_not_keep_looking_for_it(town: Town, mode: str) -> None:
    town.create_topic("orders", 1)
    one = town.join("c1", {"orders": 1}, mode=mode, auto_commit_enable=False, auto_commit_interval_ms=1)
    town.wait_read(town.produce("orders", 1, 10))  # for longer than the interval
    town.wait_until("it has time", lambda: one.consumer.connector.policy.idle_ms(time.monotonic_ns() // 1_000_000) > 0)


@both
def test_a_closed_consumer_owns_nothing_and_leaves_no_thread_behind(town: Town, mode: str) -> None:
    town.create_topic("orders", 2)
    rows = town.produce("orders", 2, 10)
    before = set(threading.enumerate())
    one = town.join("c1", {"orders": 1}, mode=mode)
    town.wait_read(rows)
    assert not set(threading.enumerate()) <= before
    town.leave(one)
    town.wait_until("its threads have ended", lambda: set(threading.enumerate()) <= before)
    assert one.consumer.owned() == frozenset()


def test_a_client_that_cannot_make_its_path_is_closed(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[KazooClient] = []

    def fail(client: KazooClient, _path: str) -> None:
        clients.append(client)
        raise ConnectionLoss

    monkeypatch.setattr(KazooClient, "ensure_path", fail)
    with pytest.raises(ConnectionLoss):
        open_client(f"{zookeeper.connect}/path", 6_000)
    assert [client.connected for client in clients] == [False]


def test_a_path_of_several_names_is_made(zookeeper: ZooKeeperServer) -> None:
    root = uuid.uuid4().hex
    with connected(f"{zookeeper.connect}/{root}/kafka/wäsche") as client:
        client.create("/there", b"")
        assert client.get_children("/") == ["there"]
    with connected(zookeeper.connect) as client:
        assert client.exists(f"/{root}/kafka/wäsche/there")


def test_in_safe_mode_a_deleted_topic_is_given_up_though_kafka_takes_no_offsets_of_it(town: Town) -> None:
    for topic in ("orders.eu", "orders.us"):
        town.create_topic(topic, 2)
    one = town.join("c1", whitelist("orders.*"), offsets_storage="kafka")
    both_topics = town.places("orders.eu", 2) | town.places("orders.us", 2)
    town.wait_settled(both_topics, one)
    town.wait_read(town.produce("orders.eu", 2, 10) | town.produce("orders.us", 2, 10))
    town.admin.delete_topic("orders.us")
    town.wait_settled(town.places("orders.eu", 2), one)
    town.wait_read(town.produce("orders.eu", 2, 10))


# -- offsets in Kafka, which fences nobody


@pytest.mark.parametrize("dual", [True, False])
def test_in_safe_mode_a_late_commit_does_not_reach_kafka_either(town: Town, dual: bool) -> None:
    town.create_topic("orders", 2)
    one = town.join("c1", {"orders": 1}, offsets_storage="kafka", dual_commit_enabled=dual, auto_commit_enable=False)
    town.wait_settled(town.places("orders", 2), one)
    town.wait_read(town.produce("orders", 2, 10))
    one.consumer.commit_offsets()
    town.wait_read(town.produce("orders", 2, 10))
    town.zk.set(town.paths.epoch(ORDERS_0), b"another owner")
    with pytest.raises(EquipoiseError, match="no longer owns orders-0"):
        one.consumer.commit_offsets()
    fetchers = one.consumer.connector.fetchers
    committed = fetchers.committed_in_kafka(town.places("orders", 2))
    assert committed == {ORDERS_0: 10, TopicPartition("orders", 1): 20}


@pytest.mark.parametrize(("dual", "goes_on_at"), [(True, 15), (False, 10)])
def test_a_commit_to_kafka_that_is_late_by_a_moment(
    town: Town, dual: bool, goes_on_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was still the owner when it looked, and is not when Kafka takes the offset. In Kafka alone the group goes back
    to it; with both stores the larger counts, and ZooKeeper has it."""
    town.create_topic("orders", 1)
    settings = {"offsets_storage": "kafka", "dual_commit_enabled": dual, "auto_commit_enable": False}
    one = town.join("c1", {"orders": 1}, **settings)
    rows = town.produce("orders", 1, 10)
    town.wait_read(rows)
    fetchers = one.consumer.connector.fetchers
    commit = fetchers.commit_to_kafka

    def late(offsets: dict[TopicPartition, int]) -> None:
        _take_over(town, partial(commit, {ORDERS_0: 15}), dual)
        commit(offsets)

    monkeypatch.setattr(fetchers, "commit_to_kafka", late)
    one.consumer.commit_offsets()
    town.leave(one)
    rows = town.produce("orders", 1, 10)
    two = town.join("c2", {"orders": 1}, **settings)
    town.wait_read({row for row in rows if row[2] >= 15})
    assert min(town.ledger.read_by({"c2"})) == ("orders", 0, goes_on_at)
    town.leave(two)


def _take_over(town: Town, commit: partial[None], dual: bool) -> None:
    """Another owner, which reads on to 15."""
    town.zk.set(town.paths.epoch(ORDERS_0), b"another owner")
    commit()
    if dual:
        town.zk.set(town.paths.offset(ORDERS_0), b"15")
