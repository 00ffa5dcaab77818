"""Every script in this directory says what happens. `pytest tests/transcripts --rewrite-transcripts` renews them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.runner import SCRIPTS, run

TRACES = 24  # in the reference table


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text(encoding="utf-8")
    actual = run(expected, path.name)
    if request.config.getoption("--rewrite-transcripts", default=False):
        path.write_text(actual, encoding="utf-8")
        return
    assert actual == expected
