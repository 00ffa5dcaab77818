"""Our engine beside Python's `re` and beside RE2: the same names match, and the same patterns are refused."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.coordinator.consumer.regex import (
    DFA,
    MOST_NAMED,
    InvalidRegularExpression,
    compile_id_regex,
    compile_regex,
)
from tests.effort import examples
from tests.regex.names import NAMES, PATTERNS

_ESCAPES = r"\d \w \W \S \b \B \A \z \Q \E \x41 \x{61} \141 \pL \pN \p{Lu} \p{Greek} \P{^Nd} \. \_ \1 \Z"
_GROUPS = "(?i) (?: (?P<n> (?<m> (?i: (?-i) (?s) (?im-s: {2} {1,3} {0,} *? ++ (?= (?! (?> (?( (?i)[^k]"
_CLASSES = r"[^a-c] [[:alpha:]] [[:^digit:]] [a- [\d-z] []a] [^]a] [a-] [z-a]"
_BEYOND_ASCII = ["\u212a", "[\u0100-\u3000]"]
_SINGLE = "aabbcKks0._-^$|()[]*+?{},1\\:."
_PIECES = [*_SINGLE, *_ESCAPES.split(), *_GROUPS.split(), *_CLASSES.split(), *_BEYOND_ASCII]
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False


@settings(max_examples=examples(1_000), deadline=None)
@given(PATTERNS, st.lists(NAMES, max_size=8))
def test_the_same_names_match_as_in_python(pattern: str, names: list[str]) -> None:
    ours, theirs = compile_regex(pattern), re.compile(pattern)
    for name in names:
        assert ours.matches(name) == (theirs.fullmatch(name) is not None), (pattern, name)


@settings(max_examples=examples(1_000), deadline=None)
@given(PATTERNS, st.lists(NAMES, max_size=8))
def test_the_same_names_match_as_in_re2(pattern: str, names: list[str]) -> None:
    ours, theirs = compile_regex(pattern), re2.compile(pattern, options=_OPTIONS)
    for name in names:
        assert ours.matches(name) == (theirs.fullmatch(name) is not None), (pattern, name)


def random_patterns(seed: int, count: int) -> Iterator[str]:
    """Pieces of syntax in any order; most are no patterns. An escaped letter beyond ASCII is in RE2/J, which Kafka
    uses, and not in RE2: such patterns are left out."""
    chance = random.Random(seed)
    for _ in range(count):
        pattern = "".join(chance.choice(_PIECES) for _ in range(chance.randint(1, 9)))
        if "\\\u212a" not in pattern:
            yield pattern


def is_refused_by_re2(pattern: str) -> bool:
    try:
        re2.compile(pattern, options=_OPTIONS)
    except re2.error:
        return True
    return False


def compiled(pattern: str) -> DFA | None:
    try:
        return compile_regex(pattern)
    except InvalidRegularExpression:
        return None


@pytest.mark.parametrize("seed", range(examples(8)))
def test_the_same_patterns_are_refused_as_by_re2(seed: int) -> None:
    """Rules A14.10 and A14.11."""
    chance = random.Random(seed)
    refused = 0
    for pattern in random_patterns(seed, 2_000):
        ours = compiled(pattern)
        assert (ours is None) == is_refused_by_re2(pattern), pattern
        if ours is None:
            refused += 1
            continue
        theirs = re2.compile(pattern, options=_OPTIONS)
        for _ in range(8):
            name = "".join(chance.choice("aabbcKks0._-ABz1") for _ in range(chance.randint(0, 6)))
            assert ours.matches(name) == (theirs.fullmatch(name) is not None), (pattern, name)
    assert 500 < refused < 1_800


def test_every_known_class_has_the_characters_that_re2_gives_it() -> None:
    """Classes by name, in all their spellings, over every character that a topic may have."""
    from equipoise.coordinator.consumer.regex.classes import POSIX, UNICODE
    from equipoise.coordinator.consumer.regex.dfa import LEGAL

    spelled = [f"[[:{sign}{name}:]]" for name in POSIX for sign in ("", "^")]
    spelled += [rf"\{kind}{{{name}}}" for name in UNICODE for kind in "pP"]
    spelled += [rf"\{kind}" for kind in "dDsSwW"]
    for pattern in [*spelled, *(f"(?i){one}" for one in spelled)]:
        ours, theirs = compile_regex(pattern), re2.compile(pattern, options=_OPTIONS)
        assert [one for one in LEGAL if ours.matches(one)] == [one for one in LEGAL if theirs.fullmatch(one)], pattern


_ID_CHARACTERS = "aKs/:é É\u00df\u03b1\u0391\u20ac\U0001f600"
_ID_NAMES = st.text(st.sampled_from(_ID_CHARACTERS), max_size=6)
_ID_PIECES = ["a", "K", "/", "é", "É", "α", ".", "[^a]", "[é-α]", "[^é]", "(?i)", r"\x{e9}", r"\xe9", r"\W", "[é-ÿ]+"]
_ID_PIECES += ["(?:", ")", "|", "*", "?", "{2}", "\U0001f600", "[/:]", r"[\x{e9}-\x{20ac}]", "€", r"\p{Any}", "[^\\d]"]


@settings(max_examples=examples(1_000), deadline=None)
@given(st.lists(st.sampled_from(_ID_PIECES), max_size=6).map("".join), st.lists(_ID_NAMES, max_size=8))
def test_ids_beyond_ascii_match_as_in_re2(pattern: str, names: list[str]) -> None:
    if is_refused_by_re2(pattern):
        with pytest.raises(InvalidRegularExpression):
            compile_id_regex(pattern)
        return
    ours, theirs = compile_id_regex(pattern), re2.compile(pattern, options=_OPTIONS)
    for name in names:
        assert ours.matches(name) == (theirs.fullmatch(name) is not None), (pattern, name)


def test_a_pattern_names_so_many_characters_beyond_ascii_and_no_more() -> None:
    assert compile_id_regex("".join(map(chr, range(0x4E00, 0x4E00 + MOST_NAMED)))).matches("a") is False
    with pytest.raises(InvalidRegularExpression, match="more than 256 different characters"):
        compile_id_regex("".join(map(chr, range(0x4E00, 0x4E01 + MOST_NAMED))))
