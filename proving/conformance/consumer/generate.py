"""Scripts of `consumer` groups drawn by chance: what members say, and what they should not say, mixed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
from proving.conformance.side import Moment
from proving.conformance.steps import (
    Ask,
    Drop,
    Step,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    fetch,
    join,
    leave,
    list_groups,
    simple_commit,
)

_DYNAMIC, _STATIC, _CLASSIC = "abc", "PQ", "de"
_NEXT_ID = {"p": "x", "x": "p", "q": "y", "y": "q"}
_TOPICS: Sequence[Sequence[str]] = (("t",), ("t",), ("t",), ("t", "u"), ("u",), (), ("t", "nowhere"))
_ENOUGH = 4
One = TypeVar("One")


class ConsumerDrawing:
    """One script on its way. Classic members are in it only while the group is a `consumer` group."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._ids = {who: who.lower() for who in _STATIC}  # the member id of each static member's last process
        self._present: list[str] = []
        self._guests: list[str] = []
        self._away: set[str] = set()
        self._is_classic = False

    def look(self, moment: Moment) -> None:
        """At what Kafka has answered."""
        group = moment["g"]
        rows = group["members"]
        self._is_classic = group["type"] == "classic" and bool(rows)
        if self._is_classic:
            self._guests = [row["member_id"] for row in rows]
            self._present, self._away = [], set()
            return
        self._guests = [row["member_id"] for row in rows if row.get("member_type") == 0]
        others = [row for row in rows if row.get("member_type") == 1]
        self._present = [row.get("instance_id") or row["member_id"] for row in others]
        self._away = {row["instance_id"] for row in others if row["member_epoch"] == -2}

    def draw(self) -> Step:
        kinds = self._in_classic_group() if self._is_classic else self._in_consumer_group()
        (kind,) = self._chance.choices(list(kinds), weights=list(kinds.values()))
        return kind()

    def _in_consumer_group(self) -> dict[Callable[[], Step], int]:
        is_small = len(self._present) + len(self._guests) < _ENOUGH
        return {
            self._arrive: 20 if is_small else 4,
            self._beat: 30 if self._present else 0,
            self._ack: 40 if self._present else 0,
            self._subscribe: 5 if self._present else 0,
            self._leave: 5 if self._present else 1,
            self._away_or_back: 6,
            self._lost: 5 if self._present else 0,
            self._wrong: 10,
            self._commit: 8,
            self._read: 4,
            self._delete: 2,
            self._drop: 2,
            self._guest_arrives: 5 if self._present else 0,
            self._guest: 30 if self._guests else 0,
        }

    def _in_classic_group(self) -> dict[Callable[[], Step], int]:
        """Back to where this began: the classic scripts go further."""
        return {self._guest_leaves: 10, self._arrive: 10, self._guest_beats: 3, self._read: 2, self._commit: 2}

    # -- who

    def _one(self, choices: Sequence[One]) -> One:
        return self._chance.choice(choices)

    def _often(self, share: float) -> bool:
        return self._chance.random() < share

    def _someone(self) -> str:
        return self._one(self._present) if self._present else self._one(_DYNAMIC)

    def _self(self, who: str) -> dict[str, Any]:
        return {"member_id": self._ids[who]} if who in self._ids else {}

    # -- what members say

    def _arrive(self) -> Step:
        who = self._one(_DYNAMIC + _STATIC)
        return self._arrival(who, self._one(_TOPICS))

    def _arrival(self, who: str, topics: Sequence[str]) -> Step:
        more: dict[str, Any] = {"rack_id": self._one([None, "r1"]), "server_assignor": self._one([None, None, "range"])}
        return arrive(who, v=self._one([0, 1, 1]), names=topics, **self._self(who), **more)

    def _beat(self) -> Step:
        who = self._someone()
        return beat(who, **self._self(who))

    def _ack(self) -> Step:
        who = self._someone()
        return ack(who, **self._self(who))

    def _subscribe(self) -> Step:
        who = self._someone()
        owned = self._one([None, "held"])
        return beat(who, names=self._one(_TOPICS), owned=owned, **self._self(who))

    def _leave(self) -> Step:
        who = self._someone()
        if self._often(0.3):
            return leave(
                "o", self._one([3, 4, 5]), members=[(self._self(who).get("member_id", who), None), ("nobody", None)]
            )
        return depart(who, **self._self(who))

    def _away_or_back(self) -> Step:
        if self._away and self._often(0.7):
            who = self._one(sorted(self._away))
            if self._often(0.8):
                self._ids[who] = _NEXT_ID[self._ids[who]]
            return self._arrival(who, self._one(_TOPICS[:4]))
        who = self._one(_STATIC)
        return away(who, **self._self(who))

    def _lost(self) -> Step:
        """The answer before was lost, or this is an old request."""
        who = self._someone()
        owned = self._one([None, {}, Held(who), Held(who, 1), {"t": [0, 1, 2, 3]}])
        return beat(who, epoch=Epoch(who, self._one([-1, -1, 0, 1])), owned=owned, **self._self(who))

    def _drop(self) -> Step:
        return Drop(self._someone())

    # -- classic members

    def _guest_arrives(self) -> Step:
        return self._guest_joins(self._one(_CLASSIC + _DYNAMIC))

    def _guest_joins(self, who: str) -> Step:
        owned = self._one([None, Held(who), Held(who)])
        topics = self._one([("t",), ("t",), ("t", "u")])
        return guest(who, *topics, v=self._one([5, 9]), instance=None, owned=owned, version=self._one([1, 3]))

    def _guest(self) -> Step:
        who = self._one(self._guests)
        return self._one(
            [self._guest_joins, self._guest_joins, self._guest_syncs, self._guest_syncs, self._guest_beats]
        )(who)

    def _guest_syncs(self, who: str) -> Step:
        return guest_sync(who, self._one([0, 3, 5]), instance=None)

    def _guest_beats(self, who: str | None = None) -> Step:
        return guest_beat(who or self._one(self._guests), self._one([0, 4]), instance=None)

    def _guest_leaves(self) -> Step:
        who = self._one(self._guests)
        return leave(who, self._one([0, 3, 5]), member_id=who, instance=None)

    # -- offsets, and reading

    def _commit(self) -> Step:
        who = self._one([*self._present, *self._guests, "z"])
        if who == "z":
            return simple_commit("s", self._offsets())
        own = self._self(who).get("member_id", who)
        epoch = Epoch(who, self._one([0, 0, 0, -1, -2, 1]))
        return commit(who, self._offsets(), self._one([8, 9, 9, 10]), member_id=own, generation=epoch)

    def _offsets(self) -> dict[tuple[str, int], int]:
        places = self._chance.sample([("t", 0), ("t", 1), ("t", 3), ("u", 0)], self._chance.randint(1, 3))
        return {place: self._chance.randint(0, 99) for place in places}

    def _read(self) -> Step:
        who = self._someone()
        own = self._self(who).get("member_id", who)
        reads: list[Ask] = [
            fetch(who, {"t": [0, 1]}, self._one([9, 10]), member_id=own, epoch=Epoch(who, self._one([0, 0, -1, 1]))),
            fetch("o"),
            look(v=self._one([0, 1])),
            describe("o", self._one([5, 6])),
            list_groups("o"),
        ]
        return self._one(reads)

    def _delete(self) -> Step:
        return self._one([delete_offsets("o", {"t": [0], "u": [0]}), delete_groups("o")])

    # -- what they should not say

    def _wrong(self) -> Step:
        who = self._someone()
        own = self._self(who)
        wrong: list[Ask] = [
            beat(who, epoch=-3, **own),
            beat(who, epoch=Epoch(who, self._one([-2, 2])), **own),
            beat("z", epoch=3),
            beat(who, instance=self._one(["P", "Q", "Z"]), **own),
            beat(who, server_assignor="nope", **own),
            beat(who, owned={"t": [0, 9]}, **own),
            beat(who, epoch=0, **own),
            beat(who, epoch=0, owned={}, rebalance_timeout_ms=9000, **own),
            arrive(who, owned={"t": [0]}, **own),
            depart("z"),
            away(who, **own),
            depart(self._one(_STATIC), member_id="nobody"),
            guest_beat("z", generation=3),
            join("z", member_id="z", protocol_type="connect"),
            leave("o", members=[("", self._one("PQZ"))]),
        ]
        return self._one(wrong)
