"""What patterns mean, and what is said about those that mean nothing."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.regex import InvalidRegularExpression, compile_regex
from equipoise.wire.errors import ErrorCode

MATCHES = [
    ("foo", ["foo"], ["foobar", "xfoo", ""]),
    ("^top", ["top"], ["top-1"]),
    ("^top.*$", ["top", "top-1"], ["stop"]),
    ("", [""], ["a"]),
    ("a|b|", ["a", "b", ""], ["ab"]),
    ("orders-[0-9]{2,3}", ["orders-10", "orders-100"], ["orders-1", "orders-1000"]),
    ("a{,2}", [], ["a", "aa"]),
    ("x{2", [], ["xx"]),
    ("(?i)Foo", ["foo", "FOO"], ["fo"]),
    ("(?i:a)b", ["Ab", "ab"], ["aB"]),
    ("((?i)a)b", ["Ab"], ["AB"]),
    ("(?i)(?-i:a)b", ["aB"], ["AB"]),
    ("(?P<year>[0-9]+)-(?<month>[0-9]+)", ["2026-11"], ["2026-"]),
    (r"\Qa.b\E.c", ["a.b-c"], ["aab-c"]),
    (r"\Qa.b", ["a.b"], ["aab"]),
    (r"a\.b", ["a.b"], ["a-b"]),
    (r"\bfoo\b.*", ["foo", "foo-bar", "foo.bar"], ["foobar", "foo_bar"]),
    (r".*o\B.*", ["foo", "foobar"], ["o-", "x-o"]),
    (r"\x61\x{62}\143", ["abc"], ["ab"]),
    ("[[:alpha:]_]+", ["a_B"], ["a1"]),
    (r"\p{Lu}\P{Lu}*", ["Foo"], ["foo", "FOO"]),
    (r"\pL\pN", ["a1"], ["1a"]),
    ("\u212a|(?i)\u212ax", ["kx", "KX"], ["k", "K"]),
    ("a*?b+?c??", ["b", "aabbc"], ["a"]),
    ("__consumer_offsets", ["__consumer_offsets"], []),
]


@pytest.mark.parametrize(("pattern", "matched", "other"), MATCHES, ids=[row[0] for row in MATCHES])
def test_a_pattern_matches_whole_names(pattern: str, matched: list[str], other: list[str]) -> None:
    compiled = compile_regex(pattern)
    assert [name for name in matched if not compiled.matches(name)] == []
    assert [name for name in other if compiled.matches(name)] == []


REFUSED = [
    ("[", "missing closing ] at 0: `[`"),
    ("a[b", "missing closing ] at 1: `[b`"),
    ("[b-a]", "invalid character class range at 1: `b-a`"),
    ("[[:name:]]", "invalid character class range at 1: `[:name:]`"),
    (r"\p{Klingon}", r"invalid character class range at 0: `\p{Klingon}`"),
    (r"\p{Lu", r"invalid character class range at 0: `\p{Lu`"),
    ("(a", "missing closing ) at 0: `(a`"),
    ("a)", "unexpected ) at 1: `)`"),
    ("*", "missing argument to repetition operator at 0: `*`"),
    ("a|*", "missing argument to repetition operator at 2: `*`"),
    ("(?i)+", "missing argument to repetition operator at 4: `+`"),
    ("a**", "invalid nested repetition operator at 1: `**`"),
    ("a*+", "invalid nested repetition operator at 1: `*+`"),
    ("a{1001}", "invalid repeat count at 1: `{1001}`"),
    ("a{3,2}", "invalid repeat count at 1: `{3,2}`"),
    ("a{99999999999}", "invalid repeat count at 1: `{99999999999}`"),
    ("(?=a)", "invalid or unsupported Perl syntax at 0: `(?=`"),
    ("(?!a)", "invalid or unsupported Perl syntax at 0: `(?!`"),
    ("b(?>a)", "invalid or unsupported Perl syntax at 1: `(?>`"),
    ("(?(1)a)", "invalid or unsupported Perl syntax at 0: `(?(`"),
    ("(?-)", "invalid or unsupported Perl syntax at 0: `(?-)`"),
    ("(?<=a)b", "invalid named capture at 0: `(?<=a)b`"),
    ("(?P<a-b>c)", "invalid named capture at 0: `(?P<a-b>`"),
    ("(?P<n>a)(?P<n>b)", "duplicate capture group name at 12: `n`"),
    (r"(a)\1", r"invalid escape sequence at 3: `\1`"),
    (r"\C", r"invalid escape sequence at 0: `\C`"),
    (r"a\Z", r"invalid escape sequence at 1: `\Z`"),
    (r"\x{110000}", r"invalid escape sequence at 0: `\x{110000}`"),
    ("a\\", "trailing backslash at end of expression at 1: `\\`"),
]


@pytest.mark.parametrize(("pattern", "said"), REFUSED, ids=[row[0] for row in REFUSED])
def test_the_error_says_what_and_where(pattern: str, said: str) -> None:
    """Rule A14.11."""
    with pytest.raises(InvalidRegularExpression) as refused:
        compile_regex(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(refused.value) == said
    assert refused.value.position == int(said.partition(" at ")[2].rpartition(" at ")[2].partition(":")[0] or 0)


def test_a_name_that_no_topic_can_have_matches_nothing() -> None:
    assert not compile_regex(".*").matches("caf\u00e9")
    assert not compile_regex("a b").matches("a b")
