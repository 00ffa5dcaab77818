"""Transactions on the raw protocol: the coordinator's APIs, Produce, markers, crashes of the broker."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest

from equipoise.broker import Broker
from equipoise.broker.handlers.k00_produce import ProducePartitionStatus
from equipoise.broker.server import Server
from equipoise.log.partition import PartitionLog
from equipoise.log.producer_state import TxnMarker, Verification
from equipoise.security.acls import ResourceType
from equipoise.wire.apis.k00_produce import ProduceRequest
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from equipoise.wire.apis.k66_list_transactions import ListTransactionsRequest
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import iter_headers, read_header
from equipoise.wire.records.control import read_marker
from tests.broker.calls import batch_of, create_topic, delete_topic
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.broker.transactional import TV1, TV2, TransactionalProducer

OK = ErrorCode.NONE
T0, T1 = ("t", 0), ("t", 1)
MODES = pytest.mark.parametrize("version", [TV1, TV2])


@pytest.fixture
def producer(client: RawClient) -> TransactionalProducer:
    """In an epoch of its own, on topic t with two partitions."""
    create_topic(client, partitions=2)
    one = TransactionalProducer(client)
    assert one.init() == OK
    return one


def log_of(server: Server, index: int = 0, topic: str = "t") -> PartitionLog:
    return server.topics.partition(topic, index).log


def markers(broker: Broker, index: int = 0, topic: str = "t") -> list[tuple[int, int, bool, int]]:
    """Producer id, epoch, whether it commits, and the coordinator's epoch."""

    def read(server: Server) -> list[tuple[int, int, bool, int]]:
        log, found, offset = log_of(server, index, topic), list[tuple[int, int, bool, int]](), 0
        while offset < log.log_end_offset:
            for view in log.read(offset, 1 << 20, log.log_end_offset):
                for pos, header in iter_headers(view):
                    offset = header.last_offset + 1
                    if header.is_control:
                        marker = read_marker(view, pos, header)
                        assert marker is not None
                        found.append((header.producer_id, header.producer_epoch, *marker))
        return found

    return broker.call(read)


def is_stable(broker: Broker, index: int = 0) -> bool:
    return broker.call(lambda s: log_of(s, index).last_stable_offset == log_of(s, index).high_watermark)


def begin(producer: TransactionalProducer, *partitions: tuple[str, int]) -> None:
    """Records in partitions, added before if the producer is of the older kind."""
    if producer.version < TV2:
        assert set(producer.add(*partitions).values()) == {OK}
    assert set(producer.produce(*partitions)) == {OK}


# -- the coordinator's APIs


def test_the_topic_of_the_coordinator_is_compacted(broker: Broker, producer: TransactionalProducer) -> None:
    """Rule T.1."""
    configs = broker.call(lambda s: s.topics.require("__transaction_state").configs)
    assert (configs["cleanup.policy"], configs["compression.type"]) == ("compact", "uncompressed")


@MODES
def test_markers_are_in_the_log(broker: Broker, producer: TransactionalProducer, version: int) -> None:
    """Rules T.32 and T.36: with the epoch of the decision."""
    producer.version = version
    begun = producer.producer_id, producer.epoch
    begin(producer, T0, T1)
    assert not is_stable(broker)
    assert producer.end() == OK
    eventually(lambda: is_stable(broker, 0) and is_stable(broker, 1), "markers are durable")
    bump = int(version == TV2)
    assert markers(broker) == markers(broker, 1) == [(begun[0], begun[1] + bump, True, 0)]
    begin(producer, T0)
    assert producer.end(commit=False) == OK
    eventually(lambda: is_stable(broker), "the marker is durable")
    assert markers(broker)[1] == (begun[0], begun[1] + 2 * bump, False, 0)


@pytest.mark.parametrize("brought", [(5, -1), (-1, 0)])
def test_a_producer_id_comes_with_its_epoch(client: RawClient, brought: tuple[int, int]) -> None:
    """Rule T.9."""
    producer_id, epoch = brought
    values: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch}
    assert TransactionalProducer(client).init(**values) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_versions_know_another_word_for_fenced(producer: TransactionalProducer, version: int) -> None:
    """Rule T.17."""
    before: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    producer.init()
    producer.init()
    fenced = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.init(version, **before) == fenced


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_zombie_in_every_version(producer: TransactionalProducer, version: int) -> None:
    """Rules T.21 to T.23."""
    newer = TransactionalProducer(producer.client)
    newer.init()
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    if version <= 3:
        assert producer.add(version=version) == {T0: fenced}
    assert producer.add_offsets("g", version) == fenced
    assert producer.end(version=version) == fenced


