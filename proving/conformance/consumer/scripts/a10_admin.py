"""E8: describing, listing and configuring groups; versions."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import ONE, REVOKING, STATES, TWO
from proving.conformance.consumer.steps import alter, arrive, beat, configs, depart, guest, look
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import Ask, GroupId, Persist, Script, delete_groups, describe, find, list_groups

_ADMIN = Section("A18 describing", "consumer")
_CONFIGS = Section("A19 configs of groups", "consumer")
_VERSIONS = Section("A1 versions", "consumer")
_HEARTBEAT, _SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
_INTERVAL = "consumer.assignment.interval.ms"
_OTHER = GroupId("h")
_KEYS = [_HEARTBEAT, _SESSION, _INTERVAL]

_TABLE: Table = {
    "several groups": [
        *ONE,
        look(groups=[GroupId("g"), "no such group", GroupId("h")]),
        arrive("b", group=_OTHER),
        look(groups=[_OTHER, GroupId("g")]),
    ],
    "no group": [look(groups=[])],
    "the group without a name": [look(groups=[""]), look(v=0, groups=[""])],
    "partitions that are given up": [*REVOKING, look(), look(v=0)],
    "a classic member": [*ONE, guest("c"), look(), look(v=0)],
    "DescribeGroups of both kinds": [
        *ONE,
        describe("o", groups=[GroupId("g"), "no such group"]),
        describe("o", 5, groups=[GroupId("g"), "no such group"]),
    ],
    "states and types": [
        *TWO,
        list_groups("o", states=["STABLE"], types=["consumer"]),
        list_groups("o", types=["Classic", "CONSUMER"]),
        list_groups("o", types=["nonsense"]),
        list_groups("o", types=["share"]),
        list_groups("o", types=[""]),
        list_groups("o", states=["Empty"], types=["consumer"]),
    ],
    "states while it reconciles": [
        *REVOKING,
        list_groups("o", states=["reconciling"]),
        list_groups("o", states=["Assigning", " Reconciling "]),
        depart("b"),
        list_groups("o", states=["assigning"]),
        list_groups("o", states=["Stable"]),
    ],
    "FindCoordinator": [*ONE, find("o")],
    "DeleteGroups of several": [
        *ONE,
        arrive("b", group=_OTHER),
        depart("b", group=_OTHER),
        delete_groups("o", groups=[GroupId("g"), _OTHER, "no such group"]),
    ],
}

_ALTERED: Table = {
    "the interval": [
        *ONE,
        alter({_HEARTBEAT: "7000"}),
        Persist(beat("a"), interval_ms=7000),
        configs(_KEYS),
        alter({_HEARTBEAT: None}),
        Persist(beat("a"), interval_ms=5000),
        configs(_KEYS),
    ],
    "before the group is there": [alter({_HEARTBEAT: "9000"}), Persist(arrive("a"), interval_ms=9000), configs(_KEYS)],
    "the session": [*ONE, alter({_SESSION: "50000"}), beat("a"), configs([_SESSION])],
    "the assignment interval": [
        *ONE,
        alter({_INTERVAL: "15000", _HEARTBEAT: "7000"}),
        Persist(beat("a"), interval_ms=7000),
        arrive("b"),
        configs([_INTERVAL]),
        alter({_INTERVAL: "0", _HEARTBEAT: None}),
        Persist(beat("b"), interval_ms=5000),
        look(),
    ],
    "only to see": [alter({_HEARTBEAT: "7000"}, validate=True), configs([_HEARTBEAT])],
    "two at once": [alter({_HEARTBEAT: "7000", _SESSION: "46000"}), configs(_KEYS)],
    "one good, one bad": [alter({_HEARTBEAT: "7000", "nonsense": "1"}), configs([_HEARTBEAT])],
    "the group without a name": [alter({_HEARTBEAT: "7000"}, group="")],
    "what was never set is taken back": [alter({_HEARTBEAT: None}), configs([_HEARTBEAT])],
    "of a deleted group": [alter({_HEARTBEAT: "7000"}), *ONE, depart("a"), delete_groups("o"), configs([_HEARTBEAT])],
    "a key that nobody knows is asked for": [configs(["nonsense"]), configs([])],
    "without synonyms": [alter({_HEARTBEAT: "7000"}), configs([_HEARTBEAT], synonyms=False)],
}
_BAD = {
    _HEARTBEAT: ("0", "-1", "4999", "15001", "x", "", "99999999999"),
    _SESSION: ("0", "44999", "1800001", "x", "5000"),
    _INTERVAL: ("-1", "15001", "x"),
    "consumer.nonsense": ("1",),
    "group.consumer.session.timeout.ms": ("50000",),
}


def scripts() -> Iterator[Script]:
    yield from _ADMIN.scripts(_TABLE)
    for name, state in STATES.items():
        yield _ADMIN.script(
            f"all that is told of {name}",
            *state,
            look(operations=True),
            look(v=0),
            describe("o"),
            list_groups("o"),
            list_groups("o", 3),
        )
    yield from _CONFIGS.scripts(_ALTERED)
    for key, values in _BAD.items():
        for value in values:
            yield _CONFIGS.script(f"{key}={value!r}", alter({key: value}), configs(_KEYS))
    for v in range(1, 5):
        yield _CONFIGS.script(f"DescribeConfigs v{v}", alter({_HEARTBEAT: "7000"}, v=v % 2), configs([_HEARTBEAT], v=v))
    for api, ask in {"ConsumerGroupHeartbeat": arrive("a"), "ConsumerGroupDescribe": look("a")}.items():
        for v in (0, 1, 2, 99):
            yield _VERSIONS.script(f"{api} v{v}", Ask(ask.who, api, v, ask.fields), beat("a"))
