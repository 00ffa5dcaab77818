"""What members of `consumer` groups say. "a" is a dynamic member with the id "a"; "P" a static one with the id "p".

A member id of one letter falls into Kafka's hash maps in the order of the alphabet, so that assignors which follow the
order of a map choose alike on both brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from equipoise.wire.consumer_protocol import Assignment, encode_assignment
from proving.conformance.consumer.values import Claim, Epoch, Held, Partitions, Parts, Topic
from proving.conformance.scripts.groups import completing
from proving.conformance.steps import AUTO, OWN, SESSION_MS, Ask, GroupId, Id, Step, join, sync
from proving.conformance.steps import heartbeat as classic_heartbeat

HELD = "held"
LEAVE, AWAY = -1, -2
GROUP_RESOURCE = 32
SET, DELETE = 0, 1


def _owned(who: str, owned: str | Partitions | Held | None) -> Any:
    if owned == HELD:
        return Held(who)
    return Parts(owned) if isinstance(owned, Mapping) else owned


def _instance(who: str, instance: str | None) -> str | None:
    return (who if who.isupper() else None) if instance == AUTO else instance


def beat(
    who: str,
    *topics: str | Topic,
    v: int = 1,
    member_id: str | Id | None = None,
    epoch: int | Epoch | None = None,
    instance: str | None = AUTO,
    owned: str | Partitions | Held | None = None,
    names: Sequence[str | Topic] | None = None,
    group: str | GroupId = OWN,
    **fields: Any,
) -> Ask:
    """Nothing but who and which epoch, unless it is given: `topics` (or `names`, which may be empty), `owned`."""
    return Ask(
        who,
        "ConsumerGroupHeartbeat",
        v,
        {
            "group_id": group,
            "member_id": who.lower() if member_id is None else member_id,
            "member_epoch": Epoch(who) if epoch is None else epoch,
            "instance_id": _instance(who, instance),
            "subscribed_topic_names": list(topics or names or []) if topics or names is not None else None,
            "topic_partitions": _owned(who, owned),
            **fields,
        },
    )


def arrive(who: str, *topics: str | Topic, rebalance: int = SESSION_MS, **more: Any) -> Ask:
    """A first heartbeat: epoch 0, everything said."""
    more = {"epoch": 0, "owned": {}, "rebalance_timeout_ms": rebalance, **more}
    names = more.pop("names", topics or (() if "subscribed_topic_regex" in more else ("t",)))
    return beat(who, names=names, **more)


def ack(who: str, **more: Any) -> Ask:
    """It holds what it was last told, and no more."""
    return beat(who, owned=HELD, **more)


def depart(who: str, **more: Any) -> Ask:
    return beat(who, epoch=LEAVE, **more)


def away(who: str, **more: Any) -> Ask:
    """A static member that will be back."""
    return beat(who, epoch=AWAY, **more)


def look(who: str = "o", v: int = 1, *, groups: Sequence[str | GroupId] = (OWN,), operations: bool = False) -> Ask:
    fields = {"group_ids": list(groups), "include_authorized_operations": operations}
    return Ask(who, "ConsumerGroupDescribe", v, fields)


# -- groups of several members, to begin a script with


def settled(*members: str, topics: Sequence[str | Topic] = ("t",), **more: Any) -> list[Step]:
    """All are there and hold their targets."""
    steps: list[Step] = []
    for count, who in enumerate(members):
        steps.append(arrive(who, *topics, **more))
        steps += [step for other in members[:count] for step in (beat(other), ack(other))]
        steps += [beat(other) for other in members[: count + 1]]
    return steps


# -- classic members


def guest(who: str, *topics: str, v: int = 9, owned: Partitions | Held | None = None, **more: Any) -> Ask:
    """JoinGroup of a classic member with a cooperative assignor, under an id of its own."""
    version, generation = more.pop("version", 3), more.pop("generation", -1)
    name = more.pop("name", "range")
    claim = Claim(topics or ("t",), owned, version, generation)
    more.setdefault("member_id", who.lower())
    return join(who, v, protocols=((name, claim),), **more)


def guest_sync(who: str, v: int = 5, **more: Any) -> Ask:
    more.setdefault("member_id", who.lower())
    return sync(who, v, **{"generation": Epoch(who), **more})


def guest_beat(who: str, v: int = 4, **more: Any) -> Ask:
    more.setdefault("member_id", who.lower())
    return classic_heartbeat(who, v, **{"generation": Epoch(who), **more})


# -- configs of groups


def alter(configs: Mapping[str, str | None], *, group: str | GroupId = OWN, validate: bool = False, v: int = 1) -> Ask:
    """None deletes."""
    rows = [
        {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
        for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": rows}
    return Ask("o", "IncrementalAlterConfigs", v, {"resources": [resource], "validate_only": validate})


def configs(keys: Sequence[str] | None = None, *, group: str | GroupId = OWN, v: int = 4, synonyms: bool = True) -> Ask:
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configuration_keys": keys}
    return Ask("o", "DescribeConfigs", v, {"resources": [resource], "include_synonyms": synonyms})


# -- classic groups, to be converted


def led(leader: str, shares: Mapping[str, Partitions], *, user_data: bytes | None = None, version: int = 3) -> Ask:
    """SyncGroup of the leader, with assignments that can be read."""
    assignments = {
        who: encode_assignment(Assignment(assigned_partitions=dict(parts), user_data=user_data), version)
        for who, parts in shares.items()
    }
    rows = [{"member_id": Id(who), "assignment": data} for who, data in assignments.items()]
    ask = sync(leader)
    return replace(ask, fields={**ask.fields, "assignments": rows})


def classic(*members: str, **more: Any) -> list[Step]:
    """A classic group whose members share the four partitions of t. The first leads."""
    ranges = {1: [[0, 1, 2, 3]], 2: [[0, 1], [2, 3]], 3: [[0, 1], [2], [3]]}[len(members)]
    shares = {who: {"t": parts} for who, parts in zip(members, ranges, strict=True)}
    return [*completing(*members, **more), *(sync(who) for who in members[1:]), led(members[0], shares)]


def old(who: str) -> dict[str, Any]:
    """A classic member under the id that it was given."""
    return {"member_id": Id(who)}
