"""One script, played step by step against both brokers at once; what differs, and whether it is listed.

Where Kafka leaves a choice to the order of a hash map (which of several members leads when the leader has gone)
both may be right and different. Then the script is played again until both have chosen alike.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proving.conformance.consumer.generate import ConsumerDrawing
from proving.conformance.consumer.side import RECORDS, ConsumerSide, begins_resolution
from proving.conformance.generate import LENGTH, Drawing
from proving.conformance.listed import NOTHING, Found, listed
from proving.conformance.side import Moment, Side
from proving.conformance.steps import AddPartitions, Ask, DropTopic, MakeTopic, Pause, Restart, Script, Step
from proving.conformance.worlds import World

_ATTEMPTS = 16
_DOUBTS = 3
_numbers = itertools.count(1)
_sharing = threading.Lock()  # for scripts that use groups of the same name


class Page(NamedTuple):
    """A step and what came of it on both sides."""

    step: Step
    kafka: Moment
    ours: Moment


@dataclass
class Played:
    script: Script
    pages: list[Page] = field(default_factory=list)
    different: list[Found] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    again: str = ""  # why this play says nothing
    is_drawn: bool = False  # by chance
    steps: int = 0


def play(script: Script, world: World) -> Played:
    """Plays until the outcome is one of the brokers' rules, not of chance or of a slow machine.

    Timers of two brokers are never read at the same instant, and what Kafka's controller decides reaches its broker
    some time later: where there is either, a difference must show each time.
    """
    doubts = 0 if world.is_busy and not _asks_the_controller(script) else _DOUBTS
    for _ in range(_ATTEMPTS):
        played = play_once(script, world)
        if not played.again and (not played.different or not doubts):
            break
        doubts -= bool(played.different)
    return played


def _asks_the_controller(script: Script) -> bool:
    return any(
        isinstance(step, MakeTopic | DropTopic | AddPartitions)
        or (isinstance(step, Ask) and step.api == "IncrementalAlterConfigs")
        for step in script.steps
    )


def play_once(script: Script, world: World) -> Played:
    with _sharing if script.shares_groups else nullcontext():
        return _play(script, world)


def play_drawn(name: str, world: World) -> Played:
    """A script of chance. What was played is in the outcome, to be played again."""
    drawing = ConsumerDrawing(name) if world.has_consumer_groups else Drawing(name)
    script = Script("random", name, [])

    def steps() -> Iterator[Step]:
        for _ in range(LENGTH):
            if played.pages:
                drawing.look(played.pages[-1].kafka)
            yield drawing.draw()

    with _sides(script, world) as (kafka, ours):
        playing = _Play(script, kafka, ours)
        played = playing.played
        playing.run(steps())
    played.is_drawn = True
    played.script = Script("random", name, [page.step for page in played.pages])
    return played


def play_across_restart(scripts: Sequence[Script], world: World) -> list[Played]:
    """All up to where they restart the brokers, which is done once; then all to their ends."""
    with ExitStack() as opened:
        plays = [_Play(script, *opened.enter_context(_sides(script, world))) for script in scripts]
        halves = [list(script.steps) for script in scripts]
        cuts = [steps.index(Restart()) for steps in halves]
        for one, steps, cut in zip(plays, halves, cuts, strict=True):
            one.run(steps[:cut])
        world.restart()
        return [one.run(steps[cut:]) for one, steps, cut in zip(plays, halves, cuts, strict=True)]


def play_on(script: Script, kafka: Side, ours: Side, steps: Iterable[Step]) -> Played:
    """Some of the steps of a script, by members who know already what went before."""
    return _Play(script, kafka, ours).run(steps)


def _play(script: Script, world: World) -> Played:
    with _sides(script, world) as (kafka, ours):
        return _Play(script, kafka, ours).run(script.steps)


@contextmanager
def _sides(script: Script, world: World) -> Iterator[tuple[Side, Side]]:
    number = next(_numbers)
    side = ConsumerSide if world.has_consumer_groups else Side
    marks = "ab" if world.kafka is world.ours else ("", "")  # one broker beside itself
    pairs = zip((world.kafka, world.ours), marks, strict=True)
    kafka, ours = (
        side(world, place, {name: f"{name}-{number}{mark}" for name in script.groups}) for place, mark in pairs
    )
    with closing(kafka), closing(ours):
        yield kafka, ours


class _Play:
    def __init__(self, script: Script, kafka: Side, ours: Side) -> None:
        self._script = script
        self._kafka = kafka
        self._ours = ours
        self.played = Played(script)
        self._groups = script.groups
        self._leaders: dict[str, str | None] = dict.fromkeys(self._groups)  # None: gone, or none yet
        self._forgiven: set[str] = set()
        self._sweeps = script.world == "expiry"
        self._history: list[Step] = []
        self._is_over = False

    def run(self, steps: Iterable[Step]) -> Played:
        played, brisk = self.played, self._script.brisk_ms / 1000
        waited = time.monotonic()
        for step in () if played.different or played.again else steps:
            self.play(step)
            if not isinstance(step, Ask):
                waited = time.monotonic()
            elif brisk and time.monotonic() - waited > brisk:
                played.again = "the machine was too slow for the timers of the script"
            if played.different or played.again or self._is_over:
                break
        return played

    def play(self, step: Step) -> None:
        self._kafka.begin(step)
        self._ours.begin(step)
        if isinstance(step, Pause):
            time.sleep(step.ms / 1000)
        page = Page(step, self._kafka.settle(step), self._ours.settle(step))
        self.played.pages.append(page)
        self.played.steps += 1
        self._history.append(step)
        is_free = self._is_free_choice(page)
        if is_free:
            self.played.again = "Kafka's hash map has chosen another leader"
        for found in differences(self._script, self._history, page):
            if self._is_certain(step, found) and not (is_free and _is_of_leader(found)):
                self._judge(found)
        self._follow_leaders(page.kafka)

    def _is_certain(self, step: Step, found: Found) -> bool:
        """Sweeps and deleted topics take their time: what is seen of groups is certain behind a wait only."""
        is_slow = isinstance(step, DropTopic) or (self._sweeps and isinstance(step, Ask)) or begins_resolution(step)
        return found.key not in (*self._groups, RECORDS) or not is_slow

    def _judge(self, found: Found) -> None:
        if found.key in self._forgiven:
            return
        row = listed(found)
        if row is None:
            self.played.different.append(found)
            return
        self.played.listed.add(row.name)
        self._is_over |= row.ends
        if row.once:
            return
        self._forgiven.add(found.key)
        self._kafka.forgive(found.key)
        self._ours.forgive(found.key)

    # -- leaders

    def _is_free_choice(self, page: Page) -> bool:
        """Whether several members could have become leader, and the brokers' choices differ."""
        for group in self._groups:
            kafka, ours = _joined(page.kafka), _joined(page.ours)
            leader, joined = self._leaders[group], kafka.keys()
            alone = len(page.kafka[group]["members"]) < 2  # who waited on a connection that is gone counts too
            if joined != ours.keys() or alone or kafka == ours:
                continue
            if leader is None or not _is_among(leader, joined):
                return True
        return False

    def _follow_leaders(self, moment: Moment) -> None:
        for group in self._groups:
            members = [row["member_id"] for row in moment[group]["members"]]
            if moment[group].get("type") == "consumer":
                self._leaders[group] = None  # it has none, and who leads after it is anybody's choice
            if (leader := self._leaders[group]) and not _is_among(leader, members):
                self._leaders[group] = None
            if len(members) == 1:
                self._leaders[group] = members[0]
        for leader in _joined(moment).values():
            self._leaders[self._groups[0]] = leader


