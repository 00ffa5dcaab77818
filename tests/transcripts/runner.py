"""The scripts of this directory, and how they are run."""

from __future__ import annotations

from pathlib import Path

from equipoise.console import words
from equipoise.simulate.scripts.coordinator_commands import COMMANDS
from equipoise.simulate.scripts.coordinator_stage import Stage
from equipoise.simulate.scripts.runner import play_on

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*.txt"))


def run(script: str, name: str = "script") -> str:
    """The script with every expectation renewed."""
    return "\n".join(play_on(Stage(words), COMMANDS, script, name)) + "\n"
