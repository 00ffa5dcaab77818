"""E7: classic groups become `consumer` groups, and back."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import ONE
from proving.conformance.consumer.steps import (
    ack,
    arrive,
    away,
    beat,
    classic,
    depart,
    guest,
    guest_beat,
    guest_sync,
    led,
    look,
    old,
    settled,
)
from proving.conformance.consumer.values import Epoch, Held
from proving.conformance.scripts.groups import Section, Table, completing, enter, stable
from proving.conformance.steps import (
    Id,
    Script,
    Step,
    commit,
    describe,
    fetch,
    heartbeat,
    join,
    leave,
    list_groups,
    simple_commit,
    sync,
)

_SECTION = Section("A16 migration", "consumer")
_UPGRADED = [*classic("x", "y"), arrive("n")]
_CAME = [*ONE, guest("c"), beat("a"), ack("a"), guest("c"), guest_sync("c")]


def _round(who: str) -> list[Step]:
    """A classic member hears of the target, gives up, comes back, and syncs."""
    again = guest(who, owned=Held(who), generation=Epoch(who), **old(who))
    return [guest_beat(who, **old(who)), again, guest_sync(who, **old(who)), again, guest_sync(who, **old(who))]


_TABLE: Table = {
    "join with an id, in an empty group": [
        *ONE,
        depart("a"),
        simple_commit("o"),
        join("z", member_id="z"),
        fetch("o"),
    ],
    "upgrade": [*_UPGRADED, look(), list_groups("o"), describe("o"), *_round("x"), *_round("y"), beat("n"), look()],
    "upgrade, eager members": [
        *_UPGRADED,
        guest_beat("x", **old("x")),
        guest("x", **old("x")),
        guest_sync("x", **old("x")),
        guest_beat("y", **old("y")),
        guest("y", **old("y")),
        guest_sync("y", **old("y")),
        beat("n"),
        look(),
    ],
    "upgrade, then the classic ones leave": [*_UPGRADED, leave("x"), leave("y"), beat("n"), look()],
    "upgrade, then the new one leaves": [
        *_UPGRADED,
        depart("n"),
        describe("o"),
        look(),
        heartbeat("x", generation=Epoch("x")),
        *(join(who) for who in "xy"),
    ],
    "upgrade, then the new one leaves, they have reconciled": [
        *_UPGRADED,
        *_round("x"),
        *_round("y"),
        beat("n"),
        depart("n"),
        describe("o"),
        heartbeat("x", generation=Epoch("x")),
        join("x"),
        join("y"),
    ],
    "a rolling upgrade": [
        *classic("x", "y", "z"),
        leave("z"),
        join("x"),
        join("y"),
        sync("y"),
        led("x", {"x": {"t": [0, 1]}, "y": {"t": [2, 3]}}),
        arrive("n"),
        *_round("x"),
        *_round("y"),
        beat("n"),
        leave("y"),
        arrive("m"),
        *_round("x"),
        beat("n"),
        beat("m"),
        leave("x"),
        arrive("k"),
        beat("n"),
        ack("n"),
        beat("m"),
        ack("m"),
        beat("k"),
        look(),
        list_groups("o"),
    ],
    "a rolling downgrade": [
        *settled("a", "b", "c"),
        depart("c"),
        guest("d"),
        beat("a"),
        ack("a"),
        beat("b"),
        ack("b"),
        guest("d"),
        guest_sync("d"),
        depart("b"),
        guest("e"),
        beat("a"),
        ack("a"),
        guest("d", owned=Held("d")),
        guest_sync("d"),
        guest("e"),
        guest_sync("e"),
        depart("a"),
        describe("o"),
        look(),
    ],
    "upgrade with unreadable assignments": [*stable("x", "y"), arrive("n"), look(), heartbeat("x")],
    "upgrade of nobody's assignment": [*completing("x"), sync("x"), arrive("n"), look()],
    "upgrade with user data": [
        *completing("x", "y"),
        sync("y"),
        led("x", {"x": {"t": [0, 1]}, "y": {"t": [2, 3]}}, user_data=b"mine"),
        arrive("n"),
        look(),
        heartbeat("x"),
    ],
    "upgrade with empty user data": [*completing("x"), led("x", {"x": {"t": [0]}}, user_data=b""), arrive("n"), look()],
    "upgrade with a topic that is not there": [
        *completing("x"),
        led("x", {"x": {"t": [0], "nowhere": [1]}}),
        arrive("n"),
        look(),
    ],
    "upgrade with a partition that is not there": [
        *completing("x"),
        led("x", {"x": {"t": [0, 9]}}),
        arrive("n"),
        look(),
    ],
    "upgrade with two owners of one partition": [
        *completing("x", "y"),
        sync("y"),
        led("x", {"x": {"t": [0, 1]}, "y": {"t": [1]}}),
        arrive("n"),
        look(),
    ],
    "upgrade of another protocol type": [
        *enter("x", protocol_type="connect", protocols=("z",)),
        sync("x", protocol_type="connect", protocol_name="z"),
        arrive("n"),
        look(),
    ],
    "upgrade with a Subscription that cannot be read": [
        *enter("x", protocols=(("range", b"?"),)),
        led("x", {"x": {"t": [0]}}),
        arrive("n"),
        look(),
    ],
    "upgrade in the join phase": [
        *classic("x", "y"),
        join("x", protocols=("range", "sticky")),
        arrive("n"),
        look(),
        join("x"),
        join("y"),
        *(sync(who) for who in "xy"),
    ],
    "upgrade in the sync phase": [
        *classic("x", "y"),
        join("x", protocols=("range", "sticky")),
        join("y"),
        sync("y"),
        arrive("n"),
        look(),
        join("y"),
        join("x"),
    ],
    "upgrade in the first join phase": [*enter("x"), *enter("y"), arrive("n"), look(), join("x")],
    "upgrade in the first sync phase": [*completing("x"), arrive("n"), look(), guest_beat("x", **old("x"))],
    "upgrade of a group with a reserved id": [join("x", member_id=""), arrive("n"), look(), join("x")],
    "upgrade of an Empty group": [*stable("x"), commit("x"), leave("x"), arrive("n"), fetch("o"), look()],
    "upgrade of a simple group": [simple_commit("s"), arrive("n"), fetch("o"), look(), list_groups("o")],
    "upgrade by a static member": [*classic("x", "y"), arrive("N"), look()],
    "upgrade by a static member of the group": [
        *classic("X", "Y"),
        arrive("X", member_id="n"),
        look(),
        beat("X", member_id="n"),
        guest_beat("Y", **old("Y")),
    ],
    "upgrade by static members one by one": [
        *classic("X", "Y"),
        arrive("X", member_id="n"),
        arrive("Y", member_id="m"),
        beat("X", member_id="n"),
        beat("Y", member_id="m"),
        look(),
    ],
    "upgrade by a member of the group, under its id": [
        *classic("x"),
        arrive("x", **old("x")),
        look(),
        beat("x", **old("x")),
    ],
    "upgrade by a member without topics": [*classic("x"), arrive("n", names=[]), look(), guest_beat("x", **old("x"))],
    "upgrade by a member with other topics": [*classic("x"), arrive("n", "u"), look(), guest_beat("x", **old("x"))],
    "upgrade with an unknown assignor": [*classic("x"), arrive("n", server_assignor="nope"), describe("o")],
    "upgrade by a regex": [
        *classic("x"),
        arrive("n", subscribed_topic_regex="nothing.*"),
        look(),
        guest_beat("x", **old("x")),
    ],
    "a later heartbeat does not upgrade": [*classic("x"), beat("n", epoch=1), depart("n"), away("N"), describe("o")],
    "commits across an upgrade": [
        *classic("x", "y"),
        commit("x"),
        arrive("n"),
        commit("x", generation=Epoch("x"), **old("x")),
        fetch("o"),
    ],
    "downgrade by a leave": [
        *_CAME,
        depart("a"),
        describe("o"),
        look(),
        list_groups("o"),
        guest_beat("c"),
        join("c", member_id="c"),
        led("c", {}),
    ],
    "downgrade by an admin": [*_CAME, leave("o", members=[("a", None)]), describe("o"), look()],
    "downgrade with two classic ones": [
        *_CAME,
        guest("d"),
        depart("a"),
        describe("o"),
        guest_beat("c"),
        join("c", member_id="c"),
        join("d", member_id="d"),
    ],
    "downgrade, and the classic one lags behind": [
        *_CAME,
        arrive("d"),
        depart("d"),
        beat("a"),
        depart("a"),
        describe("o"),
        guest_beat("c"),
        commit("c", member_id="c", generation=Epoch("c")),
    ],
    "downgrade and upgrade again": [*_CAME, depart("a"), join("c", member_id="c"), led("c", {}), arrive("n"), look()],
    "all leave, a classic one comes": [
        *ONE,
        depart("a"),
        *enter("x"),
        led("x", {"x": {"t": [0]}}),
        look(),
        list_groups("o"),
    ],
    "all leave, a classic one reserves an id": [
        *ONE,
        depart("a"),
        join("x", member_id=""),
        look(),
        describe("o"),
        arrive("b"),
    ],
    "classic requests of an Empty group": [
        *ONE,
        depart("a"),
        guest_beat("x", generation=1),
        guest_sync("x", generation=1),
        leave("x", member_id="x"),
        look(),
    ],
    "a static one replaces the last new one": [
        *ONE,
        arrive("P"),
        beat("a"),
        ack("a"),
        beat("P"),
        guest("a"),
        guest("P", member_id=""),
        describe("o"),
        look(),
        guest_beat("P", member_id=Id("made")),
    ],
    "a static one replaces the last new one, behind the target": [
        *settled("P", "b"),
        guest("b", owned={"t": [2, 3]}),
        arrive("d"),
        depart("d"),
        guest("P", member_id=""),
        describe("o"),
        look(),
    ],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for members in ("x", "xy", "xyz"):
        yield _SECTION.script(f"upgrade of {len(members)}, then all turn", *classic(*members), *_all_turn(members))
    for policy, world in {
        "upgrade": "consumer timers",
        "downgrade": "consumer limits",
        "disabled": "consumer apart",
    }.items():
        yield from _with_policy(Section(f"A16 policy {policy}", world))
    yield Section("A16 first rebalance", "consumer delay").script(
        "upgrade in the initial delay", *enter("x"), arrive("n"), look(), heartbeat("x", generation=1)
    )


def _all_turn(members: str) -> list[Step]:
    steps: list[Step] = [arrive("n")]
    for index, who in enumerate(members):
        steps += [leave(who), arrive("klm"[index])]
    return [*steps, beat("n"), ack("n"), *(beat("klm"[index]) for index in range(len(members))), look()]


def _with_policy(section: Section) -> Iterator[Script]:
    yield section.script("a new one at a classic group", *classic("x"), arrive("n"), describe("o"), look())
    yield section.script("a new one at an Empty classic group", *classic("x"), leave("x"), arrive("n"), look())
    yield section.script("a new one at a simple group", simple_commit("s"), arrive("n"), look())
    yield section.script("a classic one at a consumer group", *ONE, guest("c"), look())
    yield section.script("a classic one at an Empty consumer group", *ONE, depart("a"), *enter("x"), describe("o"))
    yield section.script(
        "the last new one leaves",
        *ONE,
        guest("c"),
        beat("a"),
        ack("a"),
        depart("a"),
        look(),
        describe("o"),
        guest_beat("c"),
    )
    yield section.script("the last new one is replaced", arrive("P"), guest("P", member_id=""), look(), describe("o"))
