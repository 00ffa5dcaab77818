"""What happens to a group in a plan: members come, go, die and stand still, each at its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from random import Random
from typing import NamedTuple

from equipoise.simulate.plan.settings import PlanSettings


class What(Enum):
    """Kinds of events."""

    CLOSE = auto()  # in order; a static member keeps its place
    CRASH = auto()
    PAUSE = auto()
    START = auto()  # a new process of a member, or a new member
    RESUME = auto()


class Happening(NamedTuple):
    """`member` is its number."""

    at: float
    what: What
    member: int


class Scenario(NamedTuple):
    """`most_members`: that there are at any time. In time order."""

    happenings: list[Happening]
    most_members: int


def rolling_restart(settings: PlanSettings) -> Scenario:
    """One after another is closed, and is back; the next one waits until it is. All members, or those affected."""
    found = []
    for number in range(min(settings.affected or settings.members, settings.members)):
        at = number * (settings.restart_ms + _pause_between(settings))
        found.append(Happening(at, What.CLOSE, number))
        found.append(Happening(at + settings.restart_ms, What.START, number))
    return Scenario(found, settings.members)


def _pause_between(settings: PlanSettings) -> float:
    """Two heartbeats, so that the group is at rest."""
    return 2 * max(settings.heartbeat_interval_ms, settings.consumer_heartbeat_interval_ms)


def scale_out(settings: PlanSettings) -> Scenario:
    """New members come within the window."""
    new = settings.affected or max(settings.members // 4, 1)
    step = settings.window_ms / new
    found = [Happening(number * step, What.START, settings.members + number) for number in range(new)]
    return Scenario(found, settings.members + new)


def crash(settings: PlanSettings) -> Scenario:
    """Some members die at one moment, and are not replaced."""
    return Scenario([Happening(0.0, What.CRASH, one) for one in range(_few(settings))], settings.members)


def gc_pause(settings: PlanSettings) -> Scenario:
    """Some members stand still at one moment, and then go on."""
    paused = [Happening(0.0, What.PAUSE, one) for one in range(_few(settings))]
    resumed = [Happening(float(settings.pause_ms), What.RESUME, one) for one in range(_few(settings))]
    return Scenario(paused + resumed, settings.members)


def deploy_storm(settings: PlanSettings) -> Scenario:
    """All members are restarted, each at some time of the window."""
    random = Random(settings.seed)
    found = []
    for number in range(settings.members):
        at = random.random() * settings.window_ms
        found += [Happening(at, What.CLOSE, number), Happening(at + settings.restart_ms, What.START, number)]
    return Scenario(sorted(found, key=lambda one: one.at), settings.members)


def _few(settings: PlanSettings) -> int:
    return min(settings.affected or max(settings.members // 100, 1), settings.members - 1 or 1)


SCENARIOS: Mapping[str, Callable[[PlanSettings], Scenario]] = {
    "rolling-restart": rolling_restart,
    "scale-out": scale_out,
    "crash": crash,
    "gc-pause": gc_pause,
    "deploy-storm": deploy_storm,
}