def test_if_one_partition_cannot_be_added_none_is(producer: TransactionalProducer) -> None:
    """Rule T.20."""
    assert producer.add(T0, ("t", 7), ("missing", 0), ("__transaction_state", 0)) == {
        T0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("missing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("__transaction_state", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert producer.describe().transaction_state == "Empty"


def of_brokers(producer: TransactionalProducer, *, verify_only: bool) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_ask_for_many_transactions(producer: TransactionalProducer, version: int) -> None:
    """Rule T.19."""
    other = TransactionalProducer(producer.client, "others")
    other.init()
    producer.add(T1)
    request = AddPartitionsToTxnRequest(
        transactions=[of_brokers(producer, verify_only=True), of_brokers(other, verify_only=False)]
    )
    answer = producer.client.call(request, version)
    errors = {
        one.transactional_id: [row.partition_error_code for row in one.topic_results[0].results_by_partition]
        for one in answer.results_by_transaction
    }
    assert errors == {"orders": [ErrorCode.TRANSACTION_ABORTABLE, OK], "others": [OK, OK]}
    assert producer.client.call(AddPartitionsToTxnRequest(), version).results_by_transaction == []


def test_offsets_of_a_group_are_a_partition_of_the_transaction(producer: TransactionalProducer) -> None:
    """Rule T.22."""
    assert producer.add_offsets("g") == OK
    (topic,) = producer.describe().topics
    assert (topic.topic, len(topic.partitions)) == ("__consumer_offsets", 1)
    assert producer.end(version=4) == OK


def test_transactions_are_listed(producer: TransactionalProducer) -> None:
    """Rule T.90."""
    TransactionalProducer(producer.client, "idle").init()
    producer.add()

    def listed(**values: Any) -> tuple[int, list[str], list[str]]:
        request = ListTransactionsRequest(**({"state_filters": [], "producer_id_filters": []} | values))
        answer = producer.client.call(request)
        names = sorted(one.transactional_id for one in answer.transaction_states)
        return answer.error_code, answer.unknown_state_filters, names

    assert listed() == (OK, [], ["idle", "orders"])
    assert listed(state_filters=["Ongoing", "Odd"]) == (OK, ["Odd"], ["orders"])
    assert listed(state_filters=["Odd"]) == (OK, ["Odd"], [])
    assert listed(producer_id_filters=[producer.producer_id]) == (OK, [], ["orders"])
    assert listed(transactional_id_pattern="i.*") == (OK, [], ["idle"])
    assert listed(transactional_id_pattern="d") == (OK, [], [])
    for name in ("etl/run:1", "Größe 1"):
        TransactionalProducer(producer.client, name).init()
    assert listed(transactional_id_pattern="etl/.*") == (OK, [], ["etl/run:1"])
    assert listed(transactional_id_pattern="(?i)GRÖ[ß-ÿ]e.+") == (OK, [], ["Größe 1"])
    assert listed(transactional_id_pattern="[a-z]+|.*:[^a]") == (OK, [], ["etl/run:1", "idle", "orders"])
    assert listed(transactional_id_pattern="(")[0] == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert listed(duration_filter=3_600_000) == (OK, [], ["Größe 1", "etl/run:1", "idle"])


# -- Produce


def test_newer_producers_add_partitions_by_producing(broker: Broker, producer: TransactionalProducer) -> None:
    """Rules T.60 and T.63."""
    assert producer.produce(T0) == [OK]
    assert producer.produce(T0) == [OK]
    found = producer.describe()
    assert (found.transaction_state, [(one.topic, one.partitions) for one in found.topics]) == ("Ongoing", [("t", [0])])
    for _ in range(20):  # each follows the end of the one before at once
        assert producer.end() == OK
        assert producer.produce(T0, T1) == [OK, OK]
    assert producer.end() == OK
    eventually(lambda: is_stable(broker), "markers are durable")


def test_one_record_adds_all_partitions_of_a_request(broker: Broker, producer: TransactionalProducer) -> None:
    """Rule T.64."""

    def records(server: Server) -> int:
        return sum(one.log.log_end_offset for one in server.topics.require("__transaction_state").partitions)

    before = broker.call(records)
    assert producer.produce(T0, T1) == [OK, OK]
    assert broker.call(records) == before + 1


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.INVALID_TXN_STATE), (10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_older_producers_must_have_added_the_partition(
    producer: TransactionalProducer, version: int, error: ErrorCode
) -> None:
    """Rule T.59."""
    producer.add(T1)
    assert producer.produce(T0, version=version) == [error]
    assert producer.produce(T1, version=version) == [OK]


def test_a_zombie_cannot_produce(producer: TransactionalProducer) -> None:
    """Rules T.59 and T.60."""
    begin(producer, T0)
    newer = TransactionalProducer(producer.client)
    assert newer.init() == OK
    for version in (TV1, TV2):
        assert producer.produce(T0, version=version) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert producer.produce(T1, version=version) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    producer.name = "nobody"
    assert producer.produce(T1, version=TV2) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_verification_can_be_switched_off(start: Start, connect: Connect) -> None:
    """Rule T.59: then nobody knows of the transaction, until the next start of the broker."""
    broker = start({"transaction.partition.verification.enable": False})
    producer = TransactionalProducer(connect(broker), version=TV1)
    create_topic(producer.client)
    producer.init()
    assert producer.produce(T0) == [OK]
    assert not is_stable(broker)


def test_two_producers_in_one_request(producer: TransactionalProducer) -> None:
    """Rule T.41."""
    request = producer.request(T0, T1)
    batch = batch_of(b"x", producer_id=99, producer_epoch=0, base_sequence=0, transactional=True)
    request.topic_data[1].partition_data[0].records = bytes(batch)
    response = producer.client.call(request, TV2)
    errors = [row.error_code for topic in response.responses for row in topic.partition_responses]
    assert errors == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_a_batch_that_waits_is_verified_when_it_is_appended(
    broker: Broker, client: RawClient, connect: Connect
) -> None:
    """Rule T.62: a compressed batch of a compacted topic is looked into on a thread, which is held here until the
    transaction has ended."""
    create_topic(client, configs={"cleanup.policy": "compact"})
    producer = TransactionalProducer(client, version=TV1)
    producer.init()
    producer.add()
    released = hold_validation(broker)
    producer.client = connect(broker)
    client.send(keyed_request(producer), TV1)
    eventually(lambda: waits_for_validation(broker), "the batch waits")
    assert producer.end() == OK
    eventually(lambda: producer.describe().transaction_state == "CompleteCommit", "the transaction has ended")
    released.set()
    (topic,) = client.receive().responses
    assert topic.partition_responses[0].error_code == ErrorCode.TRANSACTION_ABORTABLE


def test_a_batch_that_waits_is_not_appended_behind_a_refusal(broker: Broker, client: RawClient) -> None:
    """Rules T.62 and T.63: the coordinator's record is refused while the batch waits for the thread. If it comes again
    it opens the transaction, and is no duplicate of itself."""
    create_topic(client, configs={"compression.type": "gzip"})
    producer = TransactionalProducer(client)
    producer.init()
    released = hold_validation(broker)
    broker.call(partial(refuse_next, producer.name))
    assert producer.produce(T0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert waits_for_validation(broker)
    released.set()
    eventually(lambda: not waits_for_validation(broker), "the batch has had its turn")
    assert producer.produce(T0) == [OK]
    assert [(one.topic, one.partitions) for one in producer.describe().topics] == [("t", [0])]
    assert producer.end() == OK
    eventually(lambda: is_stable(broker), "the marker is durable")
    assert [row[2] for row in markers(broker)] == [True]
    assert broker.call(lambda server: log_of(server).log_end_offset) == 2  # the record and its marker


def test_who_is_refused_twice_is_settled_once(broker: Broker, client: RawClient) -> None:
    """The transaction refuses the batch, then the log does: the response counts on one word of each partition."""
    create_topic(client)
    status = ProducePartitionStatus(broker.call(lambda server: server.topics.partition(*T0)), 0)
    settled: list[int] = []
    status.when_settled(lambda: settled.append(status.answer.error_code))
    status.failed(KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction does not take the partition"))
    status.failed(KafkaError(ErrorCode.INVALID_TXN_STATE, "no part of an ongoing transaction"))
    assert settled == [status.answer.error_code] == [ErrorCode.NOT_ENOUGH_REPLICAS]


def refuse_next(transactional_id: str, server: Server) -> None:
    """The next record of the coordinator of this id finds the disk full."""
    log = server.transaction_coordinator.shard_of(transactional_id).partition.log
    append = log.append

    def refuse(*_: object, **__: object) -> NoReturn:
        log.append = append  # type: ignore[method-assign]
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk full")

    log.append = refuse  # type: ignore[method-assign]


def hold_validation(broker: Broker) -> threading.Event:
    """The validation thread is busy until the event is set."""
    released = threading.Event()

    def wait(_: object) -> None:
        released.wait(60)

    def hold(server: Server) -> None:
        thread = server.validation_queue.thread
        thread.begin(thread.run(wait))

    broker.call(hold)
    return released


def waits_for_validation(broker: Broker) -> bool:
    return broker.call(lambda server: server.validation_queue.is_busy(server.topics.partition(*T0)))


def keyed_request(producer: TransactionalProducer) -> ProduceRequest:
    """Large enough that the thread looks into it."""
    asked = producer.request(T0)
    batch = batch_of(
        b"x" * 20_000,
        key=b"k",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    asked.topic_data[0].partition_data[0].records = bytes(batch)
    return asked


def test_a_repeated_batch_of_an_ended_transaction_is_verified_first(producer: TransactionalProducer) -> None:
    """Rule T.59: the log would take it for a duplicate and answer with its first offset."""
    producer.add(T0)
    first = producer.request(T0)
    assert producer.client.call(first, TV1).responses[0].partition_responses[0].error_code == OK
    assert producer.client.call(first, TV1).responses[0].partition_responses[0].error_code == OK
    assert producer.end(version=4) == OK
    eventually(lambda: producer.describe().transaction_state == "CompleteCommit", "the transaction has ended")
    (answer,) = producer.client.call(first, TV1).responses[0].partition_responses
    assert answer.error_code == ErrorCode.TRANSACTION_ABORTABLE


# -- time, deletion, restarts


@MODES
def test_a_transaction_times_out(start: Start, connect: Connect, version: int) -> None:
    """Rules T.37 and T.82."""
    clock = StandingClock()
    broker = start(clock=clock)
    producer = TransactionalProducer(connect(broker), version=version)
    create_topic(producer.client)
    producer.init()
    begin(producer, T0)
    advance(broker, clock, 60_001)
    eventually(lambda: is_stable(broker), "the marker is durable")
    assert [row[2] for row in markers(broker)] == [False]
    if version == TV2:
        assert producer.produce(T0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert producer.end(commit=False) == OK
        assert producer.produce(T0) == [OK]
    else:
        assert producer.end() == ErrorCode.PRODUCER_FENCED


def test_a_topic_that_is_gone_does_not_hold_up_the_others(broker: Broker, producer: TransactionalProducer) -> None:
    """Rule T.32."""
    create_topic(producer.client, "u")
    begin(producer, T0, ("u", 0))
    assert delete_topic(producer.client, "u") == OK
    assert producer.end() == OK
    eventually(lambda: is_stable(broker), "the marker is durable")
    eventually(lambda: producer.describe().transaction_state == "CompleteCommit", "the transaction is complete")


@MODES
def test_an_open_transaction_outlives_a_restart(start: Start, connect: Connect, tmp_path: Path, version: int) -> None:
    """Rule T.75."""
    broker = start(data=tmp_path)
    producer = TransactionalProducer(connect(broker), version=version)
    create_topic(producer.client)
    producer.init()
    begin(producer, T0)
    broker.stop()
    producer.client = connect(broker := start(data=tmp_path))
    eventually(lambda: producer.describe().transaction_state == "Ongoing", "the coordinator is loaded")
    assert not is_stable(broker)
    assert producer.produce(T0) == [OK]
    assert producer.end() == OK
    eventually(lambda: is_stable(broker), "the marker is durable")
    assert [row[2] for row in markers(broker)] == [True]


def test_an_open_transaction_of_which_nobody_knows_is_aborted_at_the_start(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    """Rules T.63 and T.75: the record of the coordinator was lost, the records were not."""
    broker = start(data=tmp_path)
    producer = TransactionalProducer(connect(broker))
    create_topic(producer.client, partitions=2)
    producer.init()
    begin(producer, T1)

    def slip_in(server: Server) -> None:
        data = memoryview(
            batch_of(b"x", producer_id=producer.producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        )
        pairs = {(producer.producer_id, 0)}
        server.append(
            server.topics.partition("t", 0),
            data,
            [(0, read_header(data))],
            server.clock.wall_time(),
            verification=Verification(pairs, 2),
        )

    broker.call(slip_in)
    broker.stop()
    broker = start(data=tmp_path)
    eventually(lambda: is_stable(broker, 0), "the unknown transaction is aborted")
    assert not is_stable(broker, 1)
    assert markers(broker, 1) == []
    for _ in range(2):  # what is aborted is never taken for stored, though its sequence number is known
        producer.client = connect(broker)
        eventually(lambda: producer.produce(T0) == [ErrorCode.INVALID_PRODUCER_EPOCH], "the coordinator is loaded")
        broker.stop()
        broker = start(data=tmp_path)
    producer.client = connect(broker)
    eventually(lambda: producer.end(commit=False) == OK, "the coordinator is loaded")
    producer.sequences.clear()
    eventually(lambda: producer.produce(T0) == [OK], "the next transaction begins")
    assert producer.end() == OK
    eventually(lambda: is_stable(broker, 0), "it is over")
    assert [row[2] for row in markers(broker)][-1:] == [True]


def test_until_the_sweep_no_record_is_taken_for_stored(producer: TransactionalProducer, broker: Broker) -> None:
    """Rule T.75: also if its transaction is open in the log, and the record is known there."""
    assert producer.produce(T0) == [OK]

    def load(server: Server, is_swept: bool) -> None:
        server.transaction_coordinator._is_swept = is_swept

    broker.call(lambda server: load(server, False))
    producer.sequences.clear()
    assert producer.produce(T0) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    broker.call(lambda server: load(server, True))
    assert producer.produce(T0) == [OK]  # as stored
    assert producer.end() == OK


def test_a_decision_is_carried_out_after_a_restart(start: Start, connect: Connect, tmp_path: Path) -> None:
    """Rule T.75: the broker ends between the decision and the markers."""
    broker = start(data=tmp_path)
    producer = TransactionalProducer(connect(broker))
    create_topic(producer.client, partitions=2)
    producer.init()
    begin(producer, T0, T1)
    broker.call(lambda server: setattr(server.transaction_coordinator.markers, "send", lambda *_: None))
    assert producer.end() == OK
    assert producer.describe().transaction_state == "PrepareCommit"
    broker.stop()
    broker = start(data=tmp_path)
    eventually(lambda: is_stable(broker, 0) and is_stable(broker, 1), "markers are written")
    assert [row[2] for row in markers(broker, 0) + markers(broker, 1)] == [True, True]


def test_a_marker_by_hand_ends_a_hanging_transaction(broker: Broker, producer: TransactionalProducer) -> None:
    begin(producer, T0)
    marker = TxnMarker(producer.producer_id, producer.epoch + 1, False)
    broker.call(lambda server: server.append_marker(server.topics.partition("t", 0), marker))
    eventually(lambda: is_stable(broker), "the marker is durable")


def test_ids_without_transactions_are_as_before(client: RawClient) -> None:
    """Rule T.10."""
    answers = [client.call(InitProducerIdRequest(transaction_timeout_ms=0)) for _ in range(2)]
    assert [(one.error_code, one.producer_epoch) for one in answers] == [(OK, 0), (OK, 0)]
    assert answers[0].producer_id != answers[1].producer_id


def test_who_may_not_use_the_id(start: Start, connect: Connect) -> None:
    """Rules T.9 and T.41."""
    broker = start(authorizer=lambda session, operation, resource: resource.type is not ResourceType.TRANSACTIONAL_ID)
    client = connect(broker)
    create_topic(client)
    producer = TransactionalProducer(client)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert producer.init() == denied
    assert producer.add() == {T0: denied}
    assert producer.add_offsets("g") == denied
    assert producer.end() == denied
    assert producer.produce() == [denied]
    assert producer.describe().error_code == denied
    assert client.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[])).transaction_states == []
