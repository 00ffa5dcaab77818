"""docs/testing.md and docs/recipes.md are test files; README.md begins with a program and a test.
They run as a reader would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.server_process import free_port

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
    (passed,) = re.findall(r"^(\d+) passed", printed, re.MULTILINE)
    written = re.findall(r"^def test_", source, re.MULTILINE)
    assert int(passed) >= len(written) > 0  # one may run with several parameters
    assert "skipped" not in printed


@pytest.mark.parametrize("page", ["docs/testing.md", "docs/recipes.md"])
def test_the_page_runs(tmp_path: Path, page: str) -> None:
    _run_tests(tmp_path, "\n\n".join(_blocks(page)))


def test_the_readme_runs(tmp_path: Path) -> None:
    program, _, test = _blocks("README.md")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    assert _run(tmp_path, "program.py") == "b'customer-1' b'three apples'\nStable\n"
    _run_tests(tmp_path, test)


def test_the_secured_example_of_the_readme_runs(tmp_path: Path) -> None:
    """Its command and its program, on a free port."""
    pytest.importorskip("cryptography")
    _, program, _ = _blocks("README.md")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^equipoise (serve .*--tls.*?)  ", page, re.MULTILINE)
    (name, users) = re.findall(r"a file `(.*?)` with the line `(.*?)`", page)[0]
    (tmp_path / name).write_text(f"{users}\n", encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "program.py").write_text(program.replace("127.0.0.1:9092", address), encoding="utf-8")
    arguments = [sys.executable, "-m", "equipoise", *command.split(), "--listen", address]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            assert "ready" in served.stdout.readline()
            _run(tmp_path, "program.py")
        finally:
            served.terminate()
