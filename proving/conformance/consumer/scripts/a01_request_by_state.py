"""Every request against a group in every state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proving.conformance.consumer.scripts.groups import STATES
from proving.conformance.consumer.steps import (
    arrive,
    away,
    beat,
    depart,
    guest,
    guest_beat,
    guest_sync,
    look,
)
from proving.conformance.scripts.groups import Section
from proving.conformance.steps import (
    Ask,
    Script,
    commit,
    delete_groups,
    delete_offsets,
    describe,
    fetch,
    find,
    join,
    leave,
    list_groups,
    simple_commit,
)

_SECTION = Section("A3 requests by state", "consumer")

_ASKED: Mapping[str, Ask] = {
    "a newcomer": arrive("n"),
    "a newcomer without topics": arrive("n", names=[]),
    "a static newcomer": arrive("N"),
    "a stranger's heartbeat": beat("n", epoch=5),
    "a static stranger's heartbeat": beat("N", epoch=5),
    "a stranger leaves": depart("n"),
    "a static stranger leaves for a while": away("N"),
    "ConsumerGroupDescribe": look(operations=True),
    "ConsumerGroupDescribe v0": look(v=0),
    "DescribeGroups": describe("o", operations=True),
    "DescribeGroups v5": describe("o", 5),
    "ListGroups": list_groups("o"),
    "ListGroups of type consumer": list_groups("o", types=["CONSUMER"]),
    "ListGroups of type classic": list_groups("o", types=["classic"]),
    "a classic newcomer": guest("n"),
    "a classic newcomer without an id": join("n", member_id=""),
    "a classic stranger's heartbeat": guest_beat("n", generation=3),
    "a classic stranger's sync": guest_sync("n", generation=3),
    "a classic stranger leaves": leave("n", member_id="n"),
    "a stranger's commit": commit("n", member_id="n", generation=3),
    "a stranger's commit v8": commit("n", member_id="n", generation=3, v=8),
    "a commit from outside": simple_commit("n"),
    "OffsetFetch": fetch("o", {"t": [0, 1]}),
    "a stranger's OffsetFetch": fetch("n", {"t": [0]}, member_id="n", epoch=3),
    "OffsetDelete": delete_offsets("o", {"t": [0], "u": [0]}),
    "DeleteGroups": delete_groups("o"),
    "FindCoordinator": find("o"),
}

# Refused, but Kafka has replaced the group in its memory, and shows that with the next write to the partition.
_BY_CHANCE = ("an Empty group", "a classic newcomer")


def scripts() -> Iterator[Script]:
    for state, steps in STATES.items():
        for request, ask in _ASKED.items():
            if (state, request) != _BY_CHANCE:
                yield _SECTION.script(f"{request}, {state}", *steps, ask, *_after(ask))


def _after(ask: Ask) -> list[Ask]:
    """The next heartbeat of who was there, if the request may have changed something for it."""
    return [beat("a")] if ask.who == "n" else []
