"""Character classes as bit masks over ASCII. Topic names are ASCII: of a class nothing else is needed.

Names of classes are those of RE2. A script or category without ASCII characters is known, and empty.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

ASCII = (1 << 128) - 1
_LETTERS = range(ord("A"), ord("Z") + 1), range(ord("a"), ord("z") + 1)
_CASE_BIT = 32  # between the two cases of an ASCII letter
_FOLDED = {0x17F: "Ss", 0x212A: "Kk"}  # the long s and the Kelvin sign are the only others with ASCII cases


def mask(characters: Iterable[int | str]) -> int:
    """The class of some characters; those outside of ASCII are left out."""
    points = {ord(one) if isinstance(one, str) else one for one in characters}
    return sum(1 << point for point in points if point < 128)


def between(low: int, high: int, *, fold: bool) -> int:
    """The class of a range of code points, and of their other cases with `fold`."""
    found = ((2 << high) - (1 << low)) & ASCII if high < 128 else ASCII & -(1 << min(low, 128))
    if not fold:
        return found
    return folded(found) | sum(mask(cases) for point, cases in _FOLDED.items() if low <= point <= high)


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
