from __future__ import annotations

import pytest

from equipoise.console.main import run
from tests.commands import Command, command_of


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command("topics", "list")` runs `equipoise topics list` in this process."""
    return command_of("equipoise", run, capsys, monkeypatch)
