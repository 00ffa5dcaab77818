from __future__ import annotations

import pytest

from bench.__main__ import run
from tests.commands import Command, command_of


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command("broker", "--json")` runs `python -m bench broker --json` in this process."""
    return command_of("bench", run, capsys, monkeypatch)
