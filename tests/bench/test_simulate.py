"""`python -m bench simulate`: a very short run, and what becomes of the numbers."""

from __future__ import annotations

import json

import pytest

from bench import simulate
from tests.commands import Command


def test_a_short_run_has_all_figures(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "QUICK", simulate.Size(1, 2, 20))
    ended = command("simulate", "--quick", "--json")
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    assert (told["bench"], told["seeds"], told["members"]) == ("simulate", 2, 20)
    assert set(told["figures"]) == {"steps", "runs", "plan"}
    assert told["figures"]["steps"]["best"] > 0
    assert told["figures"]["steps"]["aim_at_least"] == 1_000_000
