"""Access rules beside a brute-force oracle, and beside Kafka's own StandardAuthorizer."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.security.acls import Acl, AclFilter, AclOperation, PatternType, ResourceType
from proving.fetched import jars, java
from tests.security.acl_sets import (
    ALLOW,
    DENY,
    GROUP,
    HERE,
    LITERAL,
    PREFIXED,
    TOPIC,
    acl,
    acls,
    authorizer_of,
    questions,
)

Question = tuple[str, str, AclOperation, ResourceType, str]
JAVA = Path(__file__).with_name("JavaAuthorizer.java")
DESCRIBES = {3, 4, 6, 7, 8}


def oracle(rules: Iterable[Acl], everyone: bool, question: Question) -> bool:
    """The rules one by one, without any index."""
    principal, host, operation, kind, name = question
    if principal == "User:superman":
        return True
    here = [rule for rule in rules if rule.pattern.resource_type == kind and falls_under(rule, name)]
    if not here:
        return everyone
    mine = [rule for rule in here if rule.principal in (principal, "User:*") and rule.host in (host, "*")]
    if any(rule.permission_type == DENY and rule.operation in (2, operation) for rule in mine):
        return False
    wanted = {8: DESCRIBES, 10: {10, 11}}.get(int(operation), {int(operation)}) | {2}
    return any(rule.permission_type != DENY and rule.operation in wanted for rule in mine)


def falls_under(rule: Acl, name: str) -> bool:
    if rule.pattern.pattern_type == PatternType.PREFIXED:
        return name[: len(rule.pattern.name)] == rule.pattern.name
    return rule.pattern.name in ("*", name)


filters = st.builds(
    AclFilter,
    st.sampled_from([ResourceType.ANY, ResourceType.UNKNOWN, TOPIC, GROUP]),
    st.sampled_from([None, "a", "ab", "*"]),
    st.sampled_from(PatternType),
)


@given(st.lists(acls, max_size=30), st.lists(acls, max_size=10), filters)
def test_filters_find_what_a_look_at_each_acl_finds(rules: list[Acl], removed: list[Acl], wanted: AclFilter) -> None:
    authorizer = authorizer_of(*rules)
    for one in removed:
        authorizer.remove(one)
    left = set(rules) - set(removed)
    assert authorizer.matching(wanted) == sorted(one for one in left if wanted.matches(one))


@given(st.lists(acls, max_size=30), st.lists(acls, max_size=10), st.booleans(), st.lists(questions, max_size=20))
def test_decisions_are_those_of_the_oracle(
    rules: list[Acl], removed: list[Acl], everyone: bool, asked: list[Question]
) -> None:
    authorizer = authorizer_of(*rules, everyone=everyone)
    for question in asked:  # and again when ACLs have gone: nothing decided before may stay
        assert authorizer.authorize(*question).is_allowed is oracle(rules, everyone, question)
    gone = [*rules[::2], *removed]
    for rule in gone:
        authorizer.remove(rule)
    for question in asked:
        left = [rule for rule in rules if rule not in gone]
        assert authorizer.authorize(*question).is_allowed is oracle(left, everyone, question)


# -- beside Kafka


def chance_sets(count: int) -> list[tuple[list[Acl], bool]]:
    chance = random.Random(7)
    names = [first + second for first in ("a", "b", "*", "ab") for second in ("", "a", "b", "*", "bb")]
    return [
        (
            [
                acl(
                    chance.choice(names),
                    AclOperation(chance.randrange(2, 12)),
                    chance.choice([ALLOW, DENY]),
                    chance.choice([LITERAL, PREFIXED]),
                    kind=chance.choice([TOPIC, GROUP]),
                    principal=chance.choice(["User:a", "User:b", "User:*", "Group:a"]),
                    host=chance.choice(["*", "*", HERE, "10.1.1.1"]),
                )
                for _ in range(chance.randrange(12))
            ],
            chance.random() < 0.5,
        )
        for _ in range(count)
    ]


QUESTIONS: list[Question] = [
    (principal, host, operation, kind, name)
    for principal in ("User:a", "User:superman")
    for host in (HERE, "10.1.1.1")
    for operation in (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.CREATE)
    for kind in (TOPIC, GROUP)
    for name in ("a", "ab", "abb", "b", "*", "ba", "c")
]
# Kafka takes the literal pattern `*` for no match where a name only begins with a star (StandardAuthorizerData,
# checkSection). Here it matches every name, as documented: a DENY of all groups denies the group `*b` too.
STARRED: Question = "User:a", HERE, AclOperation.READ, GROUP, "*b"


def described(rules: list[Acl], everyone: bool, asked: list[Question] = QUESTIONS) -> dict[str, Any]:
    return {
        "everyone": everyone,
        "acls": [
            [
                *map(int, (rule.pattern.resource_type, rule.pattern.pattern_type, rule.operation)),
                *(int(rule.permission_type), rule.pattern.name, rule.principal, rule.host),
            ]
            for rule in dict.fromkeys(rules)
        ],
        "questions": [[p, h, int(operation), int(kind), name] for p, h, operation, kind, name in asked],
    }


def kafkas(sets: list[dict[str, Any]]) -> list[Any]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [java(), "-cp", f"{jars('kafka')}/*", "-Xmx256m", quiet, str(JAVA)]
    lines = "".join(json.dumps(one) + "\n" for one in sets)
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.kafka
def test_decisions_are_those_of_kafkas_standard_authorizer() -> None:
    sets = chance_sets(300)
    answers = kafkas([described(*one) for one in sets])
    assert len(answers) == len(sets)
    for (rules, everyone), answer in zip(sets, answers, strict=True):
        authorizer = authorizer_of(*rules, everyone=everyone)
        ours = [authorizer.authorize(*question).is_allowed for question in QUESTIONS]
        assert ours == answer["each"], rules
        by_type = [
            authorizer.authorize_by_resource_type(principal, HERE, operation, kind)
            for principal, _, operation, kind, name in QUESTIONS
            if name == "a"
        ]
        assert by_type == answer["by_type"], rules


@pytest.mark.kafka
def test_a_name_that_begins_with_a_star_is_what_kafka_decides_otherwise() -> None:
    rules = [acl("*", AclOperation.READ, kind=GROUP, principal="User:a")]
    assert kafkas([described(rules, False, [STARRED])])[0]["each"] == [False]
    assert authorizer_of(*rules).authorize(*STARRED).is_allowed
