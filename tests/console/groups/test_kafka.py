"""The commands on Apache Kafka: figures equal those of kafka-consumer-groups, and what cannot be known is not told."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.client import Consumer, TopicPartition
from equipoise.watching import watcher as watcher_module
from proving.brokers import KafkaBroker
from proving.tools import Tools
from tests.commands import Command, Ended
from tests.console.groups.kafka_scene import Golden, Scene
from tests.console.schemas import all_schemas, check
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka
PATIENCE_S = 60


@pytest.fixture
def groups(kafka_groups: Command) -> Command:
    return kafka_groups


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


def kafkas_members(tools: Tools, kafka: KafkaBroker, group: str) -> dict[str, tuple[str, ...]]:
    """Host, client id and number of partitions of each member, as Kafka's own tool has them."""
    shown = tools.run("kafka-consumer-groups", "--describe", "--group", group, "--members", broker=kafka).stdout
    found: dict[str, tuple[str, ...]] = {}
    for line in shown.splitlines():
        cells = line.split()
        if len(cells) >= 5 and cells[0] == group:
            found[cells[1]] = (cells[2].lstrip("/"), cells[3], cells[4])
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_state_equal_those_of_kafkas_tool(
    groups: Command, kafka: KafkaBroker, tools: Tools, scene: Scene, protocol: str
) -> None:
    scene.join("worker", protocol)
    (group,) = json.loads(groups("describe", scene.group, "--json").out)["groups"]
    ours = {
        one["member_id"]: (one["client_host"], one["client_id"], str(len(one["partitions"])))
        for one in group["members"]
    }
    assert ours == kafkas_members(tools, kafka, scene.group)
    state = tools.run("kafka-consumer-groups", "--describe", "--group", scene.group, "--state", broker=kafka).stdout
    (line,) = [one.split() for one in state.splitlines() if one.startswith(scene.group)]
    assert group["state"] in line
    assert str(len(group["members"])) in line
    listed = tools.run("kafka-consumer-groups", "--list", broker=kafka).stdout.split()
    found = json.loads(groups("list", "--json").out)["groups"]
    assert {one["group_id"] for one in found} == set(listed)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_command_that_reads(command: Command, kafka: KafkaBroker, scene: Scene, protocol: str) -> None:
    """With words, and with JSON that keeps to its schema."""
    consumer = scene.join("worker", protocol)
    consumer.commit({TopicPartition(scene.topic, 0): 4})
    name, at = scene.group, ("-b", kafka.bootstrap_servers)
    for arguments, schema in (
        (["groups", "list"], "groups"),
        (["groups", "describe", name], "groups"),
        (["groups", "members", name, "--verbose"], "groups"),
        *((["groups", "lag", name, "--by", by], "groups") for by in ("partition", "topic", "member")),
        (["groups", "offsets", name], "groups"),
        (["groups", "history", name], "rebalances"),
        (["groups", "explain", name], "rebalances"),
        (["groups", "check", name, "--max-lag", "100"], "checks"),
        (["groups", "reset", name, "--to", "latest", "--dry-run"], "reset"),
        (["cluster"], "cluster"),
        (["topics", "list"], "topics"),
        (["topics", "describe", scene.topic], "topics"),
    ):
        shown = command(*arguments, *at, "--timeout", "30s")
        assert shown.status == 0, (arguments, shown.err)
        assert shown.out or arguments[1] == "check"
        told = command(*arguments, *at, "--timeout", "30s", "--json")
        check(json.loads(told.out), all_schemas()[schema])
    records = command("consume", scene.topic, "--exit", "--format", "json", *at).out.splitlines()
    assert len(records) == 30
    check(json.loads(records[0]), all_schemas()["events"])
    exported = command("groups", "offsets", name, "--export", *at).out
    assert f"{scene.topic},0,4\n" in exported


