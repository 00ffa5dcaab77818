"""Kafka's own tools say the same of three brokers of ours as of three of Apache Kafka: where partitions are, who leads
them, what becomes of elections and reassignments."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from equipoise.broker import Broker
from proving.kafka_cluster import KafkaCluster, Servers
from proving.tools import Tools
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PLAN = {0: [3, 2], 1: [1, 3]}


def said(tools: Tools, servers: str, topic: str, *arguments: str) -> str:
    """Without what differs from run to run: the topic's name and id, directories, and the order of replicas that are in
    sync, and of partitions that the tool has in a map. Kafka takes a moment to copy records."""
    ended = tools.run(*arguments, broker=Servers(servers))
    while "still in progress" in ended.stdout:
        ended = tools.run(*arguments, broker=Servers(servers))
    text = re.sub(r"TopicId: \S+", "TopicId: ID", (ended.stdout + ended.stderr).replace(topic, "TOPIC"))
    text = re.sub(r'"log_dirs":\[[^]]*\]', "DIRECTORIES", text)
    in_sync = re.sub(r"Isr: ([\d,]+)", lambda found: f"Isr: {sorted(found[1].split(','))}", text)
    in_sync = re.sub(r"(?<=elected for partitions )(.+)", lambda found: str(sorted(found[1].split(", "))), in_sync)
    rows = [line.rstrip() for line in in_sync.splitlines() if line.strip() and "Configs:" not in line]
    return f"{ended.status}\n" + "\n".join(rows)


def play(tools: Tools, servers: str, home: Path) -> list[str]:
    topic = f"tools-{uuid.uuid4()}"
    places = {"partitions": [{"topic": topic, "partition": one} for one in PLAN]}
    moves = [{"topic": topic, "partition": one, "replicas": replicas} for one, replicas in PLAN.items()]
    election, plan = home / "election.json", home / "plan.json"
    election.write_text(json.dumps(places))
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    describe = ("kafka-topics", "--describe", "--topic", topic)
    elect = ("kafka-leader-election", "--election-type", "preferred", "--path-to-json-file", str(election))
    file = ("--reassignment-json-file", str(plan))
    lines = [
        ("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3,2:3:1"),
        describe,
        elect,
        ("kafka-reassign-partitions", *file, "--execute"),
        ("kafka-reassign-partitions", *file, "--verify"),
        ("kafka-reassign-partitions", "--list"),
        describe,
        elect,
        describe,
        ("kafka-topics", "--delete", "--topic", topic),
    ]
    return [said(tools, servers, topic, *line) for line in lines]


def test_tools_say_the_same_of_both(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    with needed(Tools) as tools, Broker(brokers=3) as broker:
        ours = play(tools, broker.bootstrap_servers, tmp_path)
        theirs = play(tools, kafka_cluster.bootstrap_servers, tmp_path)
    assert ours == theirs
