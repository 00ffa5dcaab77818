"""The Java producer and consumer on our broker, as Kafka's tools for the terminal and for its own tests run them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.client import Admin
from equipoise.wire.records.batch import BatchHeader, Codec, iter_headers
from proving.brokers import EquipoiseBroker
from proving.tools import Tools
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGES = 300
PARTITIONS = 3


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with needed(Tools) as running:
        yield running


@pytest.fixture(scope="module")
def ours() -> Iterator[EquipoiseBroker]:
    with EquipoiseBroker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            for codec in CODECS:
                admin.create_topic(codec, PARTITIONS)
        yield broker


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def batches(broker: EquipoiseBroker, topic: str) -> list[BatchHeader]:
    segments = [path for index in range(PARTITIONS) for path in (broker.data / f"{topic}-{index}").glob("*.log")]
    return [header for path in segments for _, header in iter_headers(path.read_bytes())]


def produce(tools: Tools, broker: EquipoiseBroker, topic: str, codec: str) -> set[str]:
    """Keyed messages by the producer in its default, which is idempotent; the values."""
    values = {f"message {number}" for number in range(MESSAGES)}
    lines = "".join(f"{value[-2:]}\t{value}\n" for value in values)
    given = ("--topic", topic, "--compression-codec", codec, "--reader-property", "parse.key=true")
    produced = tools.run("kafka-console-producer", *given, broker=broker, stdin=lines)
    assert (produced.status, produced.stderr) == (0, "")
    return values


@pytest.mark.parametrize("codec", CODECS)
def test_what_the_idempotent_producer_sends_the_consumer_gets(tools: Tools, ours: EquipoiseBroker, codec: str) -> None:
    sent = produce(tools, ours, codec, codec)
    stored = batches(ours, codec)
    assert {header.codec for header in stored} == {Codec[codec.upper()]}
    assert all(header.producer_id >= 0 and header.base_sequence >= 0 for header in stored)
    asked = ("--topic", codec, "--max-messages", str(MESSAGES), "--group-id", codec, "--verbose")
    consumed = tools.run("kafka-verifiable-consumer", *asked, broker=ours)
    assert consumed.status == 0, consumed.stderr
    assert {one["value"] for one in events(consumed.stdout) if one["name"] == "record_data"} == sent


@pytest.mark.parametrize("assignor", ["Range", "RoundRobin", "Sticky", "CooperativeSticky"])
def test_a_group_of_the_java_consumer_commits_all_it_has_read(
    tools: Tools, ours: EquipoiseBroker, assignor: str
) -> None:
    with Admin(ours.bootstrap_servers) as admin:
        admin.create_topic(assignor, PARTITIONS)
    produce(tools, ours, assignor, "none")
    words = ("--topic", assignor, "--max-messages", str(MESSAGES))
    strategy = f"org.apache.kafka.clients.consumer.{assignor}Assignor"
    group = ("--group-id", assignor, "--assignment-strategy", strategy)
    said = events(tools.run("kafka-verifiable-consumer", *words, *group, broker=ours).stdout)
    assert [len(one["partitions"]) for one in said if one["name"] == "partitions_assigned"] == [PARTITIONS]
    commits = [one for one in said if one["name"] == "offsets_committed"]
    assert all(one["success"] for one in commits)
    committed = {row["partition"]: row["offset"] for one in commits for row in one["offsets"]}
    assert sum(committed.values()) == MESSAGES
    described = tools.run("kafka-consumer-groups", "--describe", "--group", assignor, broker=ours).stdout
    lags = [line.split()[5] for line in described.splitlines() if line.startswith(assignor)]
    assert lags == ["0"] * PARTITIONS


def test_a_group_of_the_new_protocol_reads_all(tools: Tools, ours: EquipoiseBroker) -> None:
    with Admin(ours.bootstrap_servers) as admin:
        admin.create_topic("next", PARTITIONS)
    produce(tools, ours, "next", "none")
    asked = ("--topic", "next", "--group", "next", "--command-property", "group.protocol=consumer", "--from-beginning")
    output = tools.run("kafka-console-consumer", *asked, "--max-messages", str(MESSAGES), broker=ours)
    assert f"Processed a total of {MESSAGES} messages" in output.stderr
    assert "next" in tools.run("kafka-consumer-groups", "--list", broker=ours).stdout.split()


def test_where_the_new_group_protocol_is_off_the_refusal_tells_what_to_do(tools: Tools) -> None:
    with EquipoiseBroker({"group.coordinator.rebalance.protocols": "classic"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("none", PARTITIONS)
        asked = ("--topic", "none", "--group", "new", "--command-property", "group.protocol=consumer")
        output = tools.run("kafka-console-consumer", *asked, "--timeout-ms", "20000", broker=broker)
        assert "UnsupportedVersionException" in output.stderr
        assert "Set group.protocol=classic" in output.stderr
        assert "Processed a total of 0 messages" in output.stderr
        assert "new" not in tools.run("kafka-consumer-groups", "--list", broker=broker).stdout.split()
