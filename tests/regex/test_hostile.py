"""Patterns made to hurt: memory and steps stay within bounds, whatever a client sends. Rule A14.10."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.regex import DFA, InvalidRegularExpression, compile_regex
from equipoise.coordinator.consumer.regex.dfa import MOST_STATES
from equipoise.coordinator.consumer.regex.parse import (
    DEEPEST,
    LONGEST_PATTERN,
    MOST_NODES,
    MOST_OPERATORS,
    parse,
)

LONGEST_NAME = 249
SLOW_IN_RE = [  # Python's `re` would need years for each of these
    ("(a+)+$", "a" * 248 + "b", False),
    ("(.*)*x", "a" * 249, False),
    ("(a|a)*b", "a" * 249, False),
    ("(x+x+)+y", "x" * 249, False),
    ("(a?){100}a{100}", "a" * 100, True),
    ("((a?){30}){30}a{30}", "a" * 249, True),
    ("(a|b)*a(a|b){900}", "ab" * 120, False),
    ("(?:a?b?c?d?){1000}", "abcd" * 60, True),
    (r"(\b|a)*(\B|b)*", "ab" * 120, False),
]


@pytest.mark.parametrize(("pattern", "name", "matched"), SLOW_IN_RE, ids=[row[0] for row in SLOW_IN_RE])
def test_steps_are_linear_in_nodes_and_characters(pattern: str, name: str, matched: bool) -> None:
    compiled = compile_regex(pattern)
    assert compiled.matches(name) == matched
    assert compiled.work <= (len(name) + 1) * (len(parse(pattern)) + 1)
    before = compiled.work
    assert compiled.matches(name) == matched
    assert compiled.work == before, "the states are known by now"


def test_long_work_is_interrupted() -> None:
    """The broker can serve others between two nodes: no single name holds it."""
    compiled = compile_regex("(?:a?b?c?d?){1000}")
    spent, longest, verdicts = 0, 0, []
    for verdict in compiled.verdicts(["abcd" * 60, "b" * LONGEST_NAME]):
        longest, spent = max(longest, compiled.work - spent), compiled.work
        verdicts.append(verdict)
    assert [verdict for verdict in verdicts if verdict is not None] == [True, True]
    assert verdicts.count(None) > 100
    assert longest <= len(parse("(?:a?b?c?d?){1000}")) + 1_000


def names(count: int) -> list[str]:
    """Names whose letters differ early: a DFA that was built whole would have a state for each."""
    return ["".join("ab"[number >> bit & 1] for bit in range(16)) * 10 for number in range(count)]


def test_states_are_bounded_and_forgotten() -> None:
    compiled = compile_regex("(a|b)*a(a|b){12}")
    for name in names(1_000):
        assert compiled.matches(name) == (name[-13] == "a")
        assert compiled.states <= MOST_STATES
    large = compile_regex("(a|b)*a(a|b){1000}(a|b){1000}(a|b){1000}(a|b){1000}(a|b){1000}")
    assert large.most_states < MOST_STATES, "large sets are kept in smaller numbers"
    for name in names(100):
        assert not large.matches(name)
        assert large.states <= large.most_states


def test_forgetting_in_the_middle_of_a_name_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [compile_regex("(a|b)*a(a|b){6}").matches(name) for name in names(200)]
    compiled = compile_regex("(a|b)*a(a|b){6}")
    compiled.most_states = 3
    assert [compiled.matches(name) for name in names(200)] == expected
    assert compiled.states <= 3


@pytest.mark.parametrize(
    "pattern",
    ["(a{1000}){1000}", "((a{100}){100}){100}", "a{1000}" * 2_000, "(abcdefghijklmnop){1000}", "((a?){1000}){1000}"],
)
def test_repetition_is_refused_before_it_is_made(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=f"more than {MOST_NODES:,} nodes"):
        compile_regex(pattern)


def test_depth_and_length_are_bounded() -> None:
    assert compile_regex("(" * DEEPEST + "a" + ")" * DEEPEST).matches("a")
    with pytest.raises(InvalidRegularExpression, match=f"more than {DEEPEST} groups inside each other at {DEEPEST}"):
        compile_regex("(" * MOST_OPERATORS)
    with pytest.raises(InvalidRegularExpression, match="longer than 32,767 bytes"):
        compile_regex("a" * (LONGEST_PATTERN + 1))
    with pytest.raises(InvalidRegularExpression, match="longer than 32,767 bytes"):
        compile_regex("\u212a" * (LONGEST_PATTERN // 2))


@pytest.mark.parametrize("pattern", [".*" * 16_000, "(" * 20_000, "a?" * MOST_OPERATORS + "?", "(?i)" + "é" * 16_000])
def test_what_takes_long_to_read_is_refused_before_it_is_read(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=f"more than {MOST_OPERATORS:,} characters outside"):
        compile_regex(pattern)


def test_a_long_list_of_topics_is_welcome() -> None:
    """Alternatives without repetition may be as many as fit the pattern."""
    topics = [f"topic-{number}" for number in range(2_900)]
    compiled: DFA = compile_regex("|".join(topics))
    assert all(compiled.matches(topic) for topic in (topics[0], topics[1_234], topics[-1]))
    assert not compiled.matches("topic-2900")
    assert len(parse("|".join(topics))) < MOST_NODES + 2 * LONGEST_PATTERN
