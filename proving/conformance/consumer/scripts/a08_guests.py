"""A15: classic members inside a `consumer` group."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import ONE, TWO
from proving.conformance.consumer.steps import (
    ack,
    arrive,
    away,
    beat,
    depart,
    guest,
    guest_beat,
    guest_sync,
    look,
)
from proving.conformance.consumer.values import Epoch, Held
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Id, Script, describe, join, leave, list_groups

_SECTION = Section("A15 classic members", "consumer")
_IN = [*ONE, guest("c"), beat("a"), ack("a"), guest("c"), guest_sync("c")]  # c holds 2 and 3
_REVOKED = [*_IN, arrive("d"), guest_beat("c")]  # c must give something up, or gain

_TABLE: Table = {
    "it comes in": [
        *ONE,
        guest("c"),
        guest_beat("c"),
        guest_sync("c"),
        beat("a"),
        ack("a"),
        guest_beat("c"),
        guest("c"),
        guest_sync("c"),
        guest_beat("c"),
        look(),
    ],
    "it syncs before anything is free": [
        *ONE,
        guest("c"),
        guest_sync("c"),
        guest_beat("c"),
        beat("a"),
        guest_beat("c"),
        ack("a"),
        guest_beat("c"),
    ],
    "it heartbeats on": [*_IN, guest_beat("c"), guest_beat("c"), look(), describe("o"), list_groups("o")],
    "another comes": [
        *_REVOKED,
        guest("c", owned=Held("c")),
        guest_sync("c"),
        guest_beat("c"),
        guest("c", owned=Held("c")),
        guest_sync("c"),
        beat("d"),
    ],
    "another comes, it shows nothing": [*_REVOKED, guest("c"), guest_sync("c"), beat("d"), beat("a"), ack("a"), look()],
    "another comes, it shows all still": [
        *_REVOKED,
        guest("c", owned={"t": [2, 3]}),
        guest_sync("c"),
        guest("c", owned={"t": [2, 3]}),
        guest_beat("c"),
        beat("d"),
    ],
    "it syncs behind the target": [*_IN, arrive("d"), guest_sync("c"), guest("c"), guest_sync("c")],
    "another leaves": [*_IN, depart("a"), look(), guest_beat("c"), guest("c"), guest_sync("c")],
    "it leaves": [*_IN, leave("c", member_id="c"), beat("a"), guest_beat("c"), look()],
    "it turns into a new one": [*_IN, arrive("c"), beat("a"), guest_beat("c"), look()],
    "a new one turns into it": [*TWO, guest("b"), guest_sync("b"), guest_beat("b"), beat("b"), look()],
    "a new one turns into it, holding its own": [
        *TWO,
        guest("b", owned={"t": [2, 3]}),
        guest_sync("b"),
        beat("a"),
        look(),
    ],
    "the last new one turns into it": [*ONE, guest("a"), guest_sync("a"), guest_beat("a"), describe("o"), look()],
    "other topics": [*_IN, guest("c", "u"), guest_sync("c"), beat("a"), guest_beat("c"), look()],
    "more topics": [*_IN, guest("c", "t", "u", owned=Held("c")), guest_sync("c"), beat("a"), look()],
    "no topics": [
        *_IN,
        join("c", member_id="c", protocols=(("range", b"\0\0\0\0\0\0\0\0\0\0"),)),
        guest_sync("c"),
        look(),
    ],
    "a wrong generation": [
        *_IN,
        guest_beat("c", generation=Epoch("c", 1)),
        guest_beat("c", generation=Epoch("c", -1)),
        guest_sync("c", generation=Epoch("c", -1)),
        guest_sync("c", generation=99),
    ],
    "a wrong protocol in Sync": [
        *_IN,
        guest_sync("c", protocol_name="sticky"),
        guest_sync("c", protocol_type="connect"),
        guest_sync("c", protocol_name=None, protocol_type=None),
        guest_sync("c", protocol_name=None),
    ],
    "the new one's id in classic requests": [*_IN, guest_beat("a"), guest_sync("a"), guest_beat("z"), guest_sync("z")],
    "the classic one's id in new requests": [*_IN, beat("c"), beat("c", epoch=Epoch("c", 7)), depart("c"), look()],
    "a wrong instance id": [
        *_IN,
        guest_beat("c", instance="Z"),
        guest_sync("c", instance="Z"),
        guest("c", instance="Z"),
    ],
    "another protocol type": [*ONE, guest("c", protocol_type="connect"), guest("c", protocol_type=""), look()],
    "no protocols": [*ONE, join("c", member_id="c", protocols=()), look()],
    "a protocol that the other classic one lacks": [*_IN, guest("d", name="sticky"), guest("c", name="sticky"), look()],
    "two protocols, one in common": [
        *ONE,
        join("c", member_id="c", protocols=("range", "sticky")),
        join("d", member_id="d", protocols=("sticky", "roundrobin")),
        guest_sync("c"),
        guest_sync("d", protocol_name="sticky"),
        guest_sync("d", protocol_name="roundrobin"),
        look(),
    ],
    "an assignor that nobody knows": [*ONE, guest("c", name="my-own"), guest_sync("c", protocol_name="my-own"), look()],
    "metadata that cannot be read": [
        *ONE,
        join("c", member_id="c", protocols=(("range", b"?"),)),
        join("c", member_id="c", protocols=(("range", b""),)),
        look(),
    ],
    "the second protocol's metadata cannot be read": [
        *ONE,
        join("c", member_id="c", protocols=("range", ("sticky", b"?"))),
        look(),
    ],
    "no id": [*ONE, guest("c", "u", member_id=""), guest("c", "u", member_id=Id("made")), look()],
    "no id, v3": [*ONE, guest("c", "u", v=3, member_id=""), guest_sync("c", member_id=Id("made")), look()],
    "no id, v0": [*ONE, guest("c", "u", v=0, member_id=""), guest_sync("c", 0, member_id=Id("made")), look()],
    "a session timeout out of range": [*ONE, guest("c", session=1), guest("c", session=2_000_000_000), look()],
    "no session and no rebalance timeout": [*ONE, guest("c", session=0, rebalance=0), look()],
    "a full group": [*ONE, *(arrive(who) for who in "bcdef"), guest("g"), guest("f"), look()],
    "a static one": [
        *ONE,
        guest("P", member_id=""),
        guest_sync("P", member_id=Id("made")),
        beat("a"),
        ack("a"),
        look(),
    ],
    "a static one is back": [
        *ONE,
        guest("P", member_id=""),
        guest("P", member_id=""),
        guest_beat("P", member_id=Id("made", 1)),
        guest_beat("P", member_id=Id("made", 2)),
        look(),
    ],
    "a static one with an id": [*ONE, guest("P"), guest("P", member_id="z"), look()],
    "a static one takes over from a new one": [
        arrive("a"),
        arrive("P"),
        guest("P", member_id=""),
        beat("P"),
        beat("a"),
        look(),
    ],
    "a new one takes over from a static one": [
        *ONE,
        guest("P", member_id=""),
        arrive("P", member_id="x"),
        beat("a"),
        guest_beat("P", member_id=Id("made")),
        look(),
    ],
    "a static one takes over from one that is away": [
        arrive("a"),
        arrive("P"),
        beat("a"),
        ack("a"),
        beat("P"),
        away("P"),
        guest("P", member_id=""),
        guest_sync("P", member_id=Id("made")),
        look(),
    ],
    "the last new one is taken over": [
        arrive("P"),
        guest("P", member_id=""),
        describe("o"),
        look(),
        guest_beat("P", member_id=Id("made")),
    ],
    "the last new one is taken over, with other topics": [
        arrive("P"),
        guest("P", "u", member_id=""),
        describe("o"),
        look(),
    ],
    "an admin removes both": [*_IN, leave("o", members=[("a", None), ("c", None)]), look(), describe("o")],
    "two classic ones": [
        *ONE,
        guest("c"),
        guest("d"),
        beat("a"),
        ack("a"),
        guest("c"),
        guest_sync("c"),
        guest("d"),
        guest_sync("d"),
        guest_beat("c"),
        guest_beat("d"),
        look(),
    ],
    "a regex is given up": [arrive("a"), arrive("b", names=[], subscribed_topic_regex="nothing"), guest("b"), look()],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for v in range(10):
        yield _SECTION.script(
            f"JoinGroup v{v}",
            *ONE,
            guest("c", v=v, instance=None),
            guest_sync("c"),
            beat("a"),
            ack("a"),
            guest_beat("c"),
            look(),
        )
    for v in range(6):
        yield _SECTION.script(f"SyncGroup v{v}", *_IN, guest_sync("c", v), guest_sync("c", v, generation=77))
    for v in range(5):
        yield _SECTION.script(f"Heartbeat v{v}", *_IN, guest_beat("c", v), guest_beat("c", v, generation=77))
    for v in range(6):
        yield _SECTION.script(
            f"LeaveGroup v{v}", *_IN, leave("c", v, member_id="c"), leave("a", v, member_id="a"), look()
        )
    for version in range(4):
        yield _SECTION.script(
            f"Subscription v{version}",
            *ONE,
            guest("c", version=version),
            beat("a"),
            ack("a"),
            guest("c", version=version),
            guest_sync("c"),
            look(),
        )
