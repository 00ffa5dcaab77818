"""Members of groups on Apache Kafka that are killed, cut off or stand still: what the records of their group tell.

Golden transcripts, as those of `test_kafka`. The broker has short sessions, so that a loss is soon noticed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.client import Consumer
from proving.brokers import KafkaBroker
from tests.commands import Command
from tests.console.groups.golden import until
from tests.console.groups.kafka_scene import Golden, Scene
from tests.console.groups.processes import process
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": 3_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "offsets.topic.num.partitions": 4,
}
SESSION: dict[str, Any] = {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 500}
LOSSES = [
    ("a-member-is-killed", signal.SIGKILL),
    # Its connections end without a word, and the process stands still: Kafka waits for the session's end.
    ("a-connection-is-lost", signal.SIGUSR1),
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    with needed(lambda: KafkaBroker(SETTINGS)) as running:
        yield running


def settled(scene: Scene, groups: Command, first: Consumer) -> int:
    """Waits until the second member has its part; the generation of then."""

    def rests() -> bool:
        first.poll(0.05)
        return 0 < len(first.assignment()) < 3

    until(rests)
    before = scene.newest(groups)

    def quiet() -> bool:
        nonlocal before
        first.poll(0.2)
        last, before = before, scene.newest(groups)
        return last == before

    until(quiet)
    return before


def test_losses_of_a_classic_group_look_alike(kafka_golden: Golden, kafka_groups: Command, scene: Scene) -> None:
    """Neither a kill nor a lost connection is in the records: the member is gone, and that is all that is known."""
    one = scene.join("one", partition_assignment_strategy="range")
    for name, sent in LOSSES:
        with process(scene.address, "two", topic=scene.topic, group_id=scene.group, **SESSION) as pid:
            at = settled(scene, kafka_groups, one)
            os.kill(pid, sent)
            kafka_golden(name, at, one)


def test_a_leader_that_never_syncs_leaves_an_empty_group(kafka_golden: Golden, scene: Scene) -> None:
    """Its generation never came to be. The records have the end alone: a group without members."""
    settings: dict[str, Any] = {"session_timeout_ms": 30_000, "max_poll_interval_ms": 5_000, "group_id": scene.group}
    with process(scene.address, "one", topic=scene.topic, freezes=True, **settings):
        kafka_golden("a-sync-is-pending-too-long", 0)


def test_what_members_of_a_consumer_group_did_is_concluded(kafka_golden: Golden, scene: Scene) -> None:
    """Records of KIP-848 have target and reconciliation. A leave and a death look alike in them."""
    one = scene.join("one", "consumer")
    at = kafka_golden("the-first-member-joins-a-consumer-group", 0, one)
    two = scene.member("two", "consumer")
    at = kafka_golden("a-consumer-group-reconciles", at, one, two)
    scene.admin.add_partitions(scene.topic, 4)
    at = kafka_golden("partitions-are-added-to-a-consumer-group", at, one, two)
    two.close()
    kafka_golden("a-member-leaves-a-consumer-group", at, one)


@pytest.mark.parametrize(("name", "sent"), LOSSES)
def test_losses_of_a_consumer_group_look_alike(
    kafka_golden: Golden, kafka_groups: Command, scene: Scene, name: str, sent: signal.Signals
) -> None:
    one = scene.join("one", "consumer")
    settings: dict[str, Any] = {"group_protocol": "consumer", "group_id": scene.group}
    with process(scene.address, "two", topic=scene.topic, **settings) as pid:
        at = settled(scene, kafka_groups, one)
        os.kill(pid, sent)
        kafka_golden(f"{name}-of-a-consumer-group", at, one)
