"""Topic names and patterns for the tests: both drawn from few characters, so that they often meet."""

from __future__ import annotations

from hypothesis import strategies as st

# Not empty, as topics are. (In Python before 3.14, `\\B` does not match in an empty text.)
NAMES = st.text(st.sampled_from("aabbcKkSs01._-Z"), min_size=1, max_size=12)
_CHARACTERS = st.sampled_from(["a", "b", "c", "K", "s", "0", "1", "_", "-", r"\.", "Z"])
_CLASSES = st.sampled_from(
    [".", r"\d", r"\D", r"\w", r"\W", r"\s", "[ab]", "[^ab]", "[a-c0-9]", r"[\w.]", "[]a]", "[a-]"]
)
_PLACES = st.sampled_from(["^", "$", r"\b", r"\B", r"\A"])
_REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{0}"])


def _larger(patterns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(patterns, max_size=4).map("".join),
        st.lists(patterns, min_size=1, max_size=3).map("|".join).map("(?:{})".format),
        st.tuples(patterns.map("({})".format), _REPEATS).map("".join),
        patterns.map("(?i:{})".format),
    )


# What RE2 and Python's `re` both know, and mean the same by.
PATTERNS = st.recursive(st.one_of(_CHARACTERS, _CLASSES, _PLACES), _larger, max_leaves=12)
