"""Regular expressions of names, in RE2's syntax, in linear time and bounded memory.

A client chooses the pattern, and the broker evaluates it. Python's `re` would let a client stop the broker: it tries
alternatives one after the other, exponentially many for a few dozen characters, and cannot be interrupted.
"""

from __future__ import annotations

from equipoise.coordinator.consumer.regex.classes import Alphabet
from equipoise.coordinator.consumer.regex.dfa import DFA
from equipoise.coordinator.consumer.regex.parse import InvalidRegularExpression, parse

MOST_NAMED = 256  # with the other cases of each: a class may look at all of them

__all__ = ["DFA", "InvalidRegularExpression", "compile_id_regex", "compile_regex", "parse"]


def compile_regex(pattern: str) -> DFA:
    """Compiles a pattern for whole topic names. Raises InvalidRegularExpression."""
    return DFA(parse(pattern))


def compile_id_regex(pattern: str) -> DFA:
    """Compiles a pattern for whole transactional ids, which may have any character. Raises InvalidRegularExpression."""
    alphabet = Alphabet.of(pattern)
    if alphabet.named > MOST_NAMED:
        raise InvalidRegularExpression(f"more than {MOST_NAMED} different characters beyond ASCII", 0)
    return DFA(parse(pattern, alphabet), alphabet)
