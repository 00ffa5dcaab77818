"""Payloads for people: JSON, text or hexadecimal digits, in one line that harms nothing."""

from __future__ import annotations

import pytest

from equipoise.views.records import LONGEST, Shown, shown


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (None, Shown("null", "", 0)),
        (b"", Shown("text", "", 0)),
        ("Grüße".encode(), Shown("text", "Grüße", 7)),
        (b'{"id": 7}', Shown("JSON", '{"id": 7}', 9)),
        (b"[1, 2", Shown("text", "[1, 2", 5)),
        (b"one\ntwo", Shown("text", "one\\ntwo", 7)),
        (b"\x00\x00\x00\x07", Shown("hex", "00 00 00 07", 4)),
        (b"\xff\xfe", Shown("hex", "ff fe", 2)),
        (b"\x1b[31mred", Shown("hex", "1b 5b 33 31 6d 72 65 64", 8)),
    ],
)
def test_what_a_payload_is(payload: bytes | None, expected: Shown) -> None:
    assert shown(payload) == expected


def test_long_payloads_are_cut_even_in_the_middle_of_a_letter() -> None:
    found = shown("é".encode() * 5_000 + b"x")
    assert (found.kind, found.size, len(found.text)) == ("text", 10_001, LONGEST)
    found = shown(b"a" + "é".encode() * 5_000)
    assert (found.kind, len(found.text)) == ("text", LONGEST)
    assert shown(b"[" * 100_000).kind == "text"
