"""The history of a group whose members joined, left and were killed holds what happened, on our broker and on Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer, TopicPartition
from equipoise.process_guard import GuardedProcess
from equipoise.spark.history.report import OVERVIEW, PAGE, write_report
from equipoise.spark.history.tables import COMMITS, Request, _tell, write_tables
from equipoise.wire.errors import UsageError
from proving.brokers import KafkaBroker

pytestmark = pytest.mark.timeout(900)  # Spark takes its time on a busy machine

PARTITIONS, RECORDS = 6, 10  # of each
PATIENCE_S = 200.0
SESSION_MS, LONG_SESSION_MS = 3_000, 60_000
Rows = list[dict[str, Any]]


class Lived(NamedTuple):
    """A group's life: alice joins, bob joins and is killed, carol joins and leaves, alice leaves."""

    address: str
    group: str
    topic: str


class Member:
    def __init__(self, lived: Lived, name: str, session_ms: int) -> None:
        settings = {
            "bootstrap.servers": lived.address,
            "group.id": lived.group,
            "client.id": name,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": "range",
        }
        script = str(Path(__file__).parent / "history_member.py")
        command = [sys.executable, script, json.dumps(settings), lived.topic]
        self.process: GuardedProcess[str] = GuardedProcess(command, stdout=subprocess.PIPE, text=True)

    def await_partitions(self, *wanted: int) -> None:
        """Reads what it says until it has these; it says nothing else for ever if the group never settles so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if json.loads(line) == list(wanted):
                return
        raise AssertionError("the member has ended")

    def end(self, *, kill: bool = False) -> None:
        with self.process:
            (self.process.kill if kill else self.process.terminate)()


def live(lived: Lived, session_ms: int) -> Lived:
    """The session is that of bob, who is to be missed."""
    with Admin(lived.address) as admin:
        admin.create_topic(lived.topic, PARTITIONS)
    write(lived)
    alice = Member(lived, "alice", LONG_SESSION_MS)
    alice.await_partitions(*range(6))
    bob = Member(lived, "bob", session_ms)
    bob.await_partitions(3, 4, 5)
    alice.await_partitions(0, 1, 2)
    bob.end(kill=True)
    alice.await_partitions(*range(6))
    carol = Member(lived, "carol", LONG_SESSION_MS)
    carol.await_partitions(3, 4, 5)
    alice.await_partitions(0, 1, 2)
    carol.end()
    alice.await_partitions(*range(6))
    until(lambda: sum(committed(lived).values()) == PARTITIONS * RECORDS)
    alice.end()
    write(lived)  # which nobody has read
    return lived


def write(lived: Lived) -> None:
    producer = Producer({"bootstrap.servers": lived.address})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(lived.topic, b"x", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def committed(lived: Lived) -> dict[int, int]:
    places = [TopicPartition(lived.topic, number) for number in range(PARTITIONS)]
    with Consumer(bootstrap_servers=lived.address, group_id=lived.group) as consumer:
        return {place.partition: found.offset for place, found in consumer.committed(*places).items()}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def lived() -> Iterator[Lived]:
    settings = {
        "group.min.session.timeout.ms": 500,
        "group.initial.rebalance.delay.ms": 0,
        "group.lost.connection.grace.ms": 0,  # as on Kafka, bob's session decides
        "offsets.topic.num.partitions": 3,
    }
    with Broker(settings) as broker:
        yield live(Lived(broker.bootstrap_servers, "orders-group", "orders"), session_ms=SESSION_MS)


class Told(NamedTuple):
    tables: dict[str, Any]
    out: Path


@pytest.fixture(scope="module")
def told(spark: Any, lived: Lived, tmp_path_factory: pytest.TempPathFactory) -> Told:
    out = tmp_path_factory.mktemp("history")
    return Told(write_tables(spark, Request(bootstrap_servers=lived.address), out), out)


def of(tables: dict[str, Any], name: str) -> Rows:
    table = tables[name]
    order = "ended" if name == "rebalances" else "began" if "began" in table.column_names else table.column_names[0]
    rows: Rows = table.sort_by(order).to_pylist()
    return rows


def test_the_tables_tell_what_happened(told: Told) -> None:
    tables = told.tables
    rebalances = of(tables, "rebalances")
    assert [(row["reason"], row["cause_client"], row["members"]) for row in rebalances] == [
        ("member_joined", "alice", 1),
        ("member_joined", "bob", 2),
        ("session_expired", "bob", 1),
        ("member_joined", "carol", 2),
        ("member_left", "carol", 1),
        ("member_left", "alice", 0),
    ]
    assert [row["protocol"] for row in rebalances] == ["range"] * 5 + [None]
    assert all(row["duration_ms"] >= 0 and row["source"] == "journal" for row in rebalances)
    assert {row["client_id"]: row["why_left"] for row in of(tables, "memberships")} == {
        "alice": "left",
        "bob": "session_expired",
        "carol": "left",
    }
    assert {row["client_id"]: row["session_timeout_ms"] for row in of(tables, "memberships")} == {
        "alice": LONG_SESSION_MS,
        "bob": SESSION_MS,
        "carol": LONG_SESSION_MS,
    }
    check_ownership(of(tables, "ownership"))
    restless = {row["partition"]: row for row in of(tables, "flapping")}
    assert [restless[number]["changes"] for number in range(6)] == [0, 0, 0, 4, 4, 4]
    assert [restless[number]["returns"] for number in range(6)] == [0, 0, 0, 2, 2, 2]
    assert all(restless[number]["dark_ms"] >= SESSION_MS for number in (3, 4, 5)), (
        "nobody had what bob had until he expired"
    )


def test_the_tables_are_in_files(lived: Lived, told: Told) -> None:
    tables, out = told
    check_commits(tables, lived, out)
    written = {name: pq.read_table(out / name) for name in tables}
    assert {name: table.num_rows for name, table in written.items()} == {
        name: table.num_rows for name, table in tables.items()
    }


def check_ownership(rows: Rows) -> None:
    for number in range(PARTITIONS):
        spans = [row for row in rows if row["partition"] == number]
        for before, after in pairwise(spans):
            assert before["ended"] == after["began"], "somebody or nobody has it, at every time"
        owners = [row["client_id"] for row in spans if row["member_id"]]
        others = ["bob", "carol"] if number > 2 else []
        assert list(dict.fromkeys(owners)) == ["alice", *others]
        assert spans[-1]["ended"] is None
        assert spans[-1]["is_empty"], "when all have left, nobody has it"


def check_commits(tables: dict[str, Any], lived: Lived, out: Path) -> None:
    commits = pq.read_table(out / COMMITS).sort_by("position").to_pylist()
    assert {row["partition"]: row["offset"] for row in commits if row["group"] == lived.group} == committed(lived)
    now = [row for row in of(tables, "lag") if not row["is_estimate"]]
    assert {row["partition"]: (row["committed"], row["log_end"], row["lag"]) for row in now} == dict.fromkeys(
        range(PARTITIONS), (RECORDS, 2 * RECORDS, RECORDS)
    )
    estimates = [row["lag"] for row in of(tables, "lag") if row["is_estimate"]]
    assert estimates
    assert all(0 <= lag <= RECORDS for lag in estimates)


def test_the_report_needs_nothing_beside_it(told: Told) -> None:
    tables, out = told
    page = write_report(tables, out, "here").read_text()
    assert page == (out / PAGE).read_text()
    assert "session expired" in page
    assert "src='data:image/png;base64," in page
    assert "://" not in page
    assert {file.name for file in out.glob("*.png")} == {OVERVIEW, "ownership-orders-group.png"}
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in out.glob("*.png"))


def test_since_then_and_of_one_group(spark: Any, lived: Lived, told: Told, tmp_path: Path) -> None:
    carol = next(row for row in of(told.tables, "memberships") if row["client_id"] == "carol")
    since = round(carol["began"].timestamp() * 1000)
    tables = write_tables(spark, Request(bootstrap_servers=lived.address, group=lived.group, since=since), tmp_path)
    assert [row["cause_client"] for row in of(tables, "rebalances")] == ["carol", "carol", "alice"]
    assert {row["client_id"]: row["why_left"] for row in of(tables, "memberships")} == {
        "alice": "left",
        "carol": "left",
    }


def test_a_group_that_is_not_there(spark: Any, lived: Lived, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"group 'nobody' has left no trace at .*: check its name"):
        write_tables(spark, Request(bootstrap_servers=lived.address, group="nobody"), tmp_path)


def test_any_directory_will_do(spark: Any, lived: Lived, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would take these names for patterns, and what stands before a colon for a scheme."""
    monkeypatch.chdir(tmp_path)
    out = Path("at 13:04 [a]{b,c}*?%20")
    tables = write_tables(spark, Request(bootstrap_servers=lived.address, group=lived.group), out)
    assert len(of(tables, "rebalances")) == 6
    check_commits(tables, lived, out)


