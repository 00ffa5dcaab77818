"""Thousands of members in one group: the heartbeats of other groups wait for less than 50 ms of the loop's work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack.control import ControlGroup
from tests.attack.meter import Meter
from tests.crash.served import ServedBroker

P99_HELD_S = 0.05
# All of the crowd are there when the first generation begins.
SETTINGS = {"group.initial.rebalance.delay.ms": 2000, "group.initial.rebalance.delay.quiet.ms": 0}


@pytest.mark.parametrize("members", [4_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_crowd_in_one_group_is_not_noticed_by_others(tmp_path: Path, members: int) -> None:
    with ServedBroker(tmp_path / "data", tmp_path / "log", SETTINGS) as served:
        control = ControlGroup(served.address, Meter(served.pid)).start()
        control.beats_until_now(10)
        crowd = [sys.executable, "-m", "tests.attack.crowd", served.address, str(members), "400"]
        subprocess.run(crowd, check=True)
        beats = control.beats_until_now(50)
        print(beats)
        assert control.revocations == 0
        control.stop()
        assert control.errors == []
        assert beats.p99_held < P99_HELD_S, str(beats)
        assert "Traceback" not in served.log.read_text()
