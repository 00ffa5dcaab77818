"""Advice is given where the figures speak for it, and nowhere else; pages hold whatever names clients choose."""

from __future__ import annotations

import io
import re
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from equipoise.console.commands.history import parse_settings, parse_since
from equipoise.spark.history.report import file_name, write_report
from equipoise.spark.history.schemas import schemas
from equipoise.views.advice import advise
from equipoise.views.summary import Summary
from equipoise.wire.errors import UsageError
from tests.commands import Command
from tests.console.conftest import command  # noqa: F401  the fixture

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def rebalance(ended: float, reason: str, members: int = 2, **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(schemas()["rebalances"].names)
    known = {"began": at(ended - 1), "ended": at(ended), "duration_ms": 1000, "reason": reason, "members": members}
    figures = {"moved": 0, "kept": 0, "revoked": 0, "overtaken": False, "source": "journal", "group": "g"}
    return row | known | figures | more


def member(client: str, began: float, ended: float | None, why: str | None = None, **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(schemas()["memberships"].names)
    times = {"began": at(began), "ended": None if ended is None else at(ended), "why_left": why}
    who = {"client_id": client, "client_host": "/10.0.0.1", "member_id": f"{client}-{began}", "group": "g"}
    return row | times | who | {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000} | more


def settings(
    rebalances: list[dict[str, Any]] | None = None, memberships: list[dict[str, Any]] | None = None
) -> set[str]:
    group = Summary("g", rebalances or [], memberships or [], [], [], [], [])
    return {found.setting for found in advise(group)}


def test_a_calm_group_gets_no_advice() -> None:
    calm = [rebalance(1, "member_joined"), rebalance(2, "member_joined", protocol="cooperative-sticky", kept=5)]
    assert settings(calm, [member("a", 0, None), member("b", 1, None)]) == set()


@pytest.mark.parametrize("why", ["poll_overrun", "join_expired"])
def test_applications_that_poll_too_late(why: str) -> None:
    late = [member("a", turn * 100, turn * 100 + 50, why) for turn in range(2)]
    assert settings([], late) == {"max.poll.interval.ms, max.poll.records"}
    assert settings([], late[:1]) == set(), "once may be chance"


def test_advice_counts_what_the_table_of_reasons_counts() -> None:
    """Who is out while a rebalance is under way begins none; the advice says how many did."""
    late = [
        member("a", turn * 100, turn * 100 + 50, "poll_overrun" if turn < 5 else "join_expired") for turn in range(7)
    ]
    began = [rebalance(turn * 100 + 50, "poll_overrun", cause_member=late[turn]["member_id"]) for turn in range(5)]
    began.append(rebalance(600, "member_joined", cause_member=late[6]["member_id"]))
    group = Summary("g", began, late, [], [], [], [])
    (advice,) = advise(group)
    assert group.reasons["poll_overrun"] == 5
    assert "7 times a member was out" in advice.text
    assert "(a; 5 began a rebalance, 2 went while one was under way; max.poll" in advice.text
    (advice,) = advise(Summary("g", began[:2], late[:2], [], [], [], []))
    assert (
        "2 times a member was out because its application did not poll in time (a; each began a rebalance; "
        in advice.text
    )


def test_a_rate_is_given_of_an_hour_and_more(tmp_path: Path) -> None:
    joins = [rebalance(turn * 3, "member_joined", cause_client="a") for turn in range(1, 14)]
    page = write_report(tables(rebalances=joins), tmp_path, "here").read_text(encoding="utf-8")
    assert "had the most, 13 (in 37.0 s), 13 of them" in page
    joins.append(rebalance(7_202, "member_joined"))
    page = write_report(tables(rebalances=joins), tmp_path, "here").read_text(encoding="utf-8")
    assert "had the most, 14 (7.0 an hour), 14 of them" in page


def test_a_group_that_has_members_has_been_calm_until_now() -> None:
    joins = [rebalance(turn, "member_joined") for turn in (1, 2)]
    lag = [{"at": at(3_600 * hour), "lag": 0, "is_estimate": False} for hour in (1, 2)]
    assert Summary("g", joins, [member("a", 0, 2, "left")], [], [], [], lag).per_hour is None
    assert Summary("g", joins, [member("a", 0, None)], [], [], [], lag).per_hour == 1


def test_sessions_that_are_short() -> None:
    silent = [member(name, 0, 50, "session_expired", session_timeout_ms=6_000) for name in "ab"]
    assert settings([], silent) == {"session.timeout.ms"}
    assert settings([], [row | {"session_timeout_ms": 45_000} for row in silent]) == set()


def test_clients_that_come_back() -> None:
    restarts = [member("a", turn * 100, turn * 100 + 98, "left") for turn in range(3)]
    assert settings([], restarts) == {"group.instance.id"}
    static = [row | {"group_instance_id": "a"} for row in restarts]
    assert settings([], static) == set(), "it has one already"
    many = [*restarts, member("a", 50, None)]
    assert settings([], many) == set(), "several members go by that name: nobody can tell which came back"
    late = [member("a", turn * 100_000, turn * 100_000 + 50, "left") for turn in range(3)]
    assert settings([], late) == set(), "that is no restart"
    overruns = [member("a", turn * 100, turn * 100 + 98, "poll_overrun") for turn in range(3)]
    assert "group.instance.id" not in settings([], overruns)


def test_eager_groups_that_stop_all_for_few() -> None:
    rounds = [rebalance(turn * 100, "member_left", protocol="range", kept=10, moved=2) for turn in range(3)]
    assert settings(rounds) == {"partition.assignment.strategy"}
    assert settings([row | {"protocol": "cooperative-sticky"} for row in rounds]) == set()
    assert settings([row | {"kept": 0} for row in rounds]) == set()


def test_members_that_start_together_and_join_one_by_one() -> None:
    joins = [rebalance(turn * 2, "member_joined", members=turn + 1) for turn in range(4)]
    assert settings(joins) == {"group.initial.rebalance.delay.ms"}
    slow = [rebalance(turn * 200, "member_joined", members=turn + 1) for turn in range(4)]
    assert settings(slow) == set(), "they did not start together"
    again = [rebalance(turn * 2, "member_joined", members=2) for turn in range(4)]
    assert settings(again) == set(), "the group did not grow"


def test_members_for_whom_all_wait() -> None:
    slow = [rebalance(turn * 100, "member_left", waited_for="a", waited_ms=9_000) for turn in range(2)]
    assert settings(slow) == {"max.poll.interval.ms, max.poll.records"}


def tables(**rows: list[dict[str, Any]]) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows.get(name, []), schema=schema) for name, schema in schemas().items()}


