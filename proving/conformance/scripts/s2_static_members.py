"""2.10: static members. Replacement in every state, fencing, and what survives."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import OTHER, Section, Table, assigned, completing, enter, stable, synced
from proving.conformance.steps import (
    Id,
    Script,
    commit,
    delete_offsets,
    describe,
    heartbeat,
    join,
    leave,
    subscription,
    sync,
)

_SECTION = Section("2.10 static members")
_script, _scripts = _SECTION.script, _SECTION.scripts

_STATIC_VERSIONS = range(5, 10)


def scripts() -> Iterator[Script]:
    for v in _STATIC_VERSIONS:
        yield from _in_version(v)
    yield from _fenced()
    yield from _protocol_changes()


def _in_version(v: int) -> Iterator[Script]:
    back = join("A", v, member_id="")
    yield _script(
        f"a lone leader is back, v{v}",
        *stable("A"),
        back,
        sync("A", assign=assigned("A")),
        heartbeat("A"),
        describe("o"),
    )
    yield _script(
        f"the leader is back, v{v}",
        *stable("A", "B"),
        back,
        sync("A"),
        heartbeat("B"),
        join("B"),
        join("A"),
        join("B", protocols=OTHER),
        join("A"),
    )
    yield _script(f"a follower is back, v{v}", *stable("A", "B"), join("B", v, member_id=""), sync("B"), heartbeat("A"))
    yield _script(
        f"it is back with other bytes, v{v}",
        *stable("A", "B"),
        join("B", v, member_id="", protocols=OTHER),
        describe("o"),
        heartbeat("A"),
    )
    yield _script(
        f"back in CompletingRebalance, v{v}", *completing("A", "B"), sync("B"), back, heartbeat("B"), join("B")
    )
    yield _script(
        f"back in PreparingRebalance, v{v}", *stable("A", "B"), join("B", protocols=OTHER), back, heartbeat("B")
    )
    yield _script(
        f"back while its join is parked, v{v}",
        *stable("A", "B"),
        join("B", protocols=OTHER),
        join("B", v, member_id=""),
        join("A"),
    )
    yield _script(
        f"back while its sync is parked, v{v}", *completing("A", "B"), sync("B"), join("B", v, member_id=""), join("A")
    )
    yield _script(
        f"back twice, v{v}",
        *stable("A", "b"),
        back,
        back,
        heartbeat("A", member_id=Id("A", 2)),
        heartbeat("A"),
        heartbeat("b"),
    )
    yield _script(
        f"a dynamic member leads, v{v}", *stable("a", "B"), join("B", v, member_id=""), sync("B"), join("a"), join("B")
    )
    yield _script(
        f"it leaves and comes again, v{v}", *stable("A", "b"), leave("A"), join("b"), back, join("b"), describe("o")
    )


_FENCED: Table = {
    "an instance in the place of a dynamic member": [
        *stable("a", "b"),
        heartbeat("a", instance="A", member_id=Id("a")),
        join("a", instance="A", member_id=Id("a")),
    ],
    "a static member as a dynamic one": [
        *stable("A", "b"),
        heartbeat("A", instance=None, member_id=Id("A")),
        join("A", instance=None, member_id=Id("A")),
        join("b"),
    ],
}


def _fenced() -> Iterator[Script]:
    old = Id("A", 1)
    replaced = [*stable("A", "b"), join("A", member_id="")]
    for name, ask in {
        "JoinGroup": join("A", member_id=old),
        "SyncGroup": sync("A", member_id=old),
        "Heartbeat": heartbeat("A", member_id=old),
        "OffsetCommit": commit("A", member_id=old),
        "LeaveGroup": leave("A", member_id=old),
    }.items():
        yield _script(f"{name} of the old incarnation", *replaced, ask, heartbeat("A"), heartbeat("b"))
    for name, ask in {
        "JoinGroup": join("A", member_id=old, instance=None),
        "SyncGroup": sync("A", member_id=old, instance=None),
        "Heartbeat": heartbeat("A", member_id=old, instance=None),
        "OffsetCommit": commit("A", member_id=old, instance=None),
        "LeaveGroup": leave("A", member_id=old, instance=None),
    }.items():
        yield _script(
            f"{name} of the old incarnation without its instance", *replaced, ask, heartbeat("A"), heartbeat("b")
        )
    for name, ask in {
        "Heartbeat v2": heartbeat("A", 2),
        "OffsetCommit v6": commit("A", v=6),
        "SyncGroup v2": sync("A", 2),
        "LeaveGroup v2": leave("A", 2),
        "JoinGroup v4": join("A", 4),
    }.items():
        yield _script(
            f"{name} of the new incarnation, which names no instance", *replaced, ask, heartbeat("A"), heartbeat("b")
        )
    yield from _scripts(_FENCED)


_BOTH, _TURNED = ("range", "sticky"), ("sticky", "range")
_PROTOCOL_CHANGES: Table = {
    "back, and the choice changes": [
        *stable("A", protocols=_BOTH),
        join("A", member_id="", protocols=_TURNED),
        sync("A", protocol_name="sticky", assign=assigned("A")),
    ],
    "back, and the choice stays": [
        *stable("A", "B", protocols=_BOTH),
        join("B", member_id="", protocols=_BOTH),
        sync("B"),
    ],
    "back without a common protocol": [
        *stable("A", "B"),
        join("B", member_id="", protocols=("sticky",)),
        heartbeat("B"),
        heartbeat("A"),
    ],
    "alone and with another protocol": [*stable("A"), join("A", member_id="", protocols=("sticky",)), heartbeat("A")],
    "alone and with another type": [*stable("A"), join("A", member_id="", protocol_type="connect"), heartbeat("A")],
    "new static members join one by one": [
        *enter("A"),
        *enter("B"),
        join("A"),
        *enter("C"),
        join("A"),
        join("B"),
        *synced("A", "B", "C"),
    ],
    "timeouts of the new incarnation": [
        *stable("A", "b"),
        join("A", member_id="", session=7000, rebalance=8000),
        describe("o"),
        heartbeat("A"),
    ],
}


def _protocol_changes() -> Iterator[Script]:
    narrow, wide = (("range", subscription("t")),), (("range", subscription("t", "u")),)
    for name, before, after in (("fewer", wide, narrow), ("more", narrow, wide)):
        asked = delete_offsets("o", {"t": [0], "u": [0]})
        back = join("A", member_id="", protocols=after)
        yield _script(f"back with {name} topics", *stable("A", protocols=before), back, asked, join("A"), asked)
    yield from _scripts(_PROTOCOL_CHANGES)
