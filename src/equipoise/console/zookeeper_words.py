"""A ZooKeeper group in words, and as JSON."""

from __future__ import annotations

import json
import time
from typing import Any

from equipoise.console.tables import counted, print_table
from equipoise.wire.text import printable
from equipoise.zookeeper.explain import UnownedPartition, ZooKeeperGroupView, ZooKeeperMemberView

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def print_words(view: ZooKeeperGroupView) -> None:
    """Tables of members and owners for people, and a sentence for each finding."""
    total = len(view.owned) + len(view.unowned)
    counts = f"{counted(len(view.members), 'member')}, {counted(total, 'partition')}"
    print(f"group {printable(view.group)}: {counts}, {len(view.unowned)} without an owner")
    if view.members:
        print()
        rows = [
            (one.consumer_id, one.streams, _strategy(one), len(one.claimed), len(one.owned), _ago(one.joined_ms))
            for one in view.members
        ]
        print_table(("member", "streams", "strategy", "claims", "owns", "joined"), rows)
    if view.owned:
        print()
        owners = [
            (str(one.partition), one.thread, _ago(one.since_ms), "" if one.offset is None else str(one.offset))
            for one in view.owned
        ]
        print_table(("partition", "owner", "since", "offset"), owners)
    for line in findings(view):
        print(f"\n{printable(line)}")


def findings(view: ZooKeeperGroupView) -> list[str]:
    """The problems of the group, each with its consequence."""
    lines = [f"{one.partition} has no owner: {_last_sign(one)}." for one in view.unowned]
    lines += [
        f"{partition} is claimed by {' and '.join(who)}: who comes second gets none of its partitions."
        for partition, who in view.claimed_twice.items()
    ]
    lines += [
        f"{one.partition} is owned by {one.thread}, which is no member: it is free when that session ends, or when "
        "the node is deleted."
        for one in view.owned
        if not one.is_member
    ]
    if len(view.strategies) > 1:
        names = ", ".join(sorted(map(str, view.strategies)))
        lines.append(
            f"The members share by different strategies ({names}): give all the same. Until then partitions stay "
            "unread, and nobody has an error."
        )
    lines += [
        f"{one.consumer_id} owns what no strategy gives it: it is rebalancing, or has lost a conflict."
        for one in view.members
        if one.strategy is None
    ]
    return lines


def print_json(view: ZooKeeperGroupView) -> None:
    """The same as one document; partitions are text, "topic-number"."""
    document: dict[str, Any] = {
        "schema": "equipoise.zookeeper-group/1",
        "group": view.group,
        "members": [
            {
                "consumer_id": one.consumer_id,
                "streams": one.streams,
                "strategy": None if one.strategy is None else str(one.strategy),
                "tells_strategy": one.tells,
                "claimed": sorted(map(str, one.claimed)),
                "owned": sorted(map(str, one.owned)),
                "joined_ms": one.joined_ms,
            }
            for one in view.members
        ],
        "owned": [one._asdict() | {"partition": str(one.partition)} for one in view.owned],
        "unowned": [one._asdict() | {"partition": str(one.partition)} for one in view.unowned],
        "claimed_twice": {str(partition): who for partition, who in view.claimed_twice.items()},
        "findings": findings(view),
    }
    print(json.dumps(document, indent=2))


def _strategy(member: ZooKeeperMemberView) -> str:
    if member.strategy is None:
        return "not told"
    return str(member.strategy) if member.tells else f"not told; as by {member.strategy}"


def _last_sign(unowned: UnownedPartition) -> str:
    return unowned.sign if unowned.since_ms is None else f"{unowned.sign} {_ago(unowned.since_ms)}"


def _ago(when_ms: int) -> str:
    passed = max(0, time.time_ns() // 1_000_000 - when_ms)
    for size, unit in _UNITS:
        if passed >= size:
            return f"{passed // size} {unit} ago"
    return "now"
