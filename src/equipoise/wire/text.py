"""Names as text that any terminal, log file and picture can show.

Group ids, client ids, reasons and messages come from other programs. Kafka lets them hold any character: escape
sequences that clear a screen or set its title, line feeds that forge a line of the log, controls that reverse the
direction of letters, half a surrogate pair that no encoding can write.
"""

from __future__ import annotations

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_LAST_BYTE, _LAST_SMALL = 0xFF, 0xFFFF


def printable(text: str, longest: int | None = None) -> str:
    """`text` in one line. Invisible characters are written as Python writes them. Longer text is cut in the middle."""
    if not text.isprintable():  # which is rare, and quick to find out
        text = "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)
    return text if longest is None or len(text) <= longest else _cut(text, longest)


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
