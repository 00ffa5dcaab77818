"""The commands on Apache Kafka: figures equal those of kafka-consumer-groups, and what cannot be known is not told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from equipoise.client import Admin, Consumer, Producer, TopicPartition
from proving.brokers import KafkaBroker
from proving.tools import Tools
from tests.commands import Command, Ended
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka


@pytest.fixture
def groups(command: Command, kafka: KafkaBroker) -> Command:
    def call(*arguments: str) -> Ended:
        return command("groups", *arguments, "--utc", "-b", kafka.bootstrap_servers, "--timeout", "30s")

    return call


class Scene:
    """A topic of three partitions with records, and a group on it."""

    def __init__(self, kafka: KafkaBroker, stack: ExitStack) -> None:
        self.address = kafka.bootstrap_servers
        self.topic, self.group = f"orders-{uuid4().hex[:6]}", f"billing-{uuid4().hex[:6]}"
        self._stack = stack
        self.admin = stack.enter_context(Admin(kafka.bootstrap_servers))
        self.admin.create_topic(self.topic, 3)
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(30):
                producer.send(self.topic, b"x", partition=number % 3)

    def join(self, client_id: str, protocol: str = "classic") -> Consumer:
        consumer = Consumer(
            bootstrap_servers=self.address,
            group_id=self.group,
            client_id=client_id,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._stack.callback(consumer.close)
        consumer.subscribe([self.topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        return consumer


@pytest.fixture
def scene(kafka: KafkaBroker) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(kafka, stack)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with needed(Tools) as running:
        yield running


def kafkas_figures(tools: Tools, kafka: KafkaBroker, group: str) -> dict[tuple[str, int], tuple[str, ...]]:
    """Committed, end, lag and client id of each partition, as Kafka's own tool has them."""
    shown = tools.run("kafka-consumer-groups", "--describe", "--group", group, broker=kafka).stdout
    found: dict[tuple[str, int], tuple[str, ...]] = {}
    for line in shown.splitlines():
        cells = line.split()
        if len(cells) >= 9 and cells[0] == group:
            found[cells[1], int(cells[2])] = (cells[3], cells[4], cells[5], cells[8])
    return found


def our_figures(found: dict[str, Any]) -> dict[tuple[str, int], tuple[str, ...]]:
    (group,) = found["groups"]
    clients = {one["member_id"]: one["client_id"] for one in group["members"]}

    def text(value: int | None) -> str:
        return "-" if value is None else str(value)

    return {
        (one["topic"], one["partition"]): (
            text(one["committed"]),
            text(one["log_end"]),
            text(one["lag"]),
            clients.get(one["member_id"], "-"),
        )
        for one in group["partitions"]
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_figures_equal_those_of_kafkas_tool(
    groups: Command, kafka: KafkaBroker, tools: Tools, scene: Scene, protocol: str
) -> None:
    consumer = scene.join("worker", protocol)
    consumer.commit({TopicPartition(scene.topic, 0): 4, TopicPartition(scene.topic, 1): 10})
    live = json.loads(groups("lag", scene.group, "--json").out)
    assert our_figures(live) == kafkas_figures(tools, kafka, scene.group)
    assert live["groups"][0]["lag"]["lag"] == 6
    consumer.close()
    stopped = json.loads(groups("lag", scene.group, "--json").out)
    ours = our_figures(stopped)
    assert ours == kafkas_figures(tools, kafka, scene.group)
    assert stopped["groups"][0]["health"]["kind"] == "nobody_reads"
    assert scene.group in groups("list").out


def test_a_join_is_concluded_and_called_a_guess(groups: Command, scene: Scene) -> None:
    scene.join("one")
    found = json.loads(groups("explain", scene.group, "--json").out)
    assert found["source"] == "offsets_topic"
    (view,) = found["rebalances"]
    assert (view["cause"], view["guess"]["kind"], view["started"], view["dark"]) == (None, "member_joined", None, None)
    shown = groups("explain", scene.group).out
    assert re.search(r"why +one-\S+ \(client one, [\d.]+\) is new, so it has joined", shown)
    assert "source   group metadata records of __consumer_offsets. Not known there: when it began" in shown


def test_a_group_is_reset_and_deleted(groups: Command, scene: Scene) -> None:
    consumer = scene.join("one")
    consumer.commit({TopicPartition(scene.topic, 0): 4})
    refused = groups("reset", scene.group, "--to", "latest", "--yes")
    assert refused.status == 1
    assert "it has 1 member (one on " in refused.err
    consumer.close()
    assert groups("reset", scene.group, "--topic", scene.topic, "--to", "latest", "--yes").status == 0
    assert {one.offset for one in scene.admin.committed(scene.group).values()} == {10}
    assert groups("check", scene.group, "--max-lag", "0") == Ended(0, "", "")
    assert groups("delete", scene.group, "--yes").out == f"deleted group {scene.group}\n"
    assert groups("members", scene.group).status == 1
    assert "so it has joined" in groups("history", scene.group).out  # its past is known
