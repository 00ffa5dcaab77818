"""Scenario scripts: a command after '>', then what the system says. `run` gives the script as it ought to be.

Comments (#) and empty lines stay as they are; all else below a command is expectation. See commands.py for the
commands, b01_*.txt for the first script to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from equipoise.simulate import Transcript
from equipoise.wire.errors import UsageError
from tests.transcripts.arguments import Arguments
from tests.transcripts.commands import COMMANDS
from tests.transcripts.stage import Stage

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*.txt"))


class Played(Protocol):
    @property
    def transcript(self) -> Transcript: ...


def run(script: str, name: str = "script") -> str:
    """The script with every expectation renewed. UsageError names the line of a command that makes no sense."""
    return run_on(Stage(), COMMANDS, script, name)


def run_on(stage: Played, commands: Mapping[str, Callable[..., None]], script: str, name: str) -> str:
    lines: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith(">"):
            lines += [line, *_answer(stage, commands, line[1:].strip(), f"{name}, line {number}")]
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _answer(stage: Played, commands: Mapping[str, Callable[..., None]], text: str, place: str) -> list[str]:
    word, _, rest = text.partition(" ")
    if word not in commands:
        raise UsageError(f"{place}: no command {word!r}; there are {', '.join(commands)}")
    stage.transcript.lines = []
    try:
        given = Arguments(rest)
        commands[word](stage, given)
        given.done()
    except (UsageError, ValueError, KeyError) as error:
        raise UsageError(f"{place}: {text}: {error}") from error
    return stage.transcript.lines
