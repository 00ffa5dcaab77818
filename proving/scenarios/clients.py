"""The clients of the matrix: how each is told to play, what it cannot play and why, and its version."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from proving.brokers import kafka_version
from proving.fetched import Unavailable, find_tool, java
from proving.members.view import CONSUMER
from proving.scenarios.stage import Client

_PROVING = Path(__file__).parents[1]
_NOT_COOPERATIVE = "no cooperative assignor"
_NOT_MIXED = "it takes no eager and cooperative assignors together"

CLIENTS = {
    client.name: client
    for client in (
        Client("equipoise"),
        Client("java"),
        Client(
            "confluent-kafka",
            lacks={"rolling upgrade": _NOT_MIXED},
        ),
        # A join that ends between two of its polls is thrown away, and done once more.
        Client("kafka-python", wastes_rounds=True, lacks={"rolling upgrade": _NOT_MIXED}),
        Client("aiokafka", lacks={"cooperative": _NOT_COOPERATIVE, "rolling upgrade": _NOT_COOPERATIVE}),
        Client(
            "kafkajs",
            assignor="roundrobin",
            lacks={
                "static restart": "no group.instance.id",
                "pattern": "looks for topics only when it subscribes",
                "cooperative": _NOT_COOPERATIVE,
                "rolling upgrade": _NOT_COOPERATIVE,
            },
        ),
        Client("franz-go", lacks={"max.poll overrun": "no max.poll.interval.ms: it stays a member while it works"}),
    )
}

# The same with group.protocol=consumer: the broker assigns.
CONSUMER_CLIENTS = {
    client.name: client
    for client in (
        Client("equipoise, consumer", CONSUMER, wastes_rounds=True, program="equipoise"),
        Client("java, consumer", CONSUMER, wastes_rounds=True, program="java"),
        # As leader of cooperative-sticky it writes user data into assignments, and Kafka upgrades no such group.
        Client("confluent-kafka, consumer", CONSUMER, wastes_rounds=True, program="confluent-kafka", classic="range"),
        Client(
            "franz-go, consumer",
            CONSUMER,
            wastes_rounds=True,
            program="franz-go",
            lacks={
                "max.poll overrun": "no max.poll.interval.ms: it stays a member while it works",
                "returning static member": "closing, it does not say that it will be back: its session has to expire",
            },
        ),
    )
}
ALL_CLIENTS = CLIENTS | CONSUMER_CLIENTS


def client_version(client: str) -> str:
    match client:
        case "java":
            return f"{kafka_version()} on {_first_line(java(), '--version')}"
        case "kafkajs":
            packages = json.loads((_PROVING / "members" / "kafkajs" / "package.json").read_text())
            return f"{packages['dependencies']['kafkajs']} on Node.js {_first_line(find_tool('node', ''), '--version')}"
        case "franz-go":
            found = re.search(r"twmb/franz-go (v\S+)", (_PROVING / "franz_go" / "go.mod").read_text())
            assert found is not None
            return f"{found[1]} on {_first_line(find_tool('go', ''), 'version')}"
        case "confluent-kafka":
            from confluent_kafka import libversion

            return f"{version(client)} with librdkafka {libversion()[0]}"
    return version(client)


def _first_line(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise Unavailable(f"{' '.join(command)} has failed: {ended.stderr}")
    return ended.stdout.splitlines()[0]
