"""What the benches do to the machine before they measure."""

from __future__ import annotations

from pathlib import Path

import pytest

import equipoise
from bench.machine import compile_package


def test_a_start_is_measured_as_that_of_an_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout without byte code each start would compile the package."""
    source = tmp_path / "equipoise" / "broker" / "server.py"
    source.parent.mkdir(parents=True)
    source.write_text("x = 1\n")
    monkeypatch.setattr(equipoise, "__file__", str(tmp_path / "equipoise" / "__init__.py"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    compile_package()
    assert [found.name.partition(".")[0] for found in source.parent.glob("__pycache__/*.pyc")] == ["server"]
