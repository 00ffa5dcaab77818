"""`python -m bench`: its options, and what it says when something is missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.__main__ import app
from proving.tree import python_module, with_tree
from tests.commands import Command, check_line, check_words, run_bare


def test_a_slip_is_one_line(command: Command) -> None:
    told = "--records 3: write a whole number, 24 or more"
    check_line(command("history", "--records", "3"), told, "bench")
    told = "--picture /nowhere/x.png: there is no directory /nowhere; make it first"
    check_line(command("generations", "--picture", "/nowhere/x.png"), told, "bench")


def test_without_its_packages_it_says_what_to_install() -> None:
    check_line(run_bare("bench.__main__", "handover"), "pip install 'equipoise[", "bench")


def test_every_option_has_words() -> None:
    check_words(app)


def test_a_child_finds_this_tree_from_anywhere(tmp_path: Path) -> None:
    environment = {**os.environ, **with_tree()}
    command = python_module("bench", "broker", "--help")
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Usage: python -m bench broker")
    assert "--json" in shown
