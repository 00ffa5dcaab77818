"""docs/attacks.md is whole: its numbers run on, and every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| .+ \| .+ \| (`.+`) \|$", re.MULTILINE)


def test_every_attack_has_a_test_that_exists() -> None:
    page = (TESTS.parent / "docs" / "attacks.md").read_text(encoding="utf-8")
    rows = ROW.findall(page)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 50
    missing = [name for _, cell in rows for name in re.findall("`(.+?)`", cell) if not exists(name)]
    assert missing == []


def exists(name: str) -> bool:
    file, _, test = name.partition("::")
    path = TESTS / file if "/" in file else TESTS / "broker" / file
    return path.is_file() and f"\ndef {test}(" in path.read_text(encoding="utf-8")
