"""What `--json` prints keeps to docs/schemas, which are made from the dataclasses of the views."""

from __future__ import annotations

import json

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, TopicPartition
from proving.tree import ROOT
from tests.commands import Command
from tests.console.schemas import all_schemas, check
from tests.watching.conftest import Join, Produce
from tests.watching.conftest import join as join
from tests.watching.conftest import produce as produce
from tests.watching.conftest import topic as topic

DIRECTORY = ROOT / "docs" / "schemas"


@pytest.mark.parametrize("name", sorted(all_schemas()))
def test_the_schema_is_that_of_the_code(name: str, pytestconfig: pytest.Config) -> None:
    text = json.dumps(all_schemas()[name], indent=1) + "\n"
    file = DIRECTORY / f"{name}-1.json"
    if pytestconfig.getoption("--rewrite-transcripts"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_is_printed_keeps_to_the_schema(
    command: Command, broker: Broker, join: Join, produce: Produce, protocol: str
) -> None:
    produce(10)
    consumer = join("billing", "worker", group_protocol=protocol)
    consumer.commit({TopicPartition("orders", 0): 4})
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {TopicPartition("orders", 0): 3})
    assert broker.groups["billing"].rebalances
    for arguments, name in (
        (["groups", "list"], "groups"),
        (["groups", "describe", "billing", "reports"], "groups"),
        (["groups", "members", "billing"], "groups"),
        (["groups", "lag", "reports"], "groups"),
        (["groups", "offsets", "billing"], "groups"),
        (["groups", "history", "billing"], "rebalances"),
        (["groups", "explain", "billing"], "rebalances"),
        (["cluster"], "cluster"),
    ):
        ended = command(*arguments, "--json", "-b", broker.bootstrap_servers)
        assert ended.status == 0, ended.err
        check(json.loads(ended.out), all_schemas()[name])
