"""The processes members of groups run in, seen from the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.interop.drivers.base import PATIENCE_S, MissingClient
from tests.interop.drivers.group_events import Event, Ledger
from tests.interop.drivers.kafkajs import HERE as KAFKAJS

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Membership:
    """What a member is to be. `commit` is `sync`, after each batch, or `auto`, by the client itself."""

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str = "range"
    instance_id: str | None = None
    session_ms: int = 30_000
    heartbeat_ms: int = 300
    metadata_age_ms: int = 300_000
    commit: str = "sync"
    commit_ms: int = 100


class Host(ABC):
    """A process with members in it. A member's name is unique in the host's life."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._ledgers: dict[str, Ledger] = {}
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr(stderr), cwd=ROOT
            )
