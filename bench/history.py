"""`python -m bench history`: how long `equipoise history` takes over millions of commits."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results
from equipoise.client import Admin
from equipoise.client.net.addresses import parse_bootstrap_servers
from equipoise.client.net.blocking import Connection, error_from
from equipoise.wire.apis.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.offsets_records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from equipoise.wire.records.build import frame_batch
from equipoise.wire.records.columns import RecordColumns
from equipoise.wire.records.lanes import Bytes, Ints
from proving.brokers import BrokerProcess, EquipoiseBroker

RECORDS, QUICK_RECORDS = 10_000_000, 1_000_000
FIGURES = (
    Figure("history", "equipoise history, from the command to the report", "s", 60.0),
    Figure("rate", "commit records", "1/s"),
)
NOTES = (
    "Commits of 40 groups over a day, each of all 24 partitions of one topic and so a batch of 24 records, written "
    "straight into the 50 partitions of __consumer_offsets of our broker, another process. The command runs as a user "
    "would run it, with --master local[2]: the start of Spark is in the time.",
)
_TOPIC, _OFFSETS_TOPIC = "orders", "__consumer_offsets"
_PARTITIONS, _GROUPS, _LOG_PARTITIONS = 24, 40, 50
_ADMIN_CLIENT = "__admin_client"  # to whom brokers let their internal topics be written
_ROUNDS_AT_A_TIME = 20
_WITH_NAMES = 12  # the newest version of Produce that has topics by name
_DAY_MS = 86_400_000
_VALUE = encode_value(
    OffsetCommitValue(offset=0, leader_epoch=0, metadata="", commit_timestamp=0, topic_id=bytes(range(16)))
)
_SETTINGS = {
    "offsets.topic.num.partitions": _LOG_PARTITIONS,
    "log.cleaner.min.compaction.lag.ms": 10 * _DAY_MS,  # compaction would leave 960 of them
    "flush": "never",
}


def run_bench(as_json: bool, quick: bool, records: int | None) -> None:
    check_machine("history", "pyspark", "pyarrow", "matplotlib")
    count = records or (QUICK_RECORDS if quick else RECORDS)
    results = Results("history", FIGURES, NOTES, records=count)
    began = time.perf_counter()
    with EquipoiseBroker(_SETTINGS) as broker, tempfile.TemporaryDirectory() as out, progress(2) as advance:
        written = _fill(broker, count)
        advance()
        seconds = _read_back(broker, Path(out), written)
        advance()
    results.add("history", seconds)
    results.add("rate", written / seconds)
    results.print(as_json, time.perf_counter() - began)


def _read_back(broker: BrokerProcess, out: Path, written: int) -> float:
    import pyarrow.dataset as ds

    command = [sys.executable, "-m", "equipoise", "history", "--bootstrap-servers", broker.bootstrap_servers]
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, "--out", str(out), "--master", "local[2]"], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if ended.returncode != 0:
        raise EquipoiseError(f"equipoise history has failed: {ended.stderr[-1000:]}")
    found = ds.dataset(out / "commits").count_rows()
    if found != written:
        raise EquipoiseError(f"equipoise history has read {found:,} of {written:,} commits")
    return seconds


# -- commits


def _fill(broker: BrokerProcess, count: int) -> int:
    """About `count` records, in whole rounds of commits. Each group has a partition of its own."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(_TOPIC, _PARTITIONS)
    ((host, port),) = parse_bootstrap_servers(broker.bootstrap_servers)
    rounds = -(-count // (_GROUPS * _PARTITIONS))
    with Connection(host, port, client_id=_ADMIN_CLIENT) as connection:
        connection.send(FindCoordinatorRequest(coordinator_keys=["any"]), FindCoordinatorResponse)  # makes the topic
        for batches in _batches(rounds):
            _produce(connection, batches)
    return rounds * _GROUPS * _PARTITIONS


def _produce(connection: Connection, batches: list[bytearray]) -> None:
    """One batch a partition: brokers take no more in a request."""
    data = [PartitionProduceData(index=number, records=memoryview(batch)) for number, batch in enumerate(batches)]
    topic = TopicProduceData(name=_OFFSETS_TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    answer = connection.answer(connection.ask(request, _WITH_NAMES), ProduceResponse)
    code = answer.responses[0].partition_responses[0].error_code
    if code:
        raise error_from(code, "commits could not be written")


def _batches(rounds: int) -> Iterator[list[bytearray]]:
    """Of each round a batch for each group, the commit of all its partitions; rounds are made some at a time."""
    import numpy as np

    start, step = round(time.time() * 1000) - _DAY_MS, _DAY_MS / rounds
    for first in range(0, rounds, _ROUNDS_AT_A_TIME):
        numbers = np.arange(first, min(rounds, first + _ROUNDS_AT_A_TIME))
        made = _build(numbers, start + (numbers * step).astype(np.int64))
        while made:
            yield made[:_GROUPS]
            del made[:_GROUPS]


def _build(offsets: Ints, times: Ints) -> list[bytearray]:
    import numpy as np
    import pyarrow as pa

    each = _GROUPS * _PARTITIONS
    rows = len(offsets) * each
    values = np.tile(np.frombuffer(_VALUE, np.uint8), (rows, 1))
    values[:, 2:10] = _big_endian(np.repeat(offsets, each))
    values[:, 15:23] = _big_endian(np.repeat(times, each))
    ends = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * len(_VALUE))
    value = pa.Array.from_buffers(pa.binary(), rows, [None, ends, pa.py_buffer(values)])
    columns = RecordColumns(pa.array(_keys() * len(offsets), pa.binary()), value)
    batches = columns.batches(np.arange(rows), range(_PARTITIONS, rows + 1, _PARTITIONS), np.repeat(times, each))
    return [frame_batch(header, records) for header, records in batches]


@cache
def _keys() -> list[bytes]:
    places = [(f"group-{group}", number) for group in range(_GROUPS) for number in range(_PARTITIONS)]
    return [encode_key(OffsetCommitKey(group=group, topic=_TOPIC, partition=number)) for group, number in places]


def _big_endian(numbers: Ints) -> Bytes:
    import numpy as np

    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