def test_a_page_without_any_group(tmp_path: Path) -> None:
    page = write_report(tables(), tmp_path, "nowhere").read_text()
    assert "No group has rebalanced." in page


def test_names_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>/../x"
    owned = {"topic": evil, "partition": 0, "member_id": "m", "client_id": evil, "client_host": "/h", "generation": 1}
    span = {"began": at(0), "ended": at(9), "is_empty": False}
    found = tables(
        rebalances=[rebalance(1, "member_joined", cause_client=evil, group=evil)],
        memberships=[member(evil, 0, None, group=evil)],
        ownership=[{"group": evil, **owned, **span}],
    )
    page = write_report(found, tmp_path, evil).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert all(file.parent == tmp_path for file in tmp_path.rglob("*.png"))
    assert len(list(tmp_path.glob("ownership-*.png"))) == 1


IMPOLITE = [
    r"a$\frac{$b",
    "$x$",
    "a b",
    "a/b",
    "A/B",
    "a_b",
    "x" * 32_767,
    "x" * 32_766 + "y",
    "\x1b[2J\x07\n\u202e",
    "[red]x[/red]",
    "_hidden",
    "__system",
    "注文 🛒",
    "'\"><img src=x onerror=alert(1)>",
    "..",
    "",
]


@pytest.mark.parametrize("names", [IMPOLITE, *(IMPOLITE[place : place + 3] for place in range(0, len(IMPOLITE), 3))])
@pytest.mark.filterwarnings("error")
def test_any_name_can_be_reported(names: list[str], tmp_path: Path) -> None:
    """Groups, clients, hosts and topics of these names: a page, its pictures, and not a word on the terminal."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in schemas()}
    for name in names:
        owned = {"group": name, "topic": name, "partition": 0, "began": at(0), "ended": at(9), "is_empty": False}
        who = {"member_id": name or "m", "client_id": name, "client_host": name, "generation": 1}
        cause: dict[str, Any] = {"cause_client": name, "cause_host": name, "waited_for": name, "waited_ms": 9_000}
        place = {"group": name, "topic": name, "partition": 0}
        flaps = {"changes": 1, "returns": 0, "gaps": 1, "dark_ms": 5, "owners_per_hour": 1.0, "score": 1.0}
        rows["rebalances"] += [rebalance(turn, "session_expired", group=name, **cause) for turn in (1, 2)]
        rows["memberships"] += [member(name, turn, turn + 1, "poll_overrun", group=name) for turn in (1, 2)]
        rows["ownership"].append(owned | who)
        rows["flapping"].append(place | flaps)
        rows["causes"].append({"group": name, "reason": name, "cause_client": name, "count": 2, "last": at(2)})
        log = {"at": at(5), "committed": 1, "log_end": 9, "lag": 8, "is_estimate": True}
        rows["lag"].append(place | log)
    page = write_report(tables(**rows), tmp_path, names[0]).read_text(encoding="utf-8")
    assert page.replace("\n", "").isprintable()
    assert "<img src=x" not in page
    assert len(re.sub("base64,[^']*", "", page)) < 200_000
    assert len(list(tmp_path.glob("ownership-*.png"))) == min(len(names), 3)
    assert f"<figure>{page.split('<figure>')[1]}".count("<img") == 1


def test_each_group_has_a_file_of_its_own(tmp_path: Path) -> None:
    files = [file_name(name) for name in IMPOLITE]
    assert len({name.lower() for name in files}) == len(IMPOLITE), "some file systems do not tell A from a"
    assert all(re.fullmatch(r"ownership-[\w.-]{0,80}\.png", name, re.ASCII) for name in files)
    assert file_name("orders-group.1") == "ownership-orders-group.1.png"
    for name in files:
        (tmp_path / name).touch()


def test_what_the_last_run_drew_is_gone(tmp_path: Path) -> None:
    (tmp_path / "ownership-gone.png").touch()
    (tmp_path / "mine.png").touch()
    write_report(tables(), tmp_path, "here")
    assert sorted(one.name for one in tmp_path.glob("*.png")) == ["history.png", "mine.png"]


def test_what_the_journal_has_left_out_is_said(tmp_path: Path) -> None:
    rows = [
        rebalance(1, "member_joined"),
        rebalance(2, "member_joined", cut=0),
        rebalance(3, "member_left", cut=70_000),
    ]
    page = write_report(tables(rebalances=rows), tmp_path, "here").read_text(encoding="utf-8")
    assert "In 1 of the rebalances more partitions moved or stood still than the journal lists" in page
    assert "than the journal lists" not in write_report(tables(rebalances=rows[:2]), tmp_path, "here").read_text()


def test_since() -> None:
    now = time.time()
    assert parse_since(None, now) is None
    assert parse_since("2h", now) == round(now * 1000) - 7_200_000
    assert parse_since("2026-01-01", now) == parse_since("2026-01-01T00:00:00Z", now) == 1_767_225_600_000
    assert parse_since("2026-01-01T01:00:00+01:00", now) == 1_767_225_600_000
    with pytest.raises(UsageError, match="--since yesterday: write a date"):
        parse_since("yesterday", now)


def test_errors_of_the_command_are_one_line(broker: Any, command: Command, tmp_path: Path) -> None:  # noqa: F811
    out = str(tmp_path / "out")
    nobody = command("history", "--bootstrap-servers", "127.0.0.1:1", "--out", out)
    assert (nobody.status, nobody.out) == (3, "")
    assert nobody.err == "equipoise: cannot connect to 127.0.0.1:1: Connection refused; is a broker listening there?\n"
    fresh = command("history", "--bootstrap-servers", broker.bootstrap_servers, "--out", out)
    assert fresh.status == 2
    assert fresh.err.endswith("has no __consumer_offsets: no group has ever been there\n")
    assert not Path(out).exists()


# -- pictures


def test_labels_are_short_and_tell_apart_what_differs() -> None:
    from equipoise.spark.history.plots import labels

    workers = [f"analytics-worker-host-{number}.internal.example-0 · clicks" for number in (1, 17)]
    assert labels(["short", *workers]) == [
        "short",
        "…r-host-1.internal.example-0 · …",
        "…r-host-17.internal.example-0 ·…",
    ]
    assert labels([workers[0], "a" * 40]) == ["analytics-worker-hos…0 · clicks", "a" * 20 + "…" + "a" * 10]
    assert labels([]) == []


@pytest.mark.parametrize("seconds", [1, 20, 250, 3_000, 10_000, 40_000, 200_000, 900_000, 6_000_000, 40_000_000])
def test_any_span_of_time_can_be_drawn(seconds: int) -> None:
    """Without a warning, which would be on the terminal of whoever asked: here it is an error."""
    from equipoise.spark.history.plots import picture, rebalances_in_time

    rows = [rebalance(0, "member_joined"), rebalance(seconds, "subscription_changed")]
    group = Summary("g", rows, [], [], [], [], [])
    drawn = io.BytesIO()
    picture([partial(rebalances_in_time, groups=[group])], 4, 2).savefig(drawn, format="png")
    assert drawn.getvalue().startswith(b"\x89PNG")


def test_what_is_to_be_done_comes_before_the_evidence(tmp_path: Path) -> None:
    tables = {name: schema.empty_table() for name, schema in schemas().items()}
    late = [member("a", turn * 100, turn * 100 + 50, "poll_overrun") for turn in range(2)]
    tables["memberships"] = pa.Table.from_pylist(late, schemas()["memberships"])
    tables["rebalances"] = pa.Table.from_pylist([rebalance(9, "subscription_changed")], schemas()["rebalances"])
    page = write_report(tables, tmp_path, "here").read_text(encoding="utf-8")
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings[:2] == ["Which setting would help", "In pictures"]
    assert page.index("raise max.poll.interval.ms above") < page.index("<img")
    assert "1 of them for the reason “rejoined with changed metadata”" in page


def test_settings_of_spark() -> None:
    assert parse_settings(("spark.archives=environment.tar.gz#environment", "spark.executor.memory=2g")) == {
        "spark.archives": "environment.tar.gz#environment",
        "spark.executor.memory": "2g",
    }
    with pytest.raises(UsageError, match=r"--set archives: a setting of Spark begins with spark\., for instance"):
        parse_settings(("archives=x",))
