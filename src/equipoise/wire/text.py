"""Names as text that any terminal, log file and picture can show.

Group ids, client ids, reasons and messages come from other programs. Kafka lets them hold any character: escape
sequences that clear a screen or set its title, line feeds that forge a line of the log, controls that reverse the
direction of letters, half a surrogate pair that no encoding can write.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

LONGEST_NAME = 300  # letters of a name or a reason: clients may send 32 KB
_LISTED = 12  # partitions named one by one; the rest is counted
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_LAST_BYTE, _LAST_SMALL = 0xFF, 0xFFFF


def printable(text: str, longest: int | None = None) -> str:
    """`text` in one line. Invisible characters are written as Python writes them. Longer text is cut in the middle."""
    if not text.isprintable():  # which is rare, and quick to find out
        text = "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)
    return text if longest is None or len(text) <= longest else _cut(text, longest)


def partitions(found: Iterable[tuple[str, int]]) -> str:
    """Partitions by topic, in one line: "orders:0,1,2 payments:7"."""
    ordered = sorted(found)
    topics: dict[str, list[str]] = defaultdict(list)
    for topic, number in ordered[:_LISTED]:
        topics[topic].append(str(number))
    listed = " ".join(f"{printable(topic, LONGEST_NAME)}:{','.join(numbers)}" for topic, numbers in topics.items())
    more = len(ordered) - _LISTED
    return f"{listed} and {more} more" if more > 0 else listed


def _escaped(letter: str) -> str:
    code = ord(letter)
    if letter in _SHORT:
        return _SHORT[letter]
    if code <= _LAST_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_SMALL else f"\\U{code:08x}"


def _cut(text: str, longest: int) -> str:
    """The end stays: names that begin alike mostly differ there."""
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[len(text) - end :]}"
