"""docs/assignors.md: its table is the registry, its example works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from equipoise.assignors import ASSIGNORS, Assignor, GroupMember, RebalanceProtocol, registered_assignors
from equipoise.wire.consumer_protocol import Subscription
from equipoise.wire.errors import UsageError
from tests.assignors.cases import check_valid, cluster, partitions_of

TEXT = (Path(__file__).parents[2] / "docs" / "assignors.md").read_text(encoding="utf-8")


def test_the_table_lists_the_assignors() -> None:
    listed = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", TEXT, re.MULTILINE))
    protocols = {name: {RebalanceProtocol[one.upper()] for one in words.split(", ")} for name, words in listed.items()}
    assert protocols == {name: set(assignor.protocols) for name, assignor in ASSIGNORS.items()}


def test_the_example() -> None:
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)[0], names)
    assignors: dict[str, Assignor] = {"a": names["WeightedAssignor"](1), "b": names["WeightedAssignor"](2)}
    members = {
        name: GroupMember(Subscription(topics=["t"], user_data=assignor.user_data(["t"])))
        for name, assignor in assignors.items()
    }
    assigned = partitions_of(assignors["a"].assign(cluster(t=6), members))
    check_valid(cluster(t=6), members, assigned)
    assert assigned == {"a": {"t": [0, 3]}, "b": {"t": [1, 2, 4, 5]}}
    assignors["a"].on_assignment(assignors["a"].assign(cluster(other=1), members)["a"], 1)


def test_the_example_on_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.assignors._REGISTERED", {})
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.+?)```", TEXT, re.DOTALL)[2], names)
    assert registered_assignors() == ("uniform", "range", "roundrobin")
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"group.consumer.assignors=roundrobin: must be one or more of uniform, range"):
        names["Broker"](settings={"group.consumer.assignors": "roundrobin"})
