"""A command of this tree, run in the process of the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import click
import pytest

from proving.tree import ROOT

_PATIENCE_S = 60


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Ended]


def command_of(
    program: str, run: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """What calls `run` as a shell would call `program`, with the arguments it is given."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        status = 0
        try:
            run()
        except SystemExit as end:
            status = int(end.code or 0)
        return Ended(status, *capsys.readouterr())

    return call


def check_line(ended: Ended, told: str, program: str = "equipoise", *, status: int = 2) -> None:
    assert (ended.status, ended.out) == (status, "")
    assert ended.err.startswith(f"{program}: ")
    assert told in ended.err
    assert ended.err.count("\n") == 1


def check_words(group: Any, path: str = "") -> None:
    """Every command and every option has a help text."""
    for name, one in group.commands.items():
        assert one.help, f"{path} {name}"
        for option in one.params:
            assert isinstance(option, click.Argument) or getattr(option, "help", None), f"{path} {name} {option.name}"
        if hasattr(one, "commands"):
            check_words(one, f"{path} {name}")


def run_bare(module: str, *arguments: str) -> Ended:
    """`module.run()` in an interpreter that has only what the base install brings."""
    hidden = "confluent_kafka", "matplotlib", "pyarrow", "pyspark", "kazoo"
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {hidden}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *more: None if name in {hidden} else found(name, *more)\n"
        f"from {module} import run\n"
        f"sys.argv = ['command', *{arguments}]\n"
        "run()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)
