"""Every script in transcripts/ says what both sides say. `pytest tests/member --rewrite-transcripts` renews them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from equipoise.console import words
from equipoise.simulate.scripts.member_commands import COMMANDS
from equipoise.simulate.scripts.member_stage import MemberStage
from equipoise.simulate.scripts.runner import play_on

SCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def run(script: str, name: str) -> str:
    """The script with every expectation renewed."""
    return "\n".join(play_on(MemberStage(words), COMMANDS, script, name)) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text(encoding="utf-8")
    actual = run(expected, path.name)
    if request.config.getoption("--rewrite-transcripts", default=False):
        path.write_text(actual, encoding="utf-8")
        return
    assert actual == expected


def test_every_command_is_used() -> None:
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    assert set(re.findall(r"^> (\S+)", scripts, re.MULTILINE)) == set(COMMANDS)
