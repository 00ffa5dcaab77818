"""The same seed gives the same hunt in every process: what the coordinator and the members do hangs on no hash."""

from __future__ import annotations

import os
import subprocess
import sys
from difflib import unified_diff

from tests.effort import examples

SEEDS = range(examples(12))  # of each kind of hunt: gentle, rough, mixed, with held heartbeats


def transcripts(hash_seed: str) -> list[str]:
    command = [sys.executable, "-m", "tests.simulate.transcripts_of_hunts", *map(str, SEEDS)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return ended.stdout.splitlines()


def test_a_seed_gives_the_same_run_whatever_the_hash_of_strings() -> None:
    first, second = transcripts("1"), transcripts("2")
    assert len(first) > 100 * len(SEEDS), "the hunts have told too little"
    assert first == second, "\n".join(list(unified_diff(first, second, n=2))[:40])
