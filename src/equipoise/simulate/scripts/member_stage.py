"""Where a script about members plays: a world, and what is said in it. Members act by themselves."""

from __future__ import annotations

from typing import Any

from equipoise.coordinator.config import GroupConfig
from equipoise.simulate.clock import Clock
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.invariants import Invariants
from equipoise.simulate.network import Network
from equipoise.simulate.observer import Observer
from equipoise.simulate.rules import Rules
from equipoise.simulate.scripts.words import Words
from equipoise.simulate.transcript import Transcript
from equipoise.simulate.world import World
from equipoise.wire.errors import UsageError

_CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=0)


class MemberStage:
    """The coordinator waits for nobody, and takes any session timeout, unless `config` says otherwise. `is_mute`:
    nobody reads the transcript, and only what commands say is in it."""

    def __init__(self, words: Words, *, is_mute: bool = False) -> None:
        self.words = words
        self.is_mute = is_mute
        self.config = _CONFIG
        self.network: dict[str, Any] = {}
        self.rules: Rules | None = None
        self.is_watched = False
        self._ids = 0
        self._world: World | None = None
        self._clock = Clock()
        self.transcript = Transcript(self._clock, words.event)

    @property
    def world(self) -> World:
        """It begins with the first command that needs it: settings come before."""
        if self._world is None:
            observers: list[Observer] = [] if self.is_mute else [self.transcript]
            observers.append(Invariants())
            self._world = World(
                config=self.config,
                clock=self._clock,
                network=Network(self._clock, **self.network),
                observers=observers,
                new_id=self._new_id if self.is_watched else None,
            )
        return self._world

    def check_unbegun(self) -> None:
        """UsageError if it is too late for settings."""
        if self._world is not None:
            raise UsageError("the world has begun; settings come before topics and members")

    def watch(self) -> None:
        """From here on all rules are checked at every step."""
        if self.rules is None:
            self.is_watched = True
            self.rules = Rules(self.world)

    def _new_id(self) -> str:
        """Also where a member id is nothing but this number, no two are the same."""
        self._ids += 1
        return f"id{self._ids}"

    def consumer(self, name: str) -> Consumer:
        """UsageError if there is none of that name."""
        found = self.world.consumers.get(name)
        if found is None:
            raise UsageError(f"there is no member {name}")
        return found
