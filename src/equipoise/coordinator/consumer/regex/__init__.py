"""Regular expressions of topic names, in RE2's syntax, in linear time and bounded memory.

A client chooses the pattern, and the broker evaluates it. Python's `re` would let a client stop the broker: it tries
alternatives one after the other, exponentially many for a few dozen characters, and cannot be interrupted.
"""

from __future__ import annotations

from equipoise.coordinator.consumer.regex.dfa import DFA
from equipoise.coordinator.consumer.regex.parse import InvalidRegularExpression, parse

__all__ = ["DFA", "InvalidRegularExpression", "compile_regex", "parse"]


def compile_regex(pattern: str) -> DFA:
    """Compiles a pattern for whole topic names. Raises InvalidRegularExpression."""
    return DFA(parse(pattern))
