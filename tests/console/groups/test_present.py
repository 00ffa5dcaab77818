"""Groups as they are now: list, describe, members, lag, offsets, check."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, OffsetAndMetadata, TopicPartition
from equipoise.server_process import free_port
from tests.commands import Command, Ended
from tests.watching.conftest import Join, Produce

PARTITION = TopicPartition("orders", 0)


def rows(ended: Ended) -> list[list[str]]:
    """The cells of a plain table: columns are two spaces apart."""
    return [[cell for cell in line.split("  ") if cell] for line in ended.out.splitlines()]


def of_json(ended: Ended) -> Any:
    assert ended.err == ""
    return json.loads(ended.out)


def test_no_groups_and_how_to_make_one(groups: Command) -> None:
    ended = groups("list")
    assert ended.status == 0
    assert ended.out.startswith("no groups on 127.0.0.1:")
    assert "equipoise consume TOPIC --group NAME" in ended.out


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_list_shows_state_lag_and_health(
    groups: Command, broker: Broker, join: Join, produce: Produce, protocol: str
) -> None:
    produce(10)
    join("billing", "worker", group_protocol=protocol).commit({PARTITION: 4})
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("reports", {PARTITION: 3})
    assert broker.groups["billing"].rebalances
    head, billing, reports, *foot = groups("list").out.splitlines()
    assert head.split()[:4] == ["group", "state", "protocol", "members"]
    cells = [cell.strip() for cell in billing.split("  ") if cell]
    assert (cells[0], cells[1], cells[3], cells[4], cells[5]) == ("billing", "Stable", "1", "4", "6")
    assert cells[-1] == "fine"
    assert reports.endswith("nobody reads, 7 records wait")
    assert foot == ["2 groups, 1 needs attention. Source: the journal of this broker."]
    assert [row[0].strip() for row in rows(groups("list", "bill*"))] == [
        "group",
        "billing",
        "1 group, 0 need attention. Source: the journal of this broker.",
    ]
    assert rows(groups("list", "--unhealthy"))[1][0].strip() == "reports"
    assert rows(groups("list", "--state", "empty"))[1][0].strip() == "reports"
    assert rows(groups("list", "--sort", "lag", "--limit", "1"))[1][0].strip() == "reports"


def test_list_as_json_has_unknown_as_null(groups: Command, broker: Broker, join: Join) -> None:
    join("billing", "worker")
    assert broker.groups["billing"].rebalances
    found = of_json(groups("list", "--json"))
    assert (found["schema"], found["source"]) == ("equipoise.groups/1", "journal")
    (group,) = found["groups"]
    assert (group["group_id"], group["type"], group["state"]) == ("billing", "classic", "Stable")
    assert group["lag"]["lag"] is None  # nothing was committed
    assert group["rebalances"][-1]["cause"]["trigger"] == "member_joined"
    assert group["rebalances"][-1]["guess"] is None
    assert group["members"][0]["partitions"] == [["orders", number] for number in range(4)]


def test_describe_members_and_lag(groups: Command, broker: Broker, join: Join, produce: Produce) -> None:
    produce(10)
    join("billing", "worker").commit({PARTITION: 4})
    assert broker.groups["billing"].rebalances
    lines = groups("describe", "billing").out.splitlines()
    assert lines[0] == "group      billing"
    assert lines[1].startswith("state      Stable, generation 1, coordinator 1")
    assert lines[3] == "health     fine"
    assert lines[5].startswith("lag        6 records on 4 partitions, ")
    assert lines[6] == "rebalances 1 in the last hour"
    assert "(client worker, 127.0.0.1) joined" in lines[8]
    assert lines[-1].split()[:3] == ["orders", "4", "6"]
    shown = groups("members", "billing", "--verbose").out
    assert "worker-" in shown
    assert "orders:0,1,2,3" in shown
    lag = rows(groups("lag", "billing", "--only-lagging"))
    assert [cell.strip() for cell in lag[1]][:5] == ["orders", "0", "4", "10", "6"]
    assert lag[-1] == ["lag 6, unknown for 3 partitions"]
    assert [cell.strip() for cell in rows(groups("lag", "billing", "--by", "topic"))[1]][:3] == ["orders", "4", "6"]
    assert rows(groups("lag", "billing", "--by", "member"))[1][1].strip() == "worker"


def test_offsets_are_shown_and_exported(groups: Command, broker: Broker, topic: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        places = {
            TopicPartition(topic, 1): OffsetAndMetadata(0, "by hand"),
            TopicPartition(topic, 0): OffsetAndMetadata(0),
        }
        admin.commit_offsets("billing", places)
    assert groups("offsets", "billing").out.splitlines()[1:] == [
        "orders  0          0",
        "orders  1          0          by hand",
    ]
    assert groups("offsets", "billing", "--export").out == "orders,0,0\norders,1,0\n"


def test_a_group_that_is_none_is_an_answer_of_no(groups: Command, join: Join) -> None:
    join("billing", "worker")
    ended = groups("members", "nothing")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == ("equipoise: there is no group 'nothing'; check its name: `equipoise groups list` shows all\n")
    both = groups("describe", "nothing", "billing")
    assert both.status == 1
    assert "there is no group 'nothing'" in both.err
    assert "group      billing" in both.out
    told = groups("members", "nothing", "--json")
    assert json.loads(told.out) == {
        "error": {
            "code": "GROUP_ID_NOT_FOUND",
            "message": "there is no group 'nothing'",
            "advice": "check its name: `equipoise groups list` shows all",
        }
    }


def test_a_cluster_that_is_away_is_status_3(command: Command) -> None:
    away = f"127.0.0.1:{free_port()}"
    ended = command("groups", "list", "-b", away, "--timeout", "2s")
    assert (ended.status, ended.out) == (3, "")
    assert ended.err.startswith(f"equipoise: cannot connect to {away}")
    told = command("groups", "list", "-b", away, "--json")
    assert json.loads(told.out)["error"]["code"] == "UNREACHABLE"


def test_brokers_come_from_the_environment(command: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQUIPOISE_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    assert command("groups", "list").out.startswith(f"no groups on {broker.bootstrap_servers}")


def test_names_cannot_harm_a_terminal(groups: Command, broker: Broker, topic: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.commit_offsets("evil\x1b[2J\n", {TopicPartition(topic, 0): 0})
    for arguments in (["list"], ["describe", "evil\x1b[2J\n"], ["offsets", "evil\x1b[2J\n"]):
        ended = groups(*arguments)
        assert ended.status == 0
        assert "\x1b" not in ended.out
    assert r"evil\x1b[2J\n" in groups("list").out


# -- check


def test_check_is_silent_when_all_is_well(groups: Command, broker: Broker, join: Join, produce: Produce) -> None:
    produce(10)
    join("billing", "worker").commit({TopicPartition("orders", number): 10 if not number else 0 for number in range(4)})
    assert broker.groups["billing"].rebalances
    assert groups("check", "billing") == Ended(0, "", "")
    limits = ["--max-lag", "0", "--max-behind", "1s", "--max-rebalances", "6/h", "--stable-for", "0s"]
    assert groups("check", "billing", *limits) == Ended(0, "", "")


def test_check_says_what_is_wrong(groups: Command, broker: Broker, join: Join, produce: Produce) -> None:
    produce(10)
    join("billing", "worker").commit({PARTITION: 4})
    assert broker.groups["billing"].rebalances
    ended = groups("check", "billing", "--max-lag", "5", "--max-rebalances", "0/10m", "--stable-for", "1h")
    assert ended.status == 1
    lag, rebalances, stable = ended.out.splitlines()
    assert lag == "billing: lag 6, 5 is the most"
    assert rebalances == "billing: 1 rebalances in 10 min 0 s, 0 is the most"
    assert stable.startswith("billing: the last rebalance ended ")
    assert groups("check", "nothing").out.startswith("nothing: there is no group 'nothing'")
    assert groups("check", "billing", "--max-rebalances", "often").status == 2
    found = json.loads(groups("check", "billing", "--max-lag", "5", "--json").out)
    assert found["groups"] == [{"group_id": "billing", "is_well": False, "wrong": ["lag 6, 5 is the most"]}]
