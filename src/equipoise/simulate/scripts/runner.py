"""Scripts: a command after '>', then what the system says. `play` gives a script as it ought to be.

Comments (#) and empty lines stay as they are; all else below a command is expectation. There are several vocabularies,
each with a stage of its own; the commands of a script say which it has. A script ends where a rule is broken.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from equipoise.simulate.scripts import coordinator_commands, member_commands, zookeeper_commands
from equipoise.simulate.scripts.arguments import Arguments
from equipoise.simulate.scripts.coordinator_stage import Stage
from equipoise.simulate.scripts.member_stage import MemberStage
from equipoise.simulate.scripts.words import Words
from equipoise.simulate.scripts.zookeeper_commands import ZooKeeperStage
from equipoise.wire.errors import UsageError

_COMMAND = re.compile(r"^>\s*(\S+)", re.MULTILINE)
BROKEN = "broken: "


class Told(Protocol):
    """The lines that the system has said since somebody has emptied them."""

    lines: list[str]


class Played(Protocol):
    """Where a script plays."""

    @property
    def transcript(self) -> Told:
        """What is said."""


class Vocabulary(NamedTuple):
    """The commands of a kind of script, and where it plays."""

    stage: Callable[[Words], Played]
    commands: Mapping[str, Callable[..., None]]


def vocabularies() -> list[Vocabulary]:
    """Of a coordinator whose clients do what they are told; of members; of consumers on ZooKeeper."""
    return [
        Vocabulary(Stage, coordinator_commands.COMMANDS),
        Vocabulary(MemberStage, member_commands.COMMANDS),
        Vocabulary(ZooKeeperStage, zookeeper_commands.COMMANDS),
    ]


def vocabulary_of(script: str) -> Vocabulary:
    """The first that has all commands of the script, or else the one that has most of them."""
    said = set(_COMMAND.findall(script))
    return max(vocabularies(), key=lambda one: len(said & one.commands.keys()))


def play(script: str, name: str, words: Words) -> Iterator[str]:
    """The script, line by line, with every expectation renewed. UsageError names the line of a command that makes no
    sense."""
    vocabulary = vocabulary_of(script)
    return play_on(vocabulary.stage(words), vocabulary.commands, script, name)


def play_on(stage: Played, commands: Mapping[str, Callable[..., None]], script: str, name: str) -> Iterator[str]:
    """The same on a stage that is there."""
    for number, line in enumerate(script.splitlines(), 1):
        if line.startswith(">"):
            yield line
            lines = list(_answer(stage, commands, line[1:].strip(), f"{name}, line {number}"))
            yield from lines
            if lines and lines[-1].startswith(BROKEN):
                return
        elif not line or line.startswith("#"):
            yield line


def _answer(stage: Played, commands: Mapping[str, Callable[..., None]], text: str, place: str) -> Iterator[str]:
    if (word := text.partition(" ")[0]) not in commands:
        raise UsageError(f"{place}: no command {word!r}; there are {', '.join(commands)}")
    stage.transcript.lines = []
    try:
        do(stage, commands, text)
    except (UsageError, ValueError, KeyError) as error:
        raise UsageError(f"{place}: {text}: {error}") from error
    except AssertionError as broken:
        stage.transcript.lines.append(f"{BROKEN}{described(broken)}")
    yield from stage.transcript.lines


def described(error: Exception) -> str:
    """What is wrong, in a line: the words of an assertion, or else the assertion itself."""
    if isinstance(error, AssertionError) and str(error):
        return str(error).splitlines()[0]
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error}, in {frame.name}: {frame.line}"


def do(stage: Played, commands: Mapping[str, Callable[..., None]], text: str) -> None:
    """One command that there is. UsageError if it makes no sense; AssertionError if a rule is broken."""
    word, _, rest = text.partition(" ")
    given = Arguments(rest)
    commands[word](stage, given)
    given.done()