def _joined(moment: Moment) -> dict[str, str]:
    """The members whose JoinGroup was answered, each with the leader it was told."""
    answers = [one for key, one in moment.items() if " JoinGroup " in key and isinstance(one, dict)]
    return {one["member_id"]: one["leader"] for one in answers if one["error_code"] == "NONE"}


def _is_of_leader(found: Found) -> bool:
    """Who leads, and who therefore is told the members."""
    return " JoinGroup " in found.key and found.path in ("leader", "members")


def _is_among(member: str, members: Collection[str]) -> bool:
    """Under its id; or, if it is static, under a newer one."""
    prefix = member.rpartition("#")[0]
    return member in members or (prefix.isupper() and prefix in (one.rpartition("#")[0] for one in members))


# -- differences


def differences(script: Script, history: Sequence[Step], page: Page) -> list[Found]:
    keys = list(dict.fromkeys([*page.kafka, *page.ours]))
    return [
        Found(script, tuple(history), key, path, kafka, ours, page.kafka, page.ours)
        for key in keys
        for path, kafka, ours in _compare("", page.kafka.get(key, NOTHING), page.ours.get(key, NOTHING))
    ]


def _compare(path: str, kafka: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for name in dict.fromkeys([*kafka, *ours]):
            yield from _compare(f"{path}.{name}".lstrip("."), kafka.get(name, NOTHING), ours.get(name, NOTHING))
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for index, (one, other) in enumerate(zip(kafka, ours, strict=True)):
            yield from _compare(f"{path}[{index}]", one, other)
    elif kafka != ours:
        yield path, kafka, ours
