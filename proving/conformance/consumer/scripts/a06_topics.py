"""E5: topics come, go and grow; regexes."""

from __future__ import annotations

from collections.abc import Iterator

from proving.conformance.consumer.scripts.groups import ONE, TWO
from proving.conformance.consumer.steps import ack, arrive, beat, depart, look, settled
from proving.conformance.consumer.values import Pattern, Topic
from proving.conformance.scripts.groups import Section, Table
from proving.conformance.steps import (
    AddPartitions,
    DropTopic,
    MakeTopic,
    Pause,
    Persist,
    Script,
    Step,
    UntilEpoch,
    delete_offsets,
    simple_commit,
)

_TOPICS = Section("A13 topics", "consumer")
_REGEXES = Section("A14 regexes", "consumer")
_X, _Y = Topic("x"), Topic("y")

_METADATA: Table = {
    "it is made later": [arrive("a", _X), beat("a"), MakeTopic("x"), Persist(beat("a"), 3), beat("a"), look()],
    "one of two is made later": [arrive("a", "t", _X), MakeTopic("x"), Persist(beat("a"), 3), ack("a"), look()],
    "partitions are added": [
        MakeTopic("x"),
        arrive("a", _X),
        AddPartitions("x", 5),
        Persist(beat("a"), 3),
        ack("a"),
        look(),
    ],
    "partitions are added for two": [
        MakeTopic("x"),
        *settled("a", "b", topics=(_X,)),
        AddPartitions("x", 6),
        Persist(beat("b"), 4),
        beat("a"),
        ack("a"),
        beat("b"),
        ack("b"),
        beat("a"),
        beat("b"),
        look(),
    ],
    "it is deleted": [
        MakeTopic("x"),
        arrive("a", _X),
        DropTopic("x"),
        Persist(beat("a"), 3),
        beat("a"),
        ack("a"),
        look(),
    ],
    "one of two is deleted": [
        MakeTopic("x"),
        *settled("a", "b", topics=(_X, "t")),
        DropTopic("x"),
        Persist(beat("a"), 4),
        beat("b"),
        ack("a"),
        ack("b"),
        beat("a"),
        look(),
    ],
    "it is deleted and made again": [
        MakeTopic("x"),
        arrive("a", _X),
        DropTopic("x"),
        Persist(beat("a"), 3),
        ack("a"),
        MakeTopic("x"),
        Persist(beat("a"), 4),
        ack("a"),
        look(),
    ],
    "another topic is made": [*TWO, MakeTopic("x"), beat("a"), beat("b"), look()],
    "it is made while nobody is there": [arrive("a", _X), depart("a"), MakeTopic("x"), arrive("b", _X), look()],
}

