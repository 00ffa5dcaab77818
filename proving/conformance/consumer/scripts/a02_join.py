"""E1: joining, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proving.conformance.consumer.scripts.groups import ONE, TWO
from proving.conformance.consumer.steps import ack, arrive, away, beat, depart, look
from proving.conformance.consumer.values import Epoch, Held
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Drop, GroupId, Id, Script, list_groups

_SECTION = Section("A3 joining", "consumer")
_script = _SECTION.script
_FOUR = {"t": [0, 1, 2, 3]}
_NOWHERE = GroupId("elsewhere")

_TABLE: Table = {
    "the first member has all": [arrive("a"), beat("a"), look()],
    "of two topics": [arrive("a", "t", "u"), beat("a"), look()],
    "without topics": [arrive("a", names=[]), beat("a"), look(), depart("a")],
    "without topics, then with some": [arrive("a", names=[]), beat("a", "t"), beat("a")],
    "the second without topics": [*ONE, arrive("b", names=[]), beat("a"), look()],
    "the answer was lost": [arrive("a"), arrive("a"), beat("a"), arrive("a")],
    "the answer was lost, with other topics": [arrive("a"), arrive("a", "u"), beat("a")],
    "topics in another order, and twice": [arrive("a", "t", "u"), beat("a", "u", "t", "u"), arrive("a", "u", "t", "t")],
    "a topic that is not there": [arrive("a", "nowhere"), beat("a"), look()],
    "a topic that is there, and one that is not": [arrive("a", "t", "nowhere"), look()],
    "a name that no topic can have": [arrive("a", "no such name!"), beat("a")],
    "a rack": [arrive("a", rack_id="r1"), beat("a", rack_id="r2"), beat("a"), look()],
    "a group.instance.id": [arrive("P"), beat("P"), beat("P", instance=None), look()],
    "the rebalance timeout changes": [*ONE, beat("a", rebalance_timeout_ms=7000), beat("a")],
    "a rebalance timeout of 0": [arrive("a", rebalance=0), beat("a"), look()],
    "a negative rebalance timeout": [arrive("a", rebalance=-2), look()],
    "another client id": [*ONE, beat("z", member_id="a", epoch=Epoch("a")), look()],
    "all said again": [*ONE, beat("a", "t", owned="held", rebalance_timeout_ms=600_000), beat("a", owned="held")],
    "all said again, without partitions": [*ONE, beat("a", "t", rebalance_timeout_ms=600_000)],
    "all said again, without a timeout": [*ONE, beat("a", "t", owned="held")],
    "names and no timeout": [*ONE, beat("a", "t", owned={})],
    "partitions that it never had": [*ONE, beat("a", owned={"t": [0, 9], "u": [0]}), beat("a"), look()],
    "partitions of a topic that is not there": [*ONE, beat("a", owned={"nowhere": [0]}), beat("a")],
    "fewer partitions than it has": [*ONE, beat("a", owned={"t": [0]}), beat("a"), look()],
    "a second connection": [*ONE, Drop("a"), beat("a"), look()],
    "an id with blanks around it": [arrive("a", member_id=" a "), beat("a", member_id=" a "), look()],
    "a long id": [arrive("a", member_id="x" * 300), beat("a", member_id="x" * 300)],
    "ids that differ in case": [arrive("a"), arrive("b", member_id="A"), beat("a"), ack("a"), beat("b", member_id="A")],
    "ListGroups while it lives": [*ONE, list_groups("o"), list_groups("o", states=["stable"]), list_groups("o", 4)],
    "leaving twice": [*TWO, depart("b"), depart("b"), beat("a"), look()],
    "leaving with a wrong epoch said before": [*ONE, beat("a", epoch=9), depart("a")],
    "leaving with everything said": [*ONE, depart("a", owned={}, names=["t"], rebalance_timeout_ms=5), look()],
    "the last leaves, another comes": [*ONE, depart("a"), arrive("b"), beat("b"), look()],
    "it leaves and comes back": [*TWO, depart("b"), arrive("b"), beat("a"), ack("a"), beat("b")],
    "an unknown group": [beat("a", epoch=1, group=_NOWHERE), depart("a", group=_NOWHERE)],
}

# What is said wrongly at the first heartbeat, and at a later one.
_FIRST: dict[str, dict[str, Any]] = {
    "no member id": {"member_id": ""},
    "a blank member id": {"member_id": "  "},
    "no group id": {"group": ""},
    "a blank group id": {"group": " "},
    "an empty instance id": {"instance": ""},
    "a blank instance id": {"instance": " "},
    "an empty rack": {"rack_id": ""},
    "a blank rack": {"rack_id": " "},
    "no rebalance timeout": {"rebalance": -1},
    "no partitions": {"owned": None},
    "partitions": {"owned": _FOUR},
    "epoch -3": {"epoch": -3},
    "epoch -2 and no instance id": {"epoch": -2},
    "an unknown assignor": {"server_assignor": "nope"},
    "an empty assignor": {"server_assignor": ""},
    "an empty topic name": {"names": [""]},
}
_LATER: dict[str, dict[str, Any]] = {
    "a larger epoch": {"epoch": Epoch("a", 1)},
    "the epoch before, null": {"epoch": Epoch("a", -1)},
    "the epoch before, what it holds": {"epoch": Epoch("a", -1), "owned": "held"},
    "the epoch before, a part": {"epoch": Epoch("a", -1), "owned": Held("a", 1)},
    "the epoch before, nothing": {"epoch": Epoch("a", -1), "owned": {}},
    "the epoch before, more": {"epoch": Epoch("a", -1), "owned": _FOUR},
    "two epochs before": {"epoch": Epoch("a", -2), "owned": {}},
    "another member id": {"member_id": "z"},
    "an instance id that it never had": {"instance": "X"},
    "an unknown assignor": {"server_assignor": "nope"},
    "an unknown assignor on leaving": {"server_assignor": "nope", "epoch": -1},
    "a timeout of -5": {"rebalance_timeout_ms": -5},
    "epoch -2 without an instance id": {"epoch": -2},
    "epoch -3": {"epoch": -3},
    "no member id": {"member_id": ""},
    "an empty rack": {"rack_id": ""},
    "leaving without a member id": {"member_id": "", "epoch": -1},
    "leaving with an instance id that it never had": {"instance": "X", "epoch": -1},
}


def scripts() -> Iterator[Script]:
    yield from _SECTION.scripts(_TABLE)
    for name, fields in _FIRST.items():
        for v in (0, 1):
            yield _script(f"{name}, v{v}", arrive("a", v=v, **fields), look(), arrive("b", "u"))
            yield _script(
                f"{name}, a live group, v{v}", *ONE, arrive("b", v=v, **{"names": ["u"], **fields}), beat("a")
            )
    for name, fields in _LATER.items():
        yield _script(f"later: {name}", *TWO, beat("a", **fields), beat("a"), look())
    yield _script("neither names nor regex", beat("a", epoch=0, owned={}, rebalance_timeout_ms=9000), look())
    yield _script("v0: an id is made", arrive("a", v=0, member_id=""), beat("a", v=0, member_id=Id("made")), look(v=0))
    yield _script(
        "v0: a made id leaves", arrive("a", v=0, member_id=""), depart("a", v=0, member_id=Id("made")), look()
    )
    yield _script("v0: an id of its own", arrive("a", v=0), beat("a", v=0), beat("a"), look())
    yield _script("v0: away", arrive("P", v=0), away("P", v=0), arrive("P", v=0, member_id=""), look())
