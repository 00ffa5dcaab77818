"""docs/testing.md is a test file; README.md begins with a program and a test. They run as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def _run(directory: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _run_tests(directory: Path, source: str) -> None:
    (directory / "test_page.py").write_text(source, encoding="utf-8")
    printed = _run(directory, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=120", "test_page.py")
    assert f"{len(re.findall(r'^def test_', source, re.MULTILINE))} passed" in printed


def test_the_page_runs(tmp_path: Path) -> None:
    _run_tests(tmp_path, "\n\n".join(_blocks("docs/testing.md")))


def test_the_readme_runs(tmp_path: Path) -> None:
    program, test = _blocks("README.md")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    assert _run(tmp_path, "program.py") == "b'customer-1' b'three apples'\nStable\n"
    _run_tests(tmp_path, test)
