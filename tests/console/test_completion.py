"""Completion in real shells: the script that docs/command.md names, and what it offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "equipoise"


def offered(*words: str) -> list[str]:
    """What bash would offer for the last word."""
    env = {**os.environ, "COMP_WORDS": " ".join(("equipoise", *words)), "COMP_CWORD": str(len(words))}
    env["_EQUIPOISE_COMPLETE"] = "bash_complete"
    ended = subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return [line.partition(",")[2] for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str) -> None:
    env = {**os.environ, "_EQUIPOISE_COMPLETE": f"{shell}_source"}
    ended = subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert "_EQUIPOISE_COMPLETE" in ended.stdout
    assert f"{shell}_complete" in ended.stdout


def test_commands_options_and_values_are_offered() -> None:
    assert offered("gr") == ["groups"]
    assert offered("groups", "re") == ["remove-member", "reset"]
    assert offered("topics", "d") == ["delete", "describe"]
    assert "--max-lag" in offered("groups", "check", "--")
    assert offered("groups", "list", "--sort", "r") == ["rebalances"]
    assert {"cluster", "console", "consume", "metrics", "produce"} <= set(offered("c") + offered("m") + offered("p"))


def test_words_of_other_tools_are_not_offered() -> None:
    assert "group" not in offered("g")
    assert "seek" not in offered("groups", "s")


def test_a_real_bash_completes() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not on this machine")
    script = (
        f'PATH="{PROGRAM.parent}:$PATH"; eval "$(_EQUIPOISE_COMPLETE=bash_source equipoise)"; '
        'COMP_WORDS=(equipoise groups ex); COMP_CWORD=2; _equipoise_completion equipoise; echo "${COMPREPLY[@]}"'
    )
    ended = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "explain\n"