def test_a_consumer_group_is_reconstructed_from_its_records(groups: Command, scene: Scene) -> None:
    """Begin, target and reconciliation are in the records; the cause is concluded."""
    first = scene.join("one", "consumer")
    second = scene.member("two", "consumer")
    deadline = time.monotonic() + PATIENCE_S
    while not second.assignment() or len(first.assignment()) == 3:
        first.poll(0.1)
        second.poll(0.1)
        assert time.monotonic() < deadline

    def last(kind: str, *polled: Consumer, members: int) -> dict[str, Any]:
        """The last rebalance, when it is over: each member tells with its next heartbeat that it has its part."""
        while True:
            found = json.loads(groups("explain", scene.group, "--json").out)
            assert found["source"] == "offsets_topic"
            view: dict[str, Any] = found["rebalances"][0]
            if (view["guess"]["kind"], view["members"]) == (kind, members) or time.monotonic() > deadline:
                return view
            for one in polled:
                one.poll(0.1)

    view = last("member_joined", first, second, members=2)
    assert (view["cause"], view["guess"]["kind"], view["is_target"]) == (None, "member_joined", True)
    assert (view["guess"]["who"]["client_id"], view["members"]) == ("two", 2)
    assert view["old_generation"] + 1 == view["generation"]
    assert view["started"] <= view["ended"]
    assert {one["topic"] for one in view["moved"]} == {scene.topic}
    assert len(view["moved"]) + view["kept"] == 3
    shown = groups("explain", scene.group).out
    assert re.search(r"why +\S+ \(client two, [\d.]+\) is new, so it has joined", shown)
    assert re.search(r"phases +target [\d,]+ ms   reconcile [\d,]+ ms", shown)
    assert "records of the group in __consumer_offsets. Not known there: whether a member left or died" in shown
    scene.admin.add_partitions(scene.topic, 5)
    while len(first.assignment() | second.assignment()) < 5:
        first.poll(0.1)
        second.poll(0.1)
        assert time.monotonic() < deadline
    assert last("topics_changed", first, second, members=2)["guess"]["kind"] == "topics_changed"
    second.close()
    while len(first.assignment()) < 5:
        first.poll(0.1)
        assert time.monotonic() < deadline
    view = last("member_gone", first, members=1)
    assert (view["guess"]["kind"], view["guess"]["who"]["client_id"]) == ("member_gone", "two")


def test_what_members_of_a_classic_group_did_is_concluded(kafka_golden: Golden, scene: Scene) -> None:
    """Golden transcripts of what the records tell: each says what it is made of, and what it cannot know. A leave, a
    death and a member that polls too late look the same; a restart does not."""
    eager: dict[str, Any] = {"partition_assignment_strategy": "range", "metadata_max_age_ms": 200}
    one = scene.join("one", **eager)
    at = kafka_golden("the-first-member-joins", 0, one)
    two = scene.join("two", beside=one, **eager)
    at = kafka_golden("a-member-joins", at, one, two)
    scene.admin.add_partitions(scene.topic, 4)
    at = kafka_golden("partitions-are-added", at, one, two)
    two.close()
    at = kafka_golden("a-member-leaves", at, one)
    late = scene.join("late", beside=one, max_poll_interval_ms=2_000, **eager)
    at = kafka_golden("another-member-joins", at, one, late)
    at = kafka_golden("a-member-polls-too-late", at, one)
    scene.admin.create_topic(f"{scene.topic}-returned", 2)
    one.subscribe(pattern=f"^{scene.topic}")
    kafka_golden("a-pattern-matches", at, one)


def test_a_static_member_that_comes_back_is_told_from_a_new_one(kafka_golden: Golden, scene: Scene) -> None:
    one = scene.join("pod", group_instance_id="pod-1", partition_assignment_strategy="range,roundrobin")
    at = kafka_golden("a-static-member-joins", 0, one)
    one.close()
    again = scene.join("pod", group_instance_id="pod-1", partition_assignment_strategy="roundrobin")
    kafka_golden("a-static-member-is-replaced", at, again)


def test_where_no_topic_can_be_read_questions_tell_what_is(
    groups: Command, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members, commits and lag are known; rebalances are not."""
    for name in ("JOURNAL_TOPIC", "OFFSETS_TOPIC"):
        monkeypatch.setattr(watcher_module, name, "no-such-topic")
    consumer = scene.join("one", "consumer")
    consumer.commit({TopicPartition(scene.topic, 0): 4})
    found = json.loads(groups("lag", scene.group, "--json").out)
    (group,) = found["groups"]
    assert (found["source"], group["lag"]["lag"], group["rebalances_last_hour"]) == ("polling", 6, None)
    assert len(group["members"]) == 1
    assert "is unknown: neither __rebalances nor __consumer_offsets" in groups("history", scene.group).out


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
