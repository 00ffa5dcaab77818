"""Changes to groups: reset, delete, delete-offsets, remove-member."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, TopicPartition
from tests.commands import Command
from tests.watching.conftest import Join, Produce

PARTITION = TopicPartition("orders", 0)


def committed(broker: Broker, group: str = "billing") -> dict[int, int]:
    with Admin(broker.bootstrap_servers) as admin:
        return {one.partition: place.offset for one, place in admin.committed(group).items()}


@pytest.fixture
def stopped(broker: Broker, produce: Produce) -> None:
    """`billing` without members, with 10 records of which it has read 4, and 5 of which it has read none."""
    produce(10)
    produce(5, partition=1)
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("billing", {PARTITION: 4, TopicPartition("orders", 1): 0})


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("earliest", {0: 0, 1: 0}),
        ("latest", {0: 10, 1: 5}),
        ("3", {0: 3, 1: 3}),
        ("99", {0: 10, 1: 5}),  # behind the end is the end
        ("+2", {0: 6, 1: 2}),
        ("-1", {0: 3, 1: 0}),
        ("1d", {0: 0, 1: 0}),  # all records are younger
        ("0s", {0: 10, 1: 5}),  # none is
        ("2001-01-01", {0: 0, 1: 0}),
        ("1969-12-31T23:59:59.999Z", {0: 0, 1: 0}),  # not the end, though it is -1
        ("40000d", {0: 0, 1: 0}),  # before 1970
    ],
)
def test_reset_commits_what_was_shown(groups: Command, broker: Broker, target: str, expected: dict[int, int]) -> None:
    ended = groups("reset", "billing", "--to", target, "--yes")
    assert ended.status == 0
    assert ended.out.splitlines()[-1] == "2 offsets of billing changed"
    assert committed(broker) == expected


@pytest.mark.usefixtures("stopped")
def test_reset_shows_what_is_read_again_and_what_is_skipped(groups: Command, broker: Broker) -> None:
    ended = groups("reset", "billing", "--to", "2", "--dry-run")
    assert ended.out.splitlines() == [
        "topic   partition  committed  new  read again  skipped",
        "orders  0          4          2    2           0",
        "orders  1          0          2    0           2",
        "2 records read again, 2 skipped",
    ]
    assert committed(broker) == {0: 4, 1: 0}
    found = json.loads(groups("seek", "billing", "--to", "2", "--dry-run", "--json").out)
    assert found["schema"] == "equipoise.reset/1"
    assert [(one["committed"], one["offset"], one["read_again"], one["skipped"]) for one in found["changes"]] == [
        (4, 2, 2, 0),
        (0, 2, 0, 2),
    ]


@pytest.mark.usefixtures("stopped")
def test_reset_of_some_partitions_from_a_file_and_from_another_group(
    groups: Command, broker: Broker, tmp_path: Path
) -> None:
    groups("reset", "billing", "--topic", "orders:1,3", "--to", "latest", "--yes")
    assert committed(broker) == {0: 4, 1: 5, 3: 0}
    file = tmp_path / "offsets.csv"
    file.write_text(groups("offsets", "billing", "--export").out)
    assert groups("reset", "copy", "--to", f"file:{file}", "--yes").status == 0
    assert committed(broker, "copy") == {0: 4, 1: 5, 3: 0}
    assert groups("reset", "third", "--to", "group:copy", "--yes").status == 0
    assert committed(broker, "third") == {0: 4, 1: 5, 3: 0}


@pytest.mark.usefixtures("stopped")
def test_a_reset_that_changes_nothing_is_a_slip(groups: Command, broker: Broker, tmp_path: Path) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("other", 1)
    file = tmp_path / "offsets.csv"
    file.write_text("\ufefforders,0,1\n")  # with the mark of some editors
    places = {"+1": "group 'billing'", "group:billing": "group 'billing'", f"file:{file}": str(file)}
    for target, place in places.items():
        ended = groups("reset", "billing", "--topic", "other", "--to", target, "--yes")
        assert (ended.status, ended.out) == (2, "")
        assert ended.err == f"equipoise: --to {target}: {place} has no offset of other\n"
    assert groups("reset", "billing", "--to", f"file:{file}", "--yes").status == 0
    assert committed(broker) == {0: 1, 1: 0}


@pytest.mark.usefixtures("stopped")
def test_without_a_terminal_nobody_can_be_asked(groups: Command, broker: Broker) -> None:
    for arguments in (["reset", "billing", "--to", "0"], ["delete", "billing"]):
        ended = groups(*arguments)
        assert ended.status == 1
        assert "Nobody can be asked here: give --yes" in ended.err
    assert committed(broker) == {0: 4, 1: 0}


def test_a_group_with_members_is_not_reset_and_they_are_named(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "worker").commit({PARTITION: 0})
    ended = groups("reset", "billing", "--to", "latest", "--yes")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "equipoise: offsets of 'billing' were not changed: it has 1 member (worker on 127.0.0.1); stop them first, "
        "the group is Empty at the latest when their sessions have ended. --dry-run shows the change meanwhile\n"
    )
    assert groups("reset", "billing", "--to", "latest", "--dry-run").status == 0
    told = json.loads(groups("reset", "billing", "--to", "latest", "--yes", "--json").out)
    assert told["error"]["code"] == "NON_EMPTY_GROUP"
    assert "it has 1 member (worker on 127.0.0.1)" in groups("delete", "billing", "--yes").err


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["reset", "billing", "--to", "soon"], "--to soon: write an age (30m, 7d), a date"),
        (["reset", "billing", "--to", "0", "--topic", "orders:x"], "--topic orders:x: write TOPIC, or TOPIC:0-5,7"),
        (["reset", "billing", "--to", "0", "--topic", "orders:9"], "no such partition; topics of 'billing' are orders"),
        (["reset", "nobody", "--to", "0", "--yes"], "group 'nobody' has committed nothing: name the topics"),
        (["reset", "billing", "--to", "group:nope"], "--to group:nope: group 'nope' has committed nothing"),
        (["reset", "billing", "--to", "group:nope", "--topic", "orders"], "group 'nope' has committed nothing"),
        (["reset", "billing", "--to", "file:/dev/null"], "--to file:/dev/null: /dev/null has no offset; write lines"),
        (["list", "--state", "Foo"], "--state Foo: there is no such state; states are Empty, PreparingRebalance, "),
        (["list", "--state", "stabel"], "--state stabel: there is no such state; did you mean Stable?"),
        (["delete-offsets", "billing", "--topic", "other"], "group 'billing' has committed nothing of other"),
        (["watch"], "say what to watch: a GROUP, or --all"),
    ],
)
def test_a_slip_is_status_2(groups: Command, arguments: list[str], told: str) -> None:
    ended = groups(*arguments)
    assert (ended.status, ended.out) == (2, "")
    assert told in ended.err


@pytest.mark.usefixtures("stopped")
def test_offsets_and_groups_are_deleted(groups: Command, broker: Broker) -> None:
    assert groups("delete-offsets", "billing", "--topic", "orders:1", "--yes").out == "deleted offset of orders-1\n"
    assert committed(broker) == {0: 4}
    ended = groups("delete", "billing", "nobody", "--yes")
    assert (ended.status, ended.out) == (1, "deleted group billing\n")
    assert "nobody: " in ended.err
    assert committed(broker) == {}


def test_members_are_removed_by_either_id(groups: Command, broker: Broker, join: Join) -> None:
    consumer = join("billing", "worker")
    join("reports", "other", group_instance_id="pod-1")
    ended = groups("remove-member", "billing", consumer.member_id, "--reason", "drill")
    assert ended.status == 0
    removed, warned = ended.out.splitlines()
    assert removed.startswith("removed worker-")
    assert warned == "A dynamic member joins again with its next heartbeat, unless it is stopped."
    assert groups("remove-member", "reports", "pod-1").out.count("\n") == 1
    assert broker.groups["reports"].members == []
    assert "'nobody' is no member of 'reports'; members are none" in groups("remove-member", "reports", "nobody").err
