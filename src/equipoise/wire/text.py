"""Names as text that any terminal, log file and picture can take.

Group ids, client ids, reasons and messages come from strangers. Kafka lets all of them hold anything: escape sequences
that clear a screen or set its title, line feeds that forge a line of the log, controls that turn the direction of
letters, half of a surrogate pair that no encoding has a byte for.
"""

from __future__ import annotations

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_LAST_BYTE, _LAST_SMALL = 0xFF, 0xFFFF


def printable(text: str, longest: int | None = None) -> str:
    """`text` in one line: what is no visible letter is written as Python would; cut in the middle if it is longer."""
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
