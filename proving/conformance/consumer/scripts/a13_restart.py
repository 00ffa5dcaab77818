"""A20: what a group is after the broker was killed."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import JOINED, ONE, REVOKING, STATES, TWO
from proving.conformance.consumer.steps import (
    ack,
    alter,
    arrive,
    away,
    beat,
    classic,
    configs,
    depart,
    guest,
    guest_beat,
    guest_sync,
    look,
    old,
    settled,
)
from proving.conformance.consumer.values import Epoch
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Persist, Restart, Script, UntilEpoch, commit, describe, fetch, list_groups

_SECTION = Section("A20 restart", "consumer restart")
_AGAIN = Restart()

_TABLE: Table = {
    "nobody notices": [*TWO, _AGAIN, beat("a"), beat("b"), look()],
    "it gives up afterwards": [*REVOKING, _AGAIN, beat("a"), ack("a"), beat("b"), look()],
    "it hears afterwards": [*JOINED, _AGAIN, beat("a"), ack("a"), beat("b")],
    "it has given up before": [*REVOKING, ack("a"), _AGAIN, beat("b"), ack("a")],
    "the answer was lost": [*REVOKING, ack("a"), _AGAIN, beat("a", epoch=2, owned={"t": [0, 1]}), beat("b")],
    "away": [*settled("a", "P"), away("P"), _AGAIN, beat("a"), arrive("P", member_id="x"), look()],
    "a leave": [*TWO, depart("b"), _AGAIN, look(), beat("a"), look()],
    "an Empty group": [*ONE, depart("a"), _AGAIN, look(), arrive("b"), look()],
    "a classic member": [
        *ONE,
        guest("c"),
        beat("a"),
        ack("a"),
        guest("c"),
        guest_sync("c"),
        _AGAIN,
        guest_beat("c"),
        guest_sync("c"),
        beat("a"),
        look(),
    ],
    "an upgrade": [
        *classic("x", "y"),
        arrive("n"),
        _AGAIN,
        look(),
        guest_beat("x", **old("x")),
        guest("x", **old("x")),
        guest_sync("x", **old("x")),
    ],
    "a downgrade": [
        *ONE,
        guest("c"),
        beat("a"),
        ack("a"),
        guest("c"),
        guest_sync("c"),
        depart("a"),
        _AGAIN,
        describe("o"),
        guest_beat("c"),
    ],
    "a regex": [arrive("a", subscribed_topic_regex="t"), UntilEpoch(2), beat("a"), _AGAIN, look(), beat("a"), look()],
    "offsets": [
        *TWO,
        commit("a", member_id="a", generation=Epoch("a")),
        _AGAIN,
        fetch("o"),
        commit("a", member_id="a", generation=Epoch("a")),
    ],
    "an assignor": [arrive("a", server_assignor="uniform"), _AGAIN, beat("a"), look()],
    "no topics": [arrive("a", names=[]), _AGAIN, look(), beat("a"), beat("a", "t")],
    "configs": [
        alter({"consumer.heartbeat.interval.ms": "8000"}),
        Persist(arrive("a"), interval_ms=8000),
        _AGAIN,
        Persist(beat("a"), interval_ms=8000),
        configs(["consumer.heartbeat.interval.ms"]),
    ],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for name, steps in STATES.items():
        yield _SECTION.script(f"of {name}", *steps, _AGAIN, look(), list_groups("o"), arrive("n"), beat("a"), look())
