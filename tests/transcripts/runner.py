"""Scenario scripts: a command after '>', then what the system says. `run` gives the script as it ought to be.

Comments (#) and empty lines stay as they are; all else below a command is expectation. See commands.py for the
commands, b01_*.txt for the first script to read.
"""

from __future__ import annotations

from pathlib import Path

from equipoise.wire.errors import UsageError
from tests.transcripts.arguments import Arguments
from tests.transcripts.commands import COMMANDS
from tests.transcripts.world import World

HERE = Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*.txt"))


def run(script: str, name: str = "script") -> str:
    """The script with every expectation renewed. UsageError names the line of a command that makes no sense."""
    world = World()
    lines: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith(">"):
            lines += [line, *_answer(world, line[1:].strip(), f"{name}, line {number}")]
        elif not line or line.startswith("#"):
            lines.append(line)
    return "\n".join(lines) + "\n"


def _answer(world: World, text: str, place: str) -> list[str]:
    word, _, rest = text.partition(" ")
    if word not in COMMANDS:
        raise UsageError(f"{place}: no command {word!r}; there are {', '.join(COMMANDS)}")
    world.lines = []
    try:
        given = Arguments(rest)
        COMMANDS[word](world, given)
        given.done()
    except (UsageError, ValueError, KeyError) as error:
        raise UsageError(f"{place}: {text}: {error}") from error
    return world.lines
