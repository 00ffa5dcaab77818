"""Where we mean to differ from Kafka: one script for each row of docs/differences.md that no other script meets."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.scripts.groups import OTHER, Section, completing, stable
from proving.conformance.steps import (
    Ask,
    Script,
    delete_groups,
    describe,
    heartbeat,
    join,
    leave,
    sync,
)

_SECTION = Section("7 listed")
_script = _SECTION.script

_LONG = "x" * 40_000


def scripts() -> Iterator[Script]:
    yield _script("DeleteGroups v3", delete_groups("o", 3))
    waiting = join("b", protocols=OTHER)
    yield _script("behind a parked join: leave", *stable("a", "b"), waiting, _behind(leave("b")))
    yield _script("behind a parked join: heartbeat", *stable("a", "b"), waiting, _behind(heartbeat("b")), join("a"))
    yield _script("behind a parked sync: leave", *completing("a", "b"), sync("b"), _behind(leave("b")))
    yield _script("a parked sync of one that leaves", *completing("a", "b"), sync("b"), leave("b"))
    for what, ask in {
        "a group id": join("a", member_id="", group=_LONG),
        "an instance id": join("a", member_id="", instance=_LONG),
        "a reason": join("a", member_id="", reason=_LONG),
        "a group id to describe": describe("o", groups=[_LONG]),
    }.items():
        yield _script(f"{what} of 40,000 bytes", ask)
    yield _script("asked again", *stable("a", "b"), waiting, waiting, join("a"))


def _behind(ask: Ask) -> Ask:
    """On the connection on which the same member has a request parked."""
    return Ask(ask.who, ask.api, ask.version, ask.fields, is_behind=True)
