"""A11: timers. Sessions last 2.5 s in this world, and who is quiet too long is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proving.conformance.consumer.scripts.groups import ONE
from proving.conformance.consumer.steps import ack, alter, arrive, away, beat, guest, guest_beat, guest_sync, look
from proving.conformance.consumer.values import Epoch
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Pause, Persist, Script, Step, Until, UntilGone, commit, fetch

_SECTION = Section("A11 timers", "consumer timers", brisk_ms=2000)
# Pauses end well before the timer, and after it: a slow machine adds to each of them.
_REVOKING: list[Step] = [arrive("a", rebalance=2600), arrive("b"), beat("a")]
_ALIVE: list[Step] = [Pause(900), beat("a"), beat("b"), Pause(900), beat("a"), beat("b")]
_INTERVAL = "consumer.heartbeat.interval.ms"
_GUEST: dict[str, Any] = {"session": 2000, "rebalance": 1700}

_TABLE: Table = {
    "quiet too long": [*ONE, UntilGone("a"), beat("a", epoch=2), look()],
    "heartbeats keep it": [*ONE, Pause(1500), beat("a"), Pause(1500), beat("a"), Pause(1500), beat("a"), look()],
    "commits do not keep it": [
        *ONE,
        Pause(1000),
        commit("a", member_id="a", generation=2),
        Pause(1000),
        commit("a", member_id="a", generation=2),
        UntilGone("a"),
        look(),
    ],
    "fetches do not keep it": [*ONE, Pause(1300), fetch("a", member_id="a", epoch=Epoch("a")), UntilGone("a"), look()],
    "refused heartbeats do not keep it": [*ONE, Pause(1300), beat("a", epoch=9), UntilGone("a"), look()],
    "one of two is quiet": [
        *ONE,
        arrive("b"),
        Pause(1000),
        beat("a"),
        Pause(1000),
        beat("a"),
        UntilGone("b"),
        beat("a"),
        look(),
    ],
    "away too long": [arrive("P"), away("P"), UntilGone("p"), look(), arrive("P", member_id="x")],
    "away does not begin a session": [arrive("P"), Pause(1500), away("P"), UntilGone("p"), look()],
    "back in time": [
        arrive("P"),
        Pause(1000),
        away("P"),
        Pause(500),
        arrive("P", member_id="x"),
        Pause(1300),
        beat("P", member_id="x"),
        look(),
    ],
    "asked to give up, too slow": [*_REVOKING, *_ALIVE, UntilGone("a"), beat("b"), look(), beat("a")],
    "asked to give up, in time": [
        *_REVOKING,
        Pause(600),
        ack("a"),
        beat("b"),
        Pause(1100),
        beat("a"),
        beat("b"),
        Pause(1100),
        beat("a"),
        beat("b"),
        look(),
    ],
    "waiting has no limit": [
        arrive("a"),
        arrive("b", rebalance=300),
        beat("a"),
        Pause(900),
        beat("b"),
        beat("a"),
        Pause(900),
        beat("b"),
        look(),
    ],
    "asked to give up with another timeout": [
        arrive("a"),
        arrive("b"),
        beat("a", rebalance_timeout_ms=2600),
        *_ALIVE,
        UntilGone("a"),
        look(),
    ],
    "the session of the group": [
        alter({"consumer.session.timeout.ms": "1800", _INTERVAL: "300"}),
        Persist(arrive("a"), interval_ms=300),
        Pause(600),
        beat("a"),
        UntilGone("a"),
        look(),
    ],
    "a longer session": [
        alter({"consumer.session.timeout.ms": "9000", _INTERVAL: "300"}),
        Persist(arrive("a"), interval_ms=300),
        Pause(4000),
        beat("a"),
        look(),
    ],
    "a classic one, quiet too long": [
        *ONE,
        guest("c", **_GUEST),
        guest_sync("c"),
        Pause(1000),
        beat("a"),
        UntilGone("c"),
        beat("a"),
        guest_beat("c"),
        look(),
    ],
    "a classic one, it heartbeats": [
        *ONE,
        guest("c", **_GUEST),
        guest_sync("c"),
        beat("a"),
        Pause(1100),
        guest_beat("c"),
        beat("a"),
        Pause(1100),
        guest_beat("c"),
        look(),
    ],
    "a classic one that does not sync": [
        *ONE,
        guest("c", **_GUEST),
        Pause(600),
        guest_beat("c"),
        beat("a"),
        UntilGone("c"),
        look(),
    ],
    "a classic one that does not join again": [
        *ONE,
        guest("c", **_GUEST),
        guest_sync("c"),
        beat("a"),
        ack("a"),
        guest_beat("c"),
        Pause(700),
        guest_beat("c"),
        beat("a"),
        UntilGone("c"),
        beat("a"),
        look(),
    ],
    "all are quiet": [*ONE, arrive("b"), Until("Empty"), look(), arrive("c")],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
