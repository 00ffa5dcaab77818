"""Character classes as bit masks: a bit for each character of ASCII, and one for each stretch of characters beyond.

Names of classes are those of RE2, and hold what ASCII has of them: topic names are ASCII. A script or category without
ASCII characters is known, and empty.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable

ASCII = (1 << 128) - 1
_LETTERS = range(ord("A"), ord("Z") + 1), range(ord("a"), ord("z") + 1)
_CASE_BIT = 32  # between the two cases of an ASCII letter
_LAST = 0x10FFFF
_NUMBERED = re.compile(r"\\x(?:\{0*([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2}))")
_FOLDED = {0x17F: "Ss", 0x212A: "Kk"}  # the long s and the Kelvin sign are the only others with ASCII cases


def mask(characters: Iterable[int | str]) -> int:
    """The class of some characters; those outside of ASCII are left out."""
    points = {ord(one) if isinstance(one, str) else one for one in characters}
    return sum(1 << point for point in points if point < 128)


class Alphabet:
    """The characters that a pattern can tell apart. Beyond ASCII those that it names stand alone, and what lies
    between them stands together: a mask is as long as the pattern, and not as long as Unicode."""

    def __init__(self, named: Iterable[int] = ()) -> None:
        points = {case for point in named for case in _cases(point) if case >= 128}
        cuts = {128} | points | {point + 1 for point in points}
        self._cuts = sorted(cuts)
        self.named = len(points)
        others = {point: _cases(point) - {point} for point in points}
        self._others = [(point, sum(1 << self.place(one) for one in cases)) for point, cases in others.items() if cases]
        self.all = (1 << 128 + len(cuts)) - 1

    @classmethod
    def of(cls, pattern: str) -> Alphabet:
        """Of the characters that stand in a pattern, as themselves or by their number."""
        escaped = [int(brace or pair, 16) for brace, pair in _NUMBERED.findall(pattern)]
        return cls({*map(ord, pattern), *(point for point in escaped if point <= _LAST)})

    def place(self, point: int) -> int:
        """The bit of a character."""
        return point if point < 128 else 127 + bisect_right(self._cuts, point)

    def between(self, low: int, high: int, *, fold: bool) -> int:
        """The class of a range of code points, and of their other cases with `fold`."""
        found = (2 << self.place(high)) - (1 << self.place(low))
        if not fold:
            return found
        for point, others in self._others:
            if low <= point <= high:
                found |= others
        return folded(found) | sum(mask(cases) for point, cases in _FOLDED.items() if low <= point <= high)


def _cases(point: int) -> set[int]:
    """A character with its other cases, as far as each is one character."""
    text = chr(point)
    return {point} | {ord(one) for one in (text.lower(), text.upper()) if len(one) == 1}


def folded(found: int) -> int:
    """A class with the other case of each letter."""
    return found | (found & _UPPER) << _CASE_BIT | (found & _LOWER) >> _CASE_BIT


_UPPER, _LOWER = mask(_LETTERS[0]), mask(_LETTERS[1])
_DIGIT = mask("0123456789")
_ALPHA = _UPPER | _LOWER
_ALNUM = _ALPHA | _DIGIT
WORD = _ALNUM | mask("_")
_GRAPH = mask(range(0x21, 0x7F))

PERL = {"d": _DIGIT, "s": mask("\t\n\f\r "), "w": WORD}
POSIX = {
    "alnum": _ALNUM,
    "alpha": _ALPHA,
    "ascii": ASCII,
    "blank": mask("\t "),
    "cntrl": mask(range(0x20)) | mask("\x7f"),
    "digit": _DIGIT,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH | mask(" "),
    "punct": _GRAPH & ~_ALNUM,
    "space": mask("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": mask("0123456789abcdefABCDEF"),
}

_CATEGORIES = "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
_SCRIPTS_WITHOUT_ASCII = """
Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian
Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian Glagolitic
Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi
Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Lepcha Limbu Linear_B Lisu
Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki Old_Italic Old_Persian
Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan Saurashtra Shavian Sinhala
Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu Thaana Thai Tibetan Tifinagh
Ugaritic Vai Yi
"""


def _category(name: str) -> int:
    return mask(point for point in range(128) if unicodedata.category(chr(point)).startswith(name))


UNICODE = {
    **{name: _category(name) for name in _CATEGORIES.split()},
    **dict.fromkeys(_SCRIPTS_WITHOUT_ASCII.split(), 0),
    "Any": ASCII,
    "Common": ASCII & ~_ALPHA,
    "Latin": _ALPHA,
}
