"""E6: offsets of `consumer` groups."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import REVOKING, TWO
from proving.conformance.consumer.steps import ack, arrive, beat, depart, guest, guest_sync, look
from proving.conformance.consumer.values import Epoch
from proving.conformance.scripts.groups import Section, Table, stable
from proving.conformance.steps import Ask, Script, commit, delete_groups, delete_offsets, fetch, leave, simple_commit

_SECTION = Section("A17 offsets", "consumer")
_GUEST = [arrive("a"), guest("c"), beat("a"), ack("a"), guest("c"), guest_sync("c")]


def _commit(who: str, plus: int = 0, partition: int = 0, topic: str = "t", **more: object) -> Ask:
    fields = {"member_id": who.lower(), "generation": Epoch(who, plus), **more}
    return commit(who, {(topic, partition): 7}, **fields)  # type: ignore[arg-type]


def _fetch(who: str, plus: int = 0, **more: object) -> Ask:
    return fetch(who, {"t": [0, 1]}, member_id=who.lower(), epoch=Epoch(who, plus), **more)  # type: ignore[arg-type]


_TABLE: Table = {
    "its own partition": [*TWO, _commit("a"), fetch("o"), look()],
    "another's partition": [*TWO, _commit("a", partition=3), _commit("a", topic="u"), _commit("a", topic="nowhere")],
    "a larger epoch": [*TWO, _commit("a", 1), fetch("o")],
    "the epoch before, for what it held then": [*REVOKING, ack("a"), _commit("a", -1), _commit("a", -1, 2)],
    "the epoch before, for what it gives up": [*REVOKING, _commit("a", 0, 2), _commit("a", -1, 2), _commit("a", -1, 0)],
    "the epoch before, for what it has gained": [
        *TWO,
        depart("b"),
        beat("a"),
        _commit("a", -1, 0),
        _commit("a", -1, 3),
        _commit("a", 0, 3),
    ],
    "the epoch before, one good and one bad": [
        *TWO,
        depart("b"),
        beat("a"),
        commit("a", {("t", 0): 1, ("t", 3): 1}, member_id="a", generation=Epoch("a", -1)),
        fetch("o"),
    ],
    "an epoch long ago": [*TWO, arrive("c"), beat("a"), ack("a"), beat("c"), _commit("a", -2), _commit("a", -3)],
    "epoch 0": [*TWO, commit("a", member_id="a", generation=0)],
    "epoch -1 with its id": [*TWO, commit("a", member_id="a", generation=-1)],
    "from outside, with members": [*TWO, simple_commit("s"), fetch("o")],
    "from outside, without members": [arrive("a"), depart("a"), simple_commit("s"), fetch("o"), look()],
    "from outside with an epoch": [
        arrive("a"),
        depart("a"),
        commit("s", member_id="", generation=2),
        commit("s", member_id="x", generation=-1),
    ],
    "another's id": [*TWO, commit("a", member_id="b", generation=3), commit("a", member_id="z", generation=3)],
    "an instance id that it never had": [*TWO, commit("a", member_id="a", generation=Epoch("a"), instance="Z")],
    "a static member's": [
        arrive("P"),
        commit("P", member_id="p", generation=2),
        commit("P", member_id="p", generation=2, instance="Q"),
    ],
    "who waits commits": [*REVOKING, _commit("b"), _commit("b", 0, 3), _commit("b", -1, 3)],
    "who has left commits": [*TWO, depart("b"), commit("b", member_id="b", generation=3)],
    "who was removed commits": [*TWO, leave("o", members=[("b", None)]), commit("b", member_id="b", generation=3)],
    "a classic member's": [
        *_GUEST,
        _commit("c"),
        _commit("c", 1),
        _commit("c", -1),
        _commit("c", v=8),
        _commit("a", v=8),
    ],
    "a classic member's, long metadata": [*_GUEST, _commit("c", metadata="x" * 5000)],
    "OffsetFetch of a member": [*TWO, _commit("a"), _fetch("a"), _fetch("a", 1), _fetch("a", -1)],
    "OffsetFetch with another's id": [*TWO, fetch("a", member_id="z", epoch=3), fetch("a", member_id="b", epoch=3)],
    "OffsetFetch without an id": [
        *TWO,
        fetch("a", member_id=None, epoch=3),
        fetch("a", member_id="", epoch=-1),
        fetch("a", member_id="a", epoch=-1),
    ],
    "OffsetFetch of a classic member": [*_GUEST, _fetch("c"), _fetch("c", 1), fetch("c", member_id="c", epoch=-1)],
    "OffsetFetch of an Empty group": [arrive("a"), depart("a"), fetch("a", member_id="a", epoch=2), fetch("o")],
    "OffsetFetch of an unknown group": [fetch("a", {"t": [0]}, member_id="a", epoch=2), fetch("a", {"t": [0]})],
    "OffsetFetch of a classic group with an epoch": [*stable("x"), fetch("x", member_id="x", epoch=1)],
    "OffsetDelete": [
        simple_commit("s", {("t", 0): 1, ("u", 0): 2}),
        *TWO,
        delete_offsets("o", {"t": [0], "u": [0]}),
        fetch("o"),
    ],
    "OffsetDelete of what one has dropped": [
        simple_commit("s"),
        *TWO,
        beat("a", "u"),
        delete_offsets("o", {"t": [0]}),
        beat("b", "u"),
        delete_offsets("o", {"t": [0]}),
    ],
    "OffsetDelete of an Empty group": [
        simple_commit("s"),
        arrive("a"),
        depart("a"),
        delete_offsets("o", {"t": [0]}),
        fetch("o"),
    ],
    "DeleteGroups": [
        *TWO,
        delete_groups("o"),
        depart("a"),
        delete_groups("o"),
        depart("b"),
        delete_groups("o"),
        look(),
    ],
    "DeleteGroups, with offsets": [
        simple_commit("s"),
        arrive("a"),
        depart("a"),
        delete_groups("o"),
        fetch("o"),
        arrive("b"),
    ],
    "DeleteGroups, with a regex": [
        arrive("a", "t", subscribed_topic_regex="u"),
        depart("a"),
        delete_groups("o"),
        look(),
    ],
    "offsets stay when a group is converted": [
        simple_commit("s"),
        *TWO,
        fetch("o"),
        _commit("a"),
        depart("a"),
        depart("b"),
        fetch("o"),
    ],
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for v in range(2, 11):
        yield _SECTION.script(
            f"OffsetCommit v{v}", *TWO, _commit("a", v=v), _commit("a", 1, v=v), _commit("a", -1, v=v)
        )
        yield _SECTION.script(
            f"OffsetCommit v{v} of a classic member", *_GUEST, _commit("c", v=v), _commit("c", 1, v=v)
        )
        yield _SECTION.script(
            f"OffsetCommit v{v}, unknown group", commit("n", member_id="n", generation=3, v=v), look()
        )
    for v in (8, 9, 10):
        yield _SECTION.script(
            f"OffsetFetch v{v}", *TWO, _commit("a"), _fetch("a", v=v), _fetch("a", 1, v=v), _fetch("z", 1, v=v)
        )
