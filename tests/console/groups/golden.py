"""Golden transcripts of `groups explain`. They are in explanations/, and --rewrite-transcripts renews them.

Ids, times and spans are masked. Advice is left out: it depends on what else has happened.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PATIENCE_S = 60
DIRECTORY = Path(__file__).parent / "explanations"
# Of real runs: what differs from run to run.
_FIGURES = ((r"\d\d:\d\d:\d\d\.\d{3}", "TIME"), (r"-[0-9a-f]{8}\b", "-ID"), (r"took [\d.,]+ \w+", "took T"))
_SPANS = ((r"(detect|join|assign|sync|target|reconcile) [\d,]+ ms", r"\1 N ms"), (r"for [\d.]+ (ms|s)", "for T"))
# Ids of members of the new protocol, and who waited for how long.
_MORE = ((r"\b[0-9A-Za-z_-]{22}\b", "UUID"), (r"[\d.,]+ (ms|s) for ", "T for "))


def masked(text: str) -> str:
    """Without what differs from run to run."""
    for pattern, instead in (*_FIGURES, *_SPANS):
        text = re.sub(pattern, instead, text)
    return re.sub(r" \(longest: [^)]*\)", "", text)


def compare(name: str, explanation: str, config: pytest.Config) -> None:
    """The explanation is that of the transcript."""
    text = masked(explanation)
    for pattern, instead in _MORE:
        text = re.sub(pattern, instead, text)
    text = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("  advice"))
    file = DIRECTORY / f"{name}.txt"
    if config.getoption("--rewrite-transcripts"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def until(holds: Callable[[], bool]) -> None:
    """Waits for it."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
