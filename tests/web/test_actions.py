"""Actions from pages: off by default, confirmed by name, done once, and never at the wish of a foreign page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

import pytest

from equipoise.client import Admin, OffsetAndMetadata, TopicPartition
from equipoise.client.admin_groups import GroupDescription, MemberDescription
from equipoise.client.net.errors import KafkaConnectionError
from equipoise.console.web.app import make_app, new_live
from equipoise.console.web.forms import LIVES_S, MOST_TICKETS, Tickets
from equipoise.console.web.guard import FORM_COOKIE, App
from equipoise.console.web.plans import Plan, plan_of
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from tests.web.asgi import Answer, ask
from tests.web.asgi import post as sent_to
from tests.web.views import WINDOW, cluster, group, member, partition

FORM = "application/x-www-form-urlencoded"
SAME = {"host": "localhost:9080", "origin": "http://localhost:9080", "sec_fetch_site": "same-origin"}
EVIL = "<script>alert(1)</script>\"'&"
EMPTY = ""


class Cluster:
    """Answers what plans ask, and notes what was changed."""

    def __init__(self, *members: str) -> None:
        self.members = [MemberDescription(one, None, one, "/10.0.0.1", frozenset(), ("orders",)) for one in members]
        self.changes: list[object] = []
        self.questions = 0
        self.error: Exception | None = None

    async def ask(self, question: Callable[[Admin], Any]) -> Any:
        self.questions += 1
        if self.error is not None:
            raise self.error
        await asyncio.sleep(0)
        return question(cast(Admin, self))

    def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription]:
        return {
            one: GroupDescription(one, "classic", "Stable" if self.members else "Empty", "consumer", None, None, 1,
                                  self.members)
            for one in names
        }  # fmt: skip

    def describe_group(self, name: str) -> GroupDescription:
        return self.describe_groups([name])[name]

    def committed(self, _name: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return {TopicPartition("orders", 0): OffsetAndMetadata(5)}

    def list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {one: 0 if at == -2 else 7 for one, at in wanted.items()}

    def commit_offsets(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        self.changes.append((name, offsets))

    def delete_groups(self, names: list[str]) -> dict[str, KafkaError | None]:
        self.changes += names
        return dict.fromkeys(names)

    def remove_members(self, name: str, members: list[object], reason: str) -> list[KafkaError | None]:
        self.changes.append((name, members, reason))
        return [None]

    def delete_offsets(self, name: str, places: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
        self.changes.append((name, places))
        refusal = KafkaError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "the offset of orders-0 was not deleted")
        return dict.fromkeys(places, refusal)


def app(of: Cluster | None, group_id: str = "etl") -> App:
    live = new_live(WINDOW)
    live.update(cluster(group(group_id=group_id, members=(member("a", [0]),), partitions=(partition(0),))))
    return make_app(live, "localhost:9092", ask=None if of is None else of.ask)


def get(of: App, address: str, **headers: str) -> Answer:
    return asyncio.run(ask(of, address, **headers))


class Shown(NamedTuple):
    """A confirmation as a browser has it."""

    ticket: str
    token: str
    cookie: str

    @property
    def fields(self) -> dict[str, str]:
        return {"ticket": self.ticket, "token": self.token, "name": "etl"}


def shown(of: App, address: str = "/groups/etl/delete", **headers: str) -> Shown:
    page = get(of, address, sec_fetch_site="same-origin", **headers)
    assert page.status == 200, page.text
    ticket, token = (re.search(f'name="{one}" value="([^"]+)"', page.text) for one in ("ticket", "token"))
    assert ticket is not None
    assert token is not None
    crumb = (page.header("set-cookie") or headers.get("cookie", "")).partition(";")[0]
    return Shown(ticket[1], token[1], crumb)


def post(of: App, fields: dict[str, str], address: str = "/groups/etl/delete", **headers: str) -> Answer:
    given = {"content_type": FORM, **SAME, **headers}
    return asyncio.run(sent_to(of, address, urlencode(fields).encode(), **given))


# -- what is there


def test_without_the_option_there_is_no_action() -> None:
    read_only = app(None)
    assert get(read_only, "/groups/etl/delete").status == 404
    assert post(read_only, {}).status == 404
    assert "Delete the group" not in get(read_only, "/groups/etl").text


def test_with_it_the_page_of_a_group_leads_to_each() -> None:
    page = get(app(Cluster()), "/groups/etl").text
    for action in ("reset", "delete", "delete-offsets", "remove-member"):
        assert f'href="/groups/etl/{action}"' in page


def test_a_question_comes_before_the_dry_run() -> None:
    of = Cluster()
    for action, field in (("reset", "to"), ("delete-offsets", "topic"), ("remove-member", "member")):
        page = get(app(of), f"/groups/etl/{action}")
        assert (page.status, f'name="{field}"' in page.text) == (200, True)
    assert of.questions == 0
    assert get(app(of), "/groups/none/reset").status == 404


def test_get_changes_nothing_and_shows_what_would_change() -> None:
    of = Cluster()
    page = get(app(of), "/groups/etl/reset?topic=&to=earliest", sec_fetch_site="same-origin")
    assert "Commit 1 offset for etl?" in page.text
    assert "5 records read again, 0 skipped." in page.text
    assert of.changes == []


def test_a_form_does_what_was_shown_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one, "/groups/etl/reset?to=earliest")
    done = post(one, agreed.fields, "/groups/etl/reset", cookie=agreed.cookie)
    assert (done.status, of.changes) == (200, [("etl", {TopicPartition("orders", 0): 0})])
    assert "1 offset of etl changed" in done.text
    assert caplog.messages == ["127.0.0.1 asked the console: Commit 1 offset for etl. Done: 1 offset of etl changed"]


def test_each_action_reaches_the_cluster() -> None:
    of = Cluster("a")
    one = app(of)
    removed = shown(one, "/groups/etl/remove-member?member=a&reason=too+slow")
    assert post(one, removed.fields, "/groups/etl/remove-member", cookie=removed.cookie).status == 200
    assert of.changes == [("etl", [("a", None)], "too slow")]
    of.members, of.changes = [], []
    deleted = shown(one, cookie=removed.cookie)
    assert post(one, deleted.fields, cookie=removed.cookie).status == 200
    assert of.changes == ["etl"]


def test_what_the_cluster_refuses_is_told() -> None:
    of = Cluster()
    one = app(of)
    offsets = shown(one, "/groups/etl/delete-offsets?topic=orders")
    refused = post(one, offsets.fields, "/groups/etl/delete-offsets", cookie=offsets.cookie)
    assert refused.status == 409
    assert "the offset of orders-0 was not deleted" in refused.text
    deleted = shown(one, cookie=offsets.cookie)
    of.error = KafkaError(ErrorCode.NON_EMPTY_GROUP, "a member has joined")
    assert post(one, deleted.fields, cookie=offsets.cookie).status == 409
    of.error = KafkaConnectionError("nobody answers")
    assert get(one, "/groups/etl/delete").status == 502


def test_an_active_group_is_shown_without_a_form() -> None:
    page = get(app(Cluster("etl-0", "etl-1", "etl-2")), "/groups/etl/reset?to=latest")
    assert "it has 3 members (etl-0 on /10.0.0.1, etl-1 on /10.0.0.1 and 1 more)" in page.text
    assert "ticket" not in page.text


def test_names_stay_text() -> None:
    of = Cluster(EVIL)
    page = get(app(of, EVIL), "/groups/%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%26/delete")
    assert page.status == 200
    assert "<script>alert" not in page.text


@pytest.mark.parametrize("target", ["file:/etc/passwd", " file:/etc/passwd", EMPTY])
def test_no_page_reads_a_file_of_the_console(target: str) -> None:
    with pytest.raises(UsageError, match="write earliest"):
        plan_of("reset", cast(Admin, Cluster()), "etl", {"to": target})
    assert get(app(Cluster()), f"/groups/etl/reset?to={target}").status == 400


# -- attacks


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": EMPTY},
        {"origin": "http://localhost:9081"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"host": "evil.example", "origin": "http://evil.example"},
    ],
)
def test_a_foreign_page_changes_nothing_even_with_a_right_form(changed: dict[str, str]) -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one)
    refused = post(one, agreed.fields, cookie=agreed.cookie, **changed)
    assert (refused.status in (400, 403), of.changes) == (True, [])


@pytest.mark.parametrize("left_out", ["ticket", "token"])
def test_a_form_needs_its_ticket_and_its_token(left_out: str) -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one)
    fields = {name: value for name, value in agreed.fields.items() if name != left_out}
    for wrong in (fields, fields | {left_out: "x"}):
        assert post(one, wrong, cookie=agreed.cookie).status == 403
    assert of.changes == []


def test_a_form_of_another_browser_is_refused() -> None:
    of = Cluster()
    one = app(of)
    mine, other = shown(one), shown(one)
    assert mine.cookie != other.cookie
    for crumb in (EMPTY, other.cookie, f"{FORM_COOKIE}=chosen-by-an-attacker"):
        assert post(one, mine.fields, cookie=crumb).status == 403
    mixed = mine.fields | {"token": other.token}
    assert post(one, mixed, cookie=mine.cookie).status == 403
    assert of.changes == []


def test_a_form_of_another_action_or_group_is_refused() -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one)
    for address in ("/groups/etl/reset", "/groups/billing/delete"):
        assert post(one, agreed.fields, address, cookie=agreed.cookie).status == 403
    assert of.changes == []


def test_another_console_does_not_take_it() -> None:
    of = Cluster()
    agreed = shown(app(of))
    assert post(app(of), agreed.fields, cookie=agreed.cookie).status == 403
    assert of.changes == []


def test_a_form_that_is_sent_twice_acts_once() -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one)

    async def both() -> list[int]:
        body = urlencode(agreed.fields).encode()
        given = {"content_type": FORM, "cookie": agreed.cookie, **SAME}
        sent = [sent_to(one, "/groups/etl/delete", body, **given) for _ in range(2)]
        return sorted(answer.status for answer in await asyncio.gather(*sent))

    assert asyncio.run(both()) == [200, 403]
    assert of.changes == ["etl"]
    assert post(one, agreed.fields, cookie=agreed.cookie).status == 403


@pytest.mark.parametrize("typed", [EMPTY, "ETL", "billing"])
def test_the_name_must_be_typed(typed: str) -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one)
    again = post(one, agreed.fields | {"name": typed}, cookie=agreed.cookie)
    assert (again.status, of.changes) == (400, [])
    assert "is not the name of the group" in again.text
    assert 'name="ticket"' in again.text


@pytest.mark.parametrize(
    "changed", [{"content_type": "text/plain"}, {"content_type": "multipart/form-data; boundary=x"}]
)
def test_a_body_that_is_no_form_is_refused(changed: dict[str, str]) -> None:
    of = Cluster()
    one = app(of)
    agreed = shown(one)
    assert post(one, agreed.fields, cookie=agreed.cookie, **changed).status == 400
    assert post(one, agreed.fields | {"more": "x" * 10_000}, cookie=agreed.cookie).status == 400
    assert post(one, {str(number): "x" for number in range(50)}, cookie=agreed.cookie).status == 400
    assert of.changes == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_foreign_page_asks_nothing_of_the_cluster(site: str) -> None:
    of = Cluster()
    assert get(app(of), "/groups/etl/delete", sec_fetch_site=site).status == 403
    assert of.questions == 0


def test_a_confirmation_lets_the_browser_name_its_origin() -> None:
    page = get(app(Cluster()), "/groups/etl/delete")
    assert page.header("referrer-policy") == "same-origin"
    crumb = page.header("set-cookie") or ""
    assert "HttpOnly" in crumb
    assert "SameSite=Strict" in crumb


def _plan(group_id: str = "etl") -> Plan:
    return Plan(group_id, "Delete", (), (), (), None, lambda _admin: [])


def test_tickets_end() -> None:
    clock = [0.0]
    tickets = Tickets(lambda: clock[0])
    number = tickets.issue("delete", _plan(), "browser")
    token = tickets.token("browser", number)
    assert tickets.find(number, "browser", token) is not None
    clock[0] = LIVES_S
    assert tickets.find(number, "browser", token) is None


def test_tickets_are_bounded_and_the_oldest_goes() -> None:
    tickets = Tickets(lambda: 0.0)
    numbers = [tickets.issue("delete", _plan(), "browser") for _ in range(MOST_TICKETS + 1)]
    found = [tickets.find(one, "browser", tickets.token("browser", one)) is not None for one in numbers]
    assert found == [False] + [True] * MOST_TICKETS
