"""E2: partitions change hands, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import JOINED, ONE, REVOKING, TWO
from proving.conformance.consumer.steps import ack, arrive, beat, depart, look, settled
from proving.conformance.consumer.values import Epoch, Held
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Script, Step, leave

_SECTION = Section("A8 reconciliation", "consumer")
_script = _SECTION.script
_ALL = {"t": [0, 1, 2, 3]}

_TABLE: Table = {
    "two members, step by step": [
        *JOINED,
        beat("b"),
        beat("a"),
        beat("b"),
        beat("a", owned=_ALL),
        beat("a"),
        ack("a"),
        beat("b"),
        ack("b"),
    ],
    "asked to give up, it says nothing": [*REVOKING, beat("a"), beat("a"), beat("b")],
    "asked to give up, it holds all": [*REVOKING, beat("a", owned=_ALL), beat("b")],
    "asked to give up, it holds one of them": [*REVOKING, beat("a", owned={"t": [0, 1, 3]}), beat("b")],
    "it gives up": [*REVOKING, ack("a"), ack("a"), beat("b")],
    "it gives up everything": [*REVOKING, beat("a", owned={}), beat("b"), beat("a"), look()],
    "it gives up at once": [*JOINED, beat("a", owned={"t": [0, 1]}), beat("b")],
    "it gives up all at once": [*JOINED, beat("a", owned={}), beat("b"), beat("a")],
    "it gives up with everything said": [*REVOKING, beat("a", "t", owned="held", rebalance_timeout_ms=5000), beat("b")],
    "the answer to its confirmation was lost": [
        *REVOKING,
        ack("a"),
        beat("a", epoch=Epoch("a", -1), owned="held"),
        beat("b"),
    ],
    "lost, and it says less": [*REVOKING, ack("a"), beat("a", epoch=Epoch("a", -1), owned=Held("a", 1))],
    "lost, and it says more": [*REVOKING, ack("a"), beat("a", epoch=Epoch("a", -1), owned=_ALL)],
    "lost, and it says nothing": [*REVOKING, ack("a"), beat("a", epoch=Epoch("a", -1))],
    "epoch 0 when Stable": [*TWO, arrive("a"), beat("b"), look()],
    "epoch 0 when asked to give up": [*REVOKING, arrive("a"), beat("b"), beat("a")],
    "epoch 0 when waiting": [*REVOKING, arrive("b"), ack("a"), arrive("b"), look()],
    "epoch 0 when it has not heard": [*JOINED, arrive("a"), beat("b")],
    "a third while the first gives up": [
        *REVOKING,
        arrive("c"),
        beat("a"),
        beat("b"),
        ack("a"),
        beat("c"),
        beat("b"),
        ack("a"),
        beat("c"),
    ],
    "a third while the first gives up, which then rests": [
        *REVOKING,
        arrive("c"),
        ack("a"),
        beat("a"),
        beat("b"),
        beat("c"),
    ],
    "asked back before it has given up": [
        *REVOKING,
        depart("b"),
        beat("a"),
        beat("a", owned=_ALL),
        ack("a"),
        beat("a"),
    ],
    "asked back by another newcomer": [*REVOKING, depart("b"), arrive("c"), beat("a"), ack("a"), beat("c")],
    "who waits leaves": [*JOINED, depart("b"), beat("a"), look()],
    "who gives up leaves": [*REVOKING, depart("a"), beat("b"), look()],
    "who gives up drops its topic": [*REVOKING, beat("a", "u"), beat("a"), ack("a"), beat("b")],
    "who gives up drops all topics": [*REVOKING, beat("a", names=[]), ack("a"), beat("b")],
    "who waits drops its topic": [*REVOKING, beat("b", "u"), ack("a"), beat("b"), beat("a")],
    "a topic is dropped": [*settled("a", topics=("t", "u")), beat("a", "t"), ack("a"), look()],
    "a topic is dropped with the confirmation": [
        *settled("a", topics=("t", "u")),
        beat("a", "t", owned={"t": [0, 1, 2, 3]}),
        beat("a"),
        look(),
    ],
    "a topic is dropped by one of two": [
        *settled("a", "b", topics=("t", "u")),
        beat("a", "t"),
        beat("b"),
        ack("a"),
        beat("b"),
        ack("b"),
        beat("a"),
    ],
    "a topic is exchanged": [*settled("a", "b"), beat("a", "u"), beat("b"), ack("a"), beat("b"), beat("a"), look()],
    "all topics are dropped": [*TWO, beat("a", names=[]), ack("a"), beat("b"), look()],
    "a topic is added": [*TWO, beat("a", "t", "u"), beat("b"), ack("a"), ack("b"), beat("a"), look()],
    "a topic is added and the answer lost": [*ONE, beat("a", "t", "u"), beat("a", "t", "u"), beat("a"), look()],
    "back to the old topics before it has heard": [
        *TWO,
        beat("a", "u"),
        beat("a", "t"),
        beat("a"),
        ack("a"),
        beat("b"),
    ],
    "a member leaves": [*TWO, depart("b"), look(), beat("a"), look()],
    "a member leaves, told by LeaveGroup": [*TWO, leave("o", members=[("b", None)]), look(), beat("a"), beat("b")],
    "two leave at once, told by LeaveGroup": [
        *settled("a", "b", "c"),
        leave("o", members=[("b", None), ("c", None), ("z", None)]),
        beat("a"),
    ],
    "all leave, told by LeaveGroup": [*TWO, leave("o", members=[("b", None), ("a", None)]), look(), arrive("c")],
    "one of three leaves": [
        *settled("a", "b", "c"),
        depart("b"),
        beat("c"),
        beat("a"),
        ack("a"),
        beat("c"),
        ack("c"),
        look(),
    ],
    "the target changes twice before it hears": [
        *ONE,
        arrive("b"),
        arrive("c"),
        beat("a"),
        ack("a"),
        beat("b"),
        beat("c"),
    ],
    "six members for four partitions": [*settled("a", "b", "c", "d", "e", "f"), look()],
    "one too many": [
        *settled("a", "b", "c", "d", "e", "f"),
        arrive("g"),
        arrive("f"),
        depart("f"),
        arrive("g"),
        beat("a"),
    ],
    "a smaller epoch behind a newer target": [
        *settled("a", "b"),
        arrive("c"),
        beat("a", epoch=Epoch("a", -1), owned="held"),
    ],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for order in itertools.permutations("abc"):
        yield _script(f"three join, heartbeats in the order {' '.join(order)}", *_in_order(order))
    for order in itertools.permutations("abc"):
        yield _script(f"one of four leaves, heartbeats in the order {' '.join(order)}", *_leaving(order))
    for count in range(1, 7):
        members = "abcdef"[:count]
        yield _script(f"{count} on two topics", *settled(*members, topics=("t", "u")), look())
        yield _script(f"{count} with different topics", *_mixed(members), look())


def _in_order(order: tuple[str, ...]) -> list[Step]:
    rounds: list[Step] = [step for who in order for step in (beat(who), ack(who))]
    return [*(arrive(who) for who in "abc"), *rounds, *rounds]


def _leaving(order: tuple[str, ...]) -> list[Step]:
    rounds: list[Step] = [step for who in order for step in (beat(who), ack(who))]
    return [*settled("a", "b", "c", "d", topics=("t", "u")), depart("d"), *rounds, *rounds]


def _mixed(members: str) -> list[Step]:
    topics = itertools.cycle([("t",), ("u",), ("t", "u")])
    steps: list[Step] = [arrive(who, *some) for who, some in zip(members, topics, strict=False)]
    return [*steps, *(step for _ in range(2) for who in members for step in (beat(who), ack(who)))]
