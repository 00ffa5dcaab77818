from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from equipoise.console.main import run


class Ended(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command("topics", "list")` runs `equipoise topics list` in this process."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["equipoise", *arguments])
        status = 0
        try:
            run()
        except SystemExit as end:
            status = int(end.code or 0)
        return Ended(status, *capsys.readouterr())

    return call
