"""E3: static members of `consumer` groups."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.steps import ack, arrive, away, beat, depart, look, settled
from proving.conformance.consumer.values import Epoch
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Script, commit, describe, leave

_SECTION = Section("A10 static members", "consumer")
_BACK = arrive("P", member_id="x")
_PAIR = settled("P", "Q")
_GONE = [*_PAIR, away("P")]

_TABLE: Table = {
    "away and back": [*_GONE, look(), beat("Q"), _BACK, beat("P", member_id="x"), beat("Q"), look()],
    "away and back with the same id": [*_GONE, arrive("P"), beat("P"), beat("Q")],
    "away and back, alone": [arrive("P"), away("P"), look(), _BACK, look()],
    "away and back with other topics": [*_GONE, arrive("P", "u", member_id="x"), beat("Q"), look()],
    "away and back without a topic that is not there": [
        arrive("P", "t", "nowhere"),
        away("P"),
        arrive("P", "t", member_id="x"),
        look(),
    ],
    "away and back with more topics": [*_GONE, arrive("P", "t", "u", member_id="x"), beat("Q"), ack("Q"), look()],
    "away and back without an instance id": [*_GONE, arrive("P", member_id="x", instance=None), beat("Q"), look()],
    "away and back with another rack": [*_GONE, arrive("P", member_id="x", rack_id="r"), look()],
    "away and back with another assignor": [
        *_GONE,
        arrive("P", member_id="x", server_assignor="uniform"),
        look(),
        beat("Q"),
    ],
    "away and back with another timeout": [*_GONE, arrive("P", member_id="x", rebalance=5), look()],
    "away twice": [*_GONE, away("P"), look(), _BACK],
    "away, and then it leaves": [*_GONE, depart("P"), beat("Q"), look()],
    "away, and then it leaves under another id": [*_GONE, depart("P", member_id="x"), look()],
    "away, and an admin removes it": [*_GONE, leave("o", members=[("", "P")]), beat("Q"), _BACK],
    "away with a wrong id": [*_PAIR, away("P", member_id="z"), look()],
    "away with a wrong instance id": [*_PAIR, away("P", instance="Z"), look()],
    "away with topics": [*_PAIR, away("P", names=["u"], owned={}), look(), _BACK],
    "a heartbeat of who is away": [*_GONE, beat("P"), beat("P", epoch=-2), beat("P", epoch=3), look()],
    "while it is away another comes": [
        *_GONE,
        arrive("r"),
        beat("Q"),
        ack("Q"),
        beat("r"),
        _BACK,
        ack("P", member_id="x"),
        beat("r"),
    ],
    "while it is away another goes": [
        *settled("P", "Q", "R"),
        away("P"),
        depart("R"),
        beat("Q"),
        look(),
        _BACK,
        look(),
    ],
    "while it gives up it goes away": [
        *settled("P"),
        arrive("r"),
        beat("P"),
        away("P"),
        look(),
        beat("r"),
        _BACK,
        beat("r"),
        ack("P", member_id="x"),
        beat("r"),
    ],
    "while it waits it goes away": [*settled("Q"), arrive("P"), beat("Q"), away("P"), ack("Q"), _BACK, look()],
    "its id is in use": [*_PAIR, _BACK, beat("P"), look()],
    "its id is in use, by itself": [*_PAIR, arrive("P"), beat("P"), look()],
    "its id is in use, by a dynamic member": [arrive("p"), arrive("P"), beat("P"), look()],
    "the old one speaks": [*_GONE, _BACK, beat("P", epoch=3), beat("P", epoch=3, instance=None), look()],
    "the old one commits": [
        *_GONE,
        _BACK,
        commit("P", member_id="p", instance=None, generation=3),
        commit("P", member_id="x", generation=3),
    ],
    "the new one commits at the old epoch": [
        *_GONE,
        arrive("r"),
        _BACK,
        commit("P", member_id="x", generation=3),
        commit("P", {("t", 3): 1}, member_id="x", generation=3),
    ],
    "the old one leaves": [*_GONE, _BACK, depart("P"), depart("P", instance=None), look()],
    "it leaves for good": [*_PAIR, depart("P"), beat("Q"), look()],
    "it leaves for good without saying its instance id": [*_PAIR, depart("P", instance=None), beat("Q"), look()],
    "an admin removes it": [*_PAIR, leave("o", members=[("", "P")]), beat("P"), beat("Q"), look()],
    "an admin removes it with a wrong id": [*_PAIR, leave("o", members=[("z", "P"), ("", "Z"), ("q", "Q")]), look()],
    "its instance id changes": [*_PAIR, beat("P", instance="Z"), arrive("P", instance="Z"), look()],
    "its instance id is the other's": [*_PAIR, beat("P", instance="Q"), arrive("P", instance="Q"), look()],
    "a heartbeat without its instance id": [*_PAIR, beat("P", instance=None), arrive("P", instance=None), look()],
    "three restart one by one": [
        *settled("P", "Q", "R"),
        *(
            step
            for who, new in (("P", "x"), ("Q", "y"), ("R", "z"))
            for step in (away(who), arrive(who, member_id=new), beat(who, member_id=new))
        ),
        look(),
    ],
    "a full group takes back its own": [*settled("P", "b", "c", "d", "e", "f"), away("P"), _BACK, arrive("P"), look()],
    "DescribeGroups of it": [*_GONE, describe("o")],
    "it comes back behind": [*_GONE, arrive("r"), beat("Q"), beat("P", member_id="p", epoch=Epoch("P")), _BACK],
    "ranges: static members first": [arrive("a"), arrive("Z", member_id="z"), beat("a"), ack("a"), beat("Z"), look()],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
