"""Who may ask: hosts, tokens, origins, and the headers of every answer."""

from __future__ import annotations

import asyncio

import pytest

from equipoise.console.web.app import make_app, new_live
from equipoise.console.web.guard import COOKIE, POLICY, App, Guard, Message, Receive, Scope, Send
from equipoise.console.web.serving import Listen, read_token
from equipoise.wire.errors import UsageError
from tests.web.asgi import Answer, ask
from tests.web.views import WINDOW, cluster, group

TOKEN = "a-token-that-nobody-guesses"


def app(*, token: str | None = None, hosts: tuple[str, ...] = ()) -> App:
    live = new_live(WINDOW)
    live.update(cluster(group()))
    return make_app(live, "localhost:9092", token=token, hosts=hosts)


def answer(address: str = "/groups", *, of: App | None = None, method: str = "GET", **headers: str) -> Answer:
    return asyncio.run(ask(of or app(), address, method=method, **headers))


# -- hosts


@pytest.mark.parametrize("host", ["localhost", "localhost:9080", "127.0.0.1:9080", "[::1]:9080", "LOCALHOST"])
def test_loopback_names_are_answered(host: str) -> None:
    assert answer(host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9080", "127.0.0.1.evil.example", "localhost:x", "localhost@evil", "", "[::2]"],
)
def test_other_names_are_refused_against_rebinding(host: str) -> None:
    refused = answer(host=host)
    assert refused.status == 400
    assert "--host" in refused.text


def test_a_name_can_be_allowed() -> None:
    assert answer(of=app(hosts=("console.example",)), host="console.example:443").status == 200


# -- headers


@pytest.mark.parametrize(
    "address", ["/groups", "/groups/none", "/static/x/none.js", "/healthz", "/api/groups/none/stream"]
)
def test_every_answer_has_the_policy(address: str) -> None:
    found = answer(address)
    assert found.header("content-security-policy") == POLICY
    assert found.header("x-content-type-options") == "nosniff"
    assert found.header("referrer-policy") == "no-referrer"
    assert found.header("cross-origin-opener-policy") == "same-origin"


def test_refusals_have_the_policy_too() -> None:
    assert answer(host="evil.example").header("content-security-policy") == POLICY


def test_the_policy_allows_no_inline_code() -> None:
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY


# -- tokens


def test_without_its_token_nothing_is_shown() -> None:
    for address in ("/groups", "/api/groups/etl/timeline", "/groups/etl/table"):
        assert answer(address, of=app(token=TOKEN)).status == 401


def test_a_token_in_the_address_becomes_a_cookie_and_leaves_the_address() -> None:
    secured = app(token=TOKEN)
    let_in = answer(f"/groups?state=Stable&token={TOKEN}", of=secured)
    assert (let_in.status, let_in.header("location")) == (303, "/groups?state=Stable")
    crumb = let_in.header("set-cookie") or ""
    assert crumb.startswith(f"{COOKIE}={TOKEN}; ")
    assert "HttpOnly" in crumb
    assert "SameSite=Strict" in crumb
    assert answer("/groups", of=secured, cookie=f"{COOKIE}={TOKEN}").status == 200


@pytest.mark.parametrize("path", ["/groups/a%2Fb", "/groups/a%3Fb%23c", "/groups/100%25", "/groups/%C3%A9%0A"])
def test_a_token_leads_to_the_group_of_the_address(path: str) -> None:
    let_in = answer(f"{path}?token={TOKEN}&from=1", of=app(token=TOKEN))
    assert (let_in.status, let_in.header("location")) == (303, f"{path}?from=1")


@pytest.mark.parametrize("other", ['prefs={"a": [1, 2]}', "a@b=1", "user=a b,c", "é=ü", "x" * 5_000, "", "="])
def test_cookies_of_other_programs_do_no_harm(other: str) -> None:
    """All programs on a host share them, whatever their ports."""
    for cookies in (f"{other}; equipoise_session={TOKEN}", f"equipoise_session={TOKEN};{other}"):
        assert answer("/groups", of=app(token=TOKEN), cookie=cookies).status == 200


def test_a_wrong_token_is_refused_everywhere() -> None:
    secured = app(token=TOKEN)
    assert answer("/groups?token=wrong", of=secured).status == 401
    assert answer("/groups", of=secured, cookie=f"{COOKIE}=wrong").status == 401
    assert answer("/api/groups/etl/timeline", of=secured, authorization="Bearer wrong").status == 401
    assert answer("/groups", of=secured, cookie="=;=;").status == 401


def test_programs_send_the_token_as_bearer_and_pages_do_not() -> None:
    secured = app(token=TOKEN)
    assert answer("/api/groups/etl/timeline", of=secured, authorization=f"Bearer {TOKEN}").status == 200
    assert answer("/groups", of=secured, authorization=f"Bearer {TOKEN}").status == 401


def test_a_token_does_not_lead_elsewhere() -> None:
    let_in = answer(f"//evil.example/groups?token={TOKEN}", of=app(token=TOKEN))
    assert let_in.header("location") == "/evil.example/groups"


def test_beyond_loopback_there_is_always_a_token() -> None:
    assert Listen.parse("127.0.0.1:9080").token is None
    assert Listen.parse("[::1]:9080").token is None
    made = Listen.parse("0.0.0.0:9080")
    assert made.token is not None
    assert len(made.token) >= 32
    assert made.token not in repr(made)
    assert Listen.parse("0.0.0.0:9080", token=TOKEN).address(1) == f"http://0.0.0.0:1/?token={TOKEN}"


@pytest.mark.parametrize("text", ["9080", "host:", ":9080", "host:99999", "host:x"])
def test_a_wrong_address_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        Listen.parse(text)


@pytest.mark.parametrize("text", ["short", "with a space in the middle", "ünguessable-but-not-ascii"])
def test_a_weak_token_is_refused(text: str, tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path), "token")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="--token-file"):
        read_token(file)


# -- actions


async def _accepts(scope: Scope, receive: Receive, send: Send) -> None:
    message: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await send(message)
    await send({"type": "http.response.body", "body": b"done"})


SAME = {"host": "localhost:9080", "origin": "http://localhost:9080", "sec_fetch_site": "same-origin"}


def posted(**headers: str) -> int:
    return answer("/act", of=Guard(_accepts, hosts=()), method="POST", **headers).status


def test_an_action_from_a_page_of_this_console_passes() -> None:
    assert posted(**SAME) == 200
    assert posted(**{name: value for name, value in SAME.items() if name != "sec_fetch_site"}) == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://localhost:9081"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
    ],
)
def test_an_action_from_elsewhere_is_refused(changed: dict[str, str]) -> None:
    assert posted(**SAME | changed) == 403


def test_an_action_without_origin_is_refused() -> None:
    assert posted(host="localhost:9080") == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    assert answer(method=method).status == 405


def test_read_only_pages_take_no_post() -> None:
    assert asyncio.run(ask(app(), "/groups", method="POST", **SAME)).status == 405
