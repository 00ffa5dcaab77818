"""This tree for child processes: `proving` and `bench` are installed nowhere, and a child may start in any place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def python_module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this tree; `with_tree` is its environment."""
    return [sys.executable, "-m", name, *arguments]


def with_tree() -> dict[str, str]:
    """What a child needs beside the variables of this process to import from this tree."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{ROOT}{os.pathsep}{before}" if before else str(ROOT)}
