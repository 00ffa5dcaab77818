"""Scripts drawn by chance: what clients do, and what they should not do, mixed. One seed, one script.

Each step is chosen with an eye on what Kafka has just answered, so that groups get somewhere: in a join phase
members come back, in a sync phase they sync. What is compared does not depend on who is faster, because no step
begins before it is certain what came of the last one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from proving.conformance.listed import PARKED
from proving.conformance.scripts.groups import assigned
from proving.conformance.side import Moment
from proving.conformance.steps import (
    Ask,
    Drop,
    Generation,
    Id,
    Protocol,
    Step,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    fetch,
    find,
    heartbeat,
    join,
    leave,
    list_groups,
    simple_commit,
    subscription,
    sync,
)

LENGTH = 40
_CLIENTS = "abcDE"  # capitals: static
_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
_BYTES = (subscription("t"), subscription("t", "u"), subscription("u"), b"?")
_FIRST_STATIC = 5
_FEW_MEMBERS = 4

Member = tuple[str, int]  # "a", 2: the second id that begins with "a"


class Drawing:
    """One script on its way."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._protocols: dict[str, Sequence[Protocol]] = {}
        self._members: list[Member] = []
        self._state = "Dead"
        self._leader: Member | None = None
        self._parked: set[Member] = set()
        self._chosen = "range"
        self._told: set[Member] = set()  # ids that were told, and not used
        self._asked: list[Member] = []  # by request

    def look(self, moment: Moment) -> None:
        """At what Kafka has answered."""
        group = moment["g"]
        self._state = group["group_state"]
        self._members = [_member(row["member_id"]) for row in group["members"]]
        self._parked = {self._asked[int(key.split()[0]) - 1] for key, one in moment.items() if one == PARKED}
        for key, one in moment.items():
            if " JoinGroup " in key and isinstance(one, dict):
                self._learn(one)
        self._told -= set(self._members)

    def _learn(self, joined: dict[str, Any]) -> None:
        if joined["error_code"] == "NONE":
            self._leader, self._chosen = _member(joined["leader"]), joined["protocol_name"]
        elif joined["error_code"] == "MEMBER_ID_REQUIRED":
            self._told.add(_member(joined["member_id"]))

    def draw(self) -> Step:
        kinds = self._kinds()
        (kind,) = self._chance.choices(list(kinds), weights=list(kinds.values()))
        step = kind()
        if isinstance(step, Ask):
            self._asked.append(self._speaker(step))
        return step

    def _speaker(self, ask: Ask) -> Member:
        """For whom a request is. A member that was not told its id yet is the newest that begins with its name."""
        named = ask.fields.get("member_id")
        if isinstance(named, Id) and named.nth:
            return named.prefix, named.nth
        return max((one for one in self._members if one[0] == ask.who), default=(ask.who, 1))

    def _kinds(self) -> dict[Callable[[], Step], int]:
        in_state = {
            "PreparingRebalance": {self._rejoin: 60, self._heartbeat: 6, self._join: 3, self._leave: 12},
            "CompletingRebalance": {self._sync: 60, self._rejoin: 5, self._join: 5},
            "Stable": {self._rejoin: 12, self._commit: 15, self._heartbeat: 8},
        }.get(self._state, {})
        return {
            self._join: 20 if len(self._members) < _FEW_MEMBERS else 3,
            self._come_back: 40 if self._told else 0,
            self._leave: 6 if self._members else 1,
            self._wrong: 12,
            self._commit: 5,
            self._simple_commit: 3,
            self._sync: 4,
            self._read: 4,
            self._delete: 2,
            self._drop: 2,
            **in_state,
        }

    # -- who, and in which version

    def _one(self, choices: Sequence[Any]) -> Any:
        return self._chance.choice(choices)

    def _version(self, first: int, last: int) -> int:
        """The newest half of the time."""
        return last if self._chance.random() < 0.5 else self._chance.randint(first, last)

    def _some_member(self) -> Member:
        return self._one(self._members) if self._members else (self._one(_CLIENTS), 0)

    def _quiet_member(self) -> Member:
        """One that has nothing parked, if there is one."""
        quiet = [one for one in self._members if one not in self._parked]
        return self._one(quiet) if quiet and self._chance.random() < 0.95 else self._some_member()

    # -- what clients do

    def _join(self) -> Step:
        return self._new(self._one(_CLIENTS))

    def _new(self, who: str) -> Step:
        self._protocols[who] = self._some_protocols()
        return join(who, self._join_version(who), member_id="", protocols=self._protocols[who])

    def _join_version(self, who: str) -> int:
        return self._version(_FIRST_STATIC if who.isupper() else 0, 9)

    def _come_back(self) -> Step:
        """With an id that was told; or not."""
        who, nth = self._one(sorted(self._told))
        self._told.discard((who, nth))
        if self._chance.random() < 0.1:
            return leave(who, self._version(0, 5), member_id=Id(who, nth))
        return join(who, self._version(3, 9), member_id=Id(who, nth), protocols=self._protocols.get(who, ("range",)))

    def _some_protocols(self) -> Sequence[Protocol]:
        if self._chance.random() < 0.6:
            return ("range",)
        names = self._chance.sample(_NAMES, self._chance.randint(1, len(_NAMES)))
        return tuple((name, self._one(_BYTES)) for name in {"range": 0, **dict.fromkeys(names)})

    def _rejoin(self) -> Step:
        who, nth = self._quiet_member()
        if self._chance.random() < 0.3:
            self._protocols[who] = self._some_protocols()
        protocols = self._protocols.get(who, ("range",))
        return join(who, self._join_version(who), member_id=Id(who, nth), protocols=protocols)

    def _sync(self) -> Step:
        is_leader = self._leader in self._members and self._chance.random() < 0.5
        who, nth = self._leader if is_leader and self._leader else self._quiet_member()
        shares = assigned(*{prefix for prefix, _ in self._members}) if is_leader else {}
        version = self._version(0, 5)
        name = self._one(_NAMES) if self._chance.random() < 0.1 else self._chosen
        return sync(who, version, member_id=Id(who, nth), assign=shares, protocol_name=name)

    def _heartbeat(self) -> Step:
        who, nth = self._some_member()
        return heartbeat(who, self._version(0, 4), member_id=Id(who, nth))

    def _leave(self) -> Step:
        who, nth = self._quiet_member()
        return leave(who, self._version(0, 5), member_id=Id(who, nth))

    def _commit(self) -> Step:
        who, nth = self._some_member()
        return commit(who, self._offsets(), self._version(2, 10), member_id=Id(who, nth))

    def _offsets(self) -> dict[tuple[str, int], int]:
        places = self._chance.sample([("t", 0), ("t", 1), ("u", 0), ("u", 7), ("none", 0)], self._chance.randint(1, 3))
        return {place: self._chance.randint(-1, 99) for place in places}

    def _simple_commit(self) -> Step:
        return simple_commit("s", self._offsets(), self._version(2, 10))

    def _read(self) -> Step:
        reads: list[Step] = [
            fetch("o", {"t": [0, 1], "u": [0, 7]}, self._version(1, 10)),
            fetch("o", v=self._version(2, 10), stable=True),
            describe("o", self._version(0, 6), operations=True),
            list_groups("o", self._version(0, 5)),
            find("o", self._version(0, 6)),
        ]
        return self._chance.choice(reads)

    def _delete(self) -> Step:
        offsets, group = delete_offsets("o", {"t": [0, 1], "u": [0]}), delete_groups("o", self._version(0, 2))
        return self._chance.choice([offsets, group])

    def _drop(self) -> Step:
        return Drop(self._one(_CLIENTS))

    # -- what they should not do

    def _wrong(self) -> Step:
        who, nth = self._some_member()
        other, _ = self._some_member()
        own = Id(who, nth)
        wrong: list[Ask] = [
            heartbeat(who, self._version(0, 4), member_id=own, generation=self._other_generation()),
            heartbeat(who, self._version(3, 4), member_id=own, instance=self._one("DEX")),
            sync(who, self._version(0, 4), member_id=own, generation=self._other_generation()),
            sync(who, 5, member_id=own, protocol_type=self._one(["connect", None])),
            sync(who, self._version(3, 5), member_id=Id(other), instance=self._one("DEX")),
            commit(who, v=self._version(2, 10), member_id=own, generation=self._other_generation()),
            commit(who, v=self._version(7, 10), member_id=own, instance=self._one("DEX")),
            join(who, self._version(0, 9), member_id="nobody"),
            join(who, self._version(5, 9), member_id=own, instance=self._one("DEX")),
            join(who, self._version(0, 9), member_id=own, session=5999),
            join(who, self._version(0, 9), member_id=own, protocols=self._one([(), ("unheard-of",)])),
            join(who, self._version(0, 9), member_id=own, protocol_type="connect"),
            leave("o", self._version(3, 5), members=[("", self._one("DEX")), (own, None), ("nobody", None)]),
            leave("o", self._version(3, 5), members=[(own, self._one("DEX"))]),
            heartbeat("z", self._version(0, 4), member_id="nobody"),
        ]
        return self._chance.choice(wrong)

    def _other_generation(self) -> Generation:
        return Generation(self._one([-2, -1, 1]))


def _member(name: str) -> Member:
    prefix, _, nth = name.rpartition("#")
    return prefix, int(nth)