def test_a_deleted_group_has_no_lag(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """It had one before."""
    servers = broker.bootstrap_servers
    with Admin(servers) as admin:
        admin.create_topic("orders", 1)
        for group in ("gone", "here"):
            with Consumer(bootstrap_servers=servers, group_id=group) as consumer:
                consumer.commit({TopicPartition("orders", 0): 0})
        admin.delete_groups(["gone"])
    rows = of(write_tables(spark, Request(bootstrap_servers=servers), tmp_path), "lag")
    assert {row["group"] for row in rows if not row["is_estimate"]} == {"here"}


def test_what_is_no_row_of_the_journal_is_left_out() -> None:
    """On another cluster anybody may write to a topic of its name."""
    joined = {"type": "member_joined", "at": 1_000, "who": {"member_id": "a", "client_id": "b", "client_host": "c"}}
    joined["who"] |= {"group_instance_id": None}  # type: ignore[operator]
    entries = [None, "", "no JSON", "[1]", "{}", '{"type": "of a newer release"}', json.dumps(joined)]
    rows = [{"position": at, "is_journal": True, "entry": entry} for at, entry in enumerate(entries)]
    (told,) = _tell(pa.array(["group"]), pa.array([rows])).to_pylist()
    assert [row["member_id"] for row in told["memberships"]] == ["a"]


@pytest.mark.kafka
def test_on_apache_kafka_generations_are_the_only_witness(spark: Any, kafka: KafkaBroker, tmp_path: Path) -> None:
    group = "history"
    lived = live(Lived(kafka.bootstrap_servers, group, "history"), session_ms=6000)
    tables = write_tables(spark, Request(bootstrap_servers=kafka.bootstrap_servers, group=group), tmp_path)
    rebalances = of(tables, "rebalances")
    assert [(row["reason"], row["cause_client"], row["members"]) for row in rebalances] == [
        ("member_joined", "alice", 1),
        ("member_joined", "bob", 2),
        ("member_gone", "bob", 1),
        ("member_joined", "carol", 2),
        ("member_gone", "carol", 1),
        ("member_gone", "alice", 0),
    ]
    assert all(row["source"] == "metadata" and row["duration_ms"] is None for row in rebalances)
    assert all(0 <= row["assign_ms"] < PATIENCE_S * 1000 for row in rebalances)
    assert {row["client_id"]: row["why_left"] for row in of(tables, "memberships")} == dict.fromkeys(
        ("alice", "bob", "carol"), "unknown"
    )
    check_ownership(of(tables, "ownership"))
    check_commits(tables, lived, tmp_path)
    page = write_report(tables, tmp_path, "Kafka").read_text()
    assert "concluded from who came and went" in page