_RESOLVED: Table = {
    "it matches one": [arrive("a", subscribed_topic_regex="t"), UntilEpoch(2), beat("a"), beat("a"), look()],
    "it matches two": [arrive("a", subscribed_topic_regex="t|u"), UntilEpoch(2), beat("a"), look()],
    "it matches none": [arrive("a", subscribed_topic_regex="nothing.*"), beat("a"), look()],
    "the whole name must match": [
        MakeTopic("xy"),
        arrive("a", subscribed_topic_regex=Pattern("x{own}|xy")),
        beat("a"),
        arrive("b", subscribed_topic_regex=Pattern("x.*{own}")),
        look(),
    ],
    "a class and a repetition": [arrive("a", subscribed_topic_regex="[s-t]{1,2}"), UntilEpoch(2), beat("a")],
    "anchors": [arrive("a", subscribed_topic_regex="^t$"), UntilEpoch(2), beat("a"), look()],
    "a flag": [arrive("a", subscribed_topic_regex="(?i)T"), UntilEpoch(2), beat("a")],
    "names and a regex": [arrive("a", "u", subscribed_topic_regex="t"), UntilEpoch(3), beat("a"), look()],
    "names and a regex that match the same": [
        arrive("a", "t", subscribed_topic_regex="t"),
        UntilEpoch(3),
        beat("a"),
        look(),
    ],
    "a second member with the same": [
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        beat("a"),
        arrive("b", subscribed_topic_regex="t"),
        beat("a"),
        ack("a"),
        beat("b"),
        look(),
    ],
    "a second member with names": [
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        beat("a"),
        arrive("b", "t"),
        beat("a"),
        ack("a"),
        beat("b"),
        look(),
    ],
    "it is taken back": [
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        beat("a"),
        beat("a", subscribed_topic_regex=""),
        ack("a"),
        look(),
    ],
    "it is taken back for names": [
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        beat("a"),
        beat("a", "u", subscribed_topic_regex=""),
        ack("a"),
        look(),
    ],
    "names give way to it": [arrive("a", "u"), beat("a", names=[], subscribed_topic_regex="t"), UntilEpoch(3), look()],
    "it leaves": [arrive("a", subscribed_topic_regex="t"), UntilEpoch(2), beat("a"), depart("a"), look()],
    "one of two leaves": [
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        arrive("b", subscribed_topic_regex="t"),
        depart("a"),
        beat("b"),
        look(),
    ],
    "it is said again": [
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        beat("a", subscribed_topic_regex="t"),
        beat("a"),
        look(),
    ],
    "empty at the first heartbeat": [arrive("a", subscribed_topic_regex=""), beat("a"), look()],
    "OffsetDelete of what it matches": [
        simple_commit("s"),
        arrive("a", subscribed_topic_regex="t"),
        UntilEpoch(2),
        beat("a"),
        delete_offsets("o", {"t": [0], "u": [0]}),
    ],
    "v0 cannot say it": [arrive("a", v=0, subscribed_topic_regex="t"), beat("a"), look()],
    "a matched topic is deleted": [
        MakeTopic("x"),
        Pause(1000),  # what Kafka's coordinator has not heard of matches nothing, for 10 s
        arrive("a", subscribed_topic_regex=Pattern("x{own}")),
        UntilEpoch(2),
        beat("a"),
        DropTopic("x"),
        Persist(beat("a"), 3),
        ack("a"),
        look(),
    ],
}

_INVALID = (
    "[",
    "(",
    "a(?=b)",
    r"(a)\1",
    "*",
    "a**",
    "(?<!x)y",
    "[z-a]",
    "a{2,1}",
    "a{1001}",
    "\\",
    "(?>a)",
    r"\C",
    "(?P<n>a",
    "a++",
    "x{,5}",
)
_VALID = (
    "a|b",
    "(?:x)",
    "(?P<n>t)",
    "(?<n>t)",
    "t.*?",
    r"\Qt\E",
    r"\w",
    "[[:alpha:]]",
    r"\pL",
    "(?i:T)",
    "x{3}",
    "",
    r"\bt\b",
    r"\At\z",
    "[^u]",
    r"\x74",
)


def scripts() -> Iterator[Script]:
    yield from _TOPICS.scripts(_METADATA)
    yield from _REGEXES.scripts(_RESOLVED)
    for pattern in _INVALID:
        yield _REGEXES.script(f"invalid: {pattern}", arrive("a", subscribed_topic_regex=pattern), look())
        yield _REGEXES.script(
            f"invalid later: {pattern}", *ONE, beat("a", subscribed_topic_regex=pattern), beat("a"), look()
        )
    for pattern in _VALID:
        yield _REGEXES.script(f"valid: {pattern}", *_valid(pattern))


def _valid(pattern: str) -> list[Step]:
    """Behind a member with names: when the last heartbeat comes it is resolved."""
    return [
        arrive("b", "u"),
        arrive("a", subscribed_topic_regex=f"(t|nothing)|{pattern}" if pattern else ""),
        UntilEpoch(3 if pattern else 2),
        beat("a"),
        look(),
    ]
