"""Owners across restarts, and their colours."""

from __future__ import annotations

import re
from importlib.resources import files

from equipoise.console.web.owners import SLOTS, Owners
from tests.web.views import group, member, rebalance

UUID = "-0f8b3c1e-1111-4222-8333-123456789abc"
OTHER = "-1a2b3c4d-1111-4222-8333-123456789abc"


def test_a_restarted_client_keeps_its_name_and_colour() -> None:
    owners = Owners()
    owners.learn(
        group(
            rebalance(1, 1, {0: (None, f"etl-0{UUID}")}),
            rebalance(2, 2, {0: (f"etl-0{UUID}", f"etl-0{OTHER}")}),
            members=(member(f"etl-0{OTHER}", [0], client_id="etl-0"),),
        )
    )
    assert [one.name for one in owners.all] == ["etl-0"]
    assert owners.of(f"etl-0{UUID}") == owners.of(f"etl-0{OTHER}")


def test_a_client_id_that_two_members_share_tells_nobody_apart() -> None:
    owners = Owners()
    both = tuple(member(f"rdkafka{end}", client_id="rdkafka") for end in (UUID, OTHER))
    owners.learn(group(members=both))
    assert [one.name for one in owners.all] == ["rdkafka-0f8b3c1e", "rdkafka-1a2b3c4d"]


def test_static_members_go_by_their_instance_id() -> None:
    owners = Owners()
    both = tuple(member(f"c{n}{UUID}", client_id="c", group_instance_id=f"pod-{n}") for n in (0, 1))
    owners.learn(group(members=both))
    assert [one.name for one in owners.all] == ["pod-0", "pod-1"]


def test_no_two_of_the_first_24_owners_share_a_colour() -> None:
    owners = Owners()
    owners.learn(group(members=tuple(member(f"m{n}") for n in range(30))))
    slots = [one.slot for one in owners.all]
    assert sorted(slots[:SLOTS]) == list(range(SLOTS))
    assert all(0 <= slot < SLOTS for slot in slots[SLOTS:])


def test_new_members_leave_the_numbers_of_the_others_alone() -> None:
    owners = Owners()
    owners.learn(group(members=(member("b"),)))
    owners.learn(group(members=(member("a"), member("b"))))
    assert [one.name for one in owners.all] == ["b", "a"]


def test_names_from_outside_are_cleaned() -> None:
    owners = Owners()
    owners.learn(group(members=(member("evil\x1b[2J\nname", client_host="/host\x07"),)))
    assert owners.all[0].name == r"evil\x1b[2J\nname"
    assert owners.all[0].host == r"host\x07"


def test_script_and_sheet_have_the_same_colours() -> None:
    static = files("equipoise.console.web").joinpath("static")
    script = re.findall(r'"([0-9a-f]{6})"', static.joinpath("palette.js").read_text(encoding="utf-8"))
    sheet = re.findall(
        r"\.s\d+ \{ background: #([0-9a-f]{6}); \}", static.joinpath("style.css").read_text(encoding="utf-8")
    )
    assert script == sheet
    assert len(set(script)) == SLOTS
