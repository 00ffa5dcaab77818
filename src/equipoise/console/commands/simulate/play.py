"""`equipoise simulate play`: plays a script, and tells whether it says what happens."""

from __future__ import annotations

import sys
from difflib import unified_diff
from pathlib import Path

import click

from equipoise.console import words
from equipoise.console.edge import REFUSED
from equipoise.console.options import read_text
from equipoise.simulate.scripts.runner import play as play_script
from equipoise.simulate.tour import EPISODES, episode
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable

_TOUR = "tour/"


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--rewrite", is_flag=True, help="Put what happens into the file, instead of comparing.")
def play(file: str, rewrite: bool) -> None:
    """Play a script: commands after '>', and below each what members and coordinator say.

    FILE is a script of your own, of a hunt, or an episode of the tour: tour/1 to tour/5. The status is 1 if the file
    expects other lines than those that come.
    """
    script = _read(file)
    lines = []
    for line in play_script(script, file, words):
        lines.append(line)
        print(printable(line) if line else "", flush=True)
    played = "\n".join(lines) + "\n"
    if rewrite:
        if file.startswith(_TOUR):
            raise UsageError(f"{file}: the tour cannot be rewritten; copy it to a file of your own")
        Path(file).write_text(played, encoding="utf-8")
    elif _expects(script) and played.splitlines() != script.splitlines():
        print(f"\nequipoise: {file} expects other lines:", file=sys.stderr)
        for line in unified_diff(script.splitlines(), played.splitlines(), "expected", "played", n=1, lineterm=""):
            print(printable(line), file=sys.stderr)
        sys.exit(REFUSED)


def _read(file: str) -> str:
    if not file.startswith(_TOUR):
        return read_text(file, Path(file))
    name = file.removeprefix(_TOUR)
    if not name.isdecimal() or not 1 <= int(name) <= len(EPISODES):
        raise UsageError(f"{file}: there is no such episode; write tour/1 to tour/{len(EPISODES)}")
    return episode(int(name))


def _expects(script: str) -> bool:
    """Whether anything stands below its commands."""
    return any(line and line[0] not in ">#" for line in script.splitlines())
