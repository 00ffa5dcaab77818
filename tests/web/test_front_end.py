"""The front end without a browser: types in JSDoc, and unit tests of its pure modules, by deno."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from deno import find_deno_bin

HERE = Path(__file__).parent
STATIC = HERE.parents[1] / "src/equipoise/console/web/static"
MOST_LINES = 300


def deno(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": str(home), "NO_COLOR": "1"}
    command = [find_deno_bin(), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_types_hold(tmp_path: Path) -> None:
    files = [str(one) for one in sorted(STATIC.glob("*.js"))]
    done = deno("check", "--config", str(HERE / "deno.json"), *files, str(HERE / "front_end_test.js"), home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pure_modules(tmp_path: Path) -> None:
    done = deno(
        "test", "--no-check", "--config", str(HERE / "deno.json"), str(HERE / "front_end_test.js"), home=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count = (HERE / "front_end_test.js").read_text(encoding="utf-8").count("\nDeno.test(")
    assert f"{count} passed | 0 failed" in done.stdout


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_files_are_short_and_checked(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n// ")
    assert len(text.splitlines()) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 120
