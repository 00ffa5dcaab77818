"""The counting of the trials: what is lost, what is repeated, how long nothing came."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Producer

from equipoise.broker import Broker
from equipoise.client import Admin
from proving.trials.accounts import Account, Read, longest_stall, places, settle, table
from proving.trials.run import is_kept
from proving.trials.spark import SINK
from proving.trials.spark_readers import Files, Topic
from proving.trials.writing import Writer, read_log


def test_what_nobody_read_is_lost_and_what_came_again_is_repeated() -> None:
    account = settle("equipoise", {0, 1, 2, 3}, Counter({0: 1, 1: 3, 2: 1}), 1.5)
    assert account == Account("equipoise", acknowledged=4, read=3, lost=1, repeated=2, stalled_s=1.5)
    assert not account.is_exact


def test_each_place_of_a_record_is_to_be_read_once() -> None:
    """Also of a record that the log has twice: whoever reads the one copy twice, and the other not, is found out."""
    wanted = places([10, 11, 12], {(0, 0): 10, (0, 1): 10, (1, 0): 11, (1, 1): 99})
    assert wanted == {(0, 0), (0, 1), (1, 0), (-1, 12)}
    account = settle("equipoise", wanted, Counter({(0, 0): 2, (1, 0): 1, (1, 1): 1}), 0.0)
    assert (account.lost, account.repeated) == (2, 1)


def test_a_stall_is_of_one_partition_whatever_the_others_do() -> None:
    reads = [Read(at / 10, 0, at) for at in range(100)] + [Read(7.0, 1, 1), Read(1.0, 1, 0)]
    assert longest_stall(reads) == 6.0
    assert longest_stall([]) == 0.0


def test_a_sink_may_repeat_and_others_of_ours_may_not() -> None:
    repeated = Account("equipoise", acknowledged=4, read=4, lost=0, repeated=1, stalled_s=0.0)
    assert not is_kept(repeated)
    assert is_kept(repeated._replace(reader=SINK))
    assert is_kept(repeated._replace(reader="java"))
    assert not is_kept(repeated._replace(reader=SINK, lost=1))


def test_the_table_is_markdown() -> None:
    account = Account("java", acknowledged=1000, read=999, lost=1, repeated=0, stalled_s=2.04)
    assert table([account]).splitlines()[2] == "| java | 1,000 | 999 | 1 | 0 | 2.0 s |"


def test_files_count_by_the_list_that_spark_keeps_of_them(tmp_path: Path) -> None:
    lists = tmp_path / "member=0" / "_spark_metadata"
    lists.mkdir(parents=True)
    for name in ("kept", "left by a killed task"):
        (tmp_path / f"{name}.json").write_text('{"partition": 1, "offset": 7}\n')
    line = json.dumps({"path": f"file://{tmp_path}/kept.json", "action": "add"})
    reader = Files("members", tmp_path, "member=*")
    assert reader.reads() == []
    (lists / "0").write_text(f"v1\n{line}\n")
    (lists / ".1.tmp").write_text("v1\n")
    assert [(one.partition, one.offset) for one in reader.reads()] == [(1, 7)]
    (lists / "9.compact").write_text(f"v1\n{line}\n")  # all lists before it in one
    assert len(reader.reads()) == 1
    assert reader.has_passed({1: 7})
    assert not reader.has_passed({1: 8})


def test_a_topic_is_read_to_its_end_when_its_sink_has_ended(broker: Broker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("out", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for offset in (0, 1, 1):  # one of them written twice
        producer.produce("out", f"5:{offset}", partition=offset)
    assert producer.flush(60) == 0
    reader = Topic("sink", broker.bootstrap_servers, "out", 2)
    reader.end()
    found = Counter((one.partition, one.offset) for one in reader.reads())
    assert found == Counter({(5, 0): 1, (5, 1): 2})


def test_the_log_of_a_trial_is_read_by_number(broker: Broker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("trial", 2)
    with Writer(broker.bootstrap_servers, "trial", 2, rate=500) as writer:
        while len(writer.since(0.0)) < 2:
            time.sleep(0.01)
        writer.finish()
    log = read_log(broker.bootstrap_servers, "trial", 2)
    assert sorted(log.values()) == sorted(writer.acknowledged) == list(range(len(log)))
    assert all(log[one.partition, one.offset] == number for number, one in writer.acknowledged.items())
