"""A schedule: what happens to a group, drawn from a seed, as the commands of a script.

It is drawn without a look at the world. So a part of it is a schedule too, and a failing one can be shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from equipoise.simulate.hunt.kinds import KINDS, Kind

INTERVAL, SESSION, MAX_POLL = 500, 6_000, 8_000
MOST_MEMBERS, MOST_PARTITIONS = 6, 10
_TIMES = "heartbeat=500ms session=6s max.poll=8s"
_ENDS = (SESSION + 1_000, 2 * SESSION)


class Schedule(NamedTuple):
    """`scene`: settings and topics. `moves`: what happens, and the time between. `ending`: the faults end, and what
    must be true then."""

    seed: int
    kind: str
    scene: tuple[str, ...]
    moves: tuple[str, ...]
    ending: tuple[str, ...]

    @property
    def lines(self) -> Sequence[str]:
        """All commands."""
        return (*self.scene, *self.moves, *self.ending)


def draw(seed: int, kinds: Sequence[Kind] = KINDS, length: int = 40) -> Schedule:
    """The schedule of a seed: the same in every process."""
    random = Random(seed)
    kind = random.choice(kinds)
    drawing = _Drawing(random, kind)
    scene = drawing.scene(seed)
    for _ in range(length):
        drawing.move()
    return Schedule(seed, kind.name, scene, tuple(drawing.lines), drawing.ending())


class _Drawing:
    """Draws moves, and keeps account of the members that there may be."""

    def __init__(self, random: Random, kind: Kind) -> None:
        self.random = random
        self.kind = kind
        self.lines: list[str] = []
        self.names = 0
        self.living: dict[str, str | None] = {}  # instance ids
        self.partitions = {"t": 6, "u": 3}
        faults = [*self._faults()]
        # Of all faults each run has some: what would hide behind another comes out.
        chosen = random.sample(faults, random.choice([0, 1, 2, 4, len(faults)]))
        self.moves: list[Callable[[], str]] = [*self._gentle(), *chosen, *chosen]

    # -- the scene

    def scene(self, seed: int) -> tuple[str, ...]:
        """Settings, network and topics."""
        random, draw = self.random, self.random.choice
        config = [
            "group.consumer.heartbeat.interval.ms=500",
            "group.consumer.session.timeout.ms=6000",
            f"group.consumer.assignment.interval.ms={draw([0, 0, 1000])}",
            f"group.initial.rebalance.delay.ms={draw([0, 0, 300])}",
            f"group.rebalance.debounce.ms={draw([0, 0, 100])}",
            self.kind.config,
        ]
        jitter, loss = draw([0, 30, 30, 200]), draw(["0", "0", "1", "3"])
        lines = [
            f"config {' '.join(config).strip()}",
            f"network latency={random.randint(1, 5)}ms jitter={jitter}ms loss={loss}% seed={seed}",
            "watch",
            *(f"topic {name} partitions={count}" for name, count in self.partitions.items()),
            f"hold {draw([0, 0, INTERVAL - 50])}ms",
        ]
        if random.random() < 0.3:
            lines.append(f"disk takes={draw([5, 40, 300])}ms")
        return tuple(lines)

    def ending(self) -> tuple[str, ...]:
        """Who is late comes back, one reader at least is there, and then there is calm."""
        last = f"m{self.names + 1}"
        return (
            "heal",
            f"advance {MAX_POLL + 2 * INTERVAL}ms",
            *self._started(last, None, takes=0),
            "subscribe-all t u",
            f"advance {2 * SESSION}ms",
            *(("rebalance-all",) if self.kind.has_classic else ()),
            f"settle within={4 * SESSION + 2 * MAX_POLL}ms",
            f"advance {2 * SESSION}ms",
            "rest 30s",
        )

    # -- moves

    def move(self) -> None:
        """One thing happens, and some time passes."""
        if not self.living:
            self._join()
        else:
            line = self.random.choice(self.moves)()
            if line:
                self.lines.append(line)
        self.lines.append(f"advance {self._time()}ms")

    def _time(self) -> int:
        return self.random.choice(
            [self.random.randint(1, 30), self.random.randint(1, 2 * INTERVAL), self.random.randint(1, 6 * INTERVAL)]
        )

    def _gentle(self) -> list[Callable[[], str]]:
        moves = [self._join, self._join, self._leave, self._subscribe, self._read, self._read, self._read, self._grow]
        return [*moves, self._listen, self._come_back, self._ask]

    def _faults(self) -> list[Callable[[], str]]:
        return [
            *(self._die, self._freeze, self._be_late, self._skew, self._cut, self._partition, self._stall, self._lose),
            *(self._crash, self._move, self._depose, self._pause, self._slow_disk, self._fail_writes),
            *(self._late_commit, self._lose_answers),
        ]

    def _any(self) -> str:
        return self.random.choice(list(self.living))

    # -- members

    def _join(self) -> str:
        if len(self.living) < MOST_MEMBERS:
            self._start(f"i{self.names}" if self.random.random() < self.kind.static else None)
        return ""

    def _start(self, instance: str | None) -> None:
        self.names += 1
        name = f"m{self.names}"
        self.living[name] = instance
        self.lines += self._started(name, instance, takes=self.random.choice([0, 0, 50, 300]))
        self.lines.append(self._subscribed(name))

    def _started(self, name: str, instance: str | None, *, takes: int) -> list[str]:
        which = self.random.choice(self.kind.members)
        times = "max.poll=8s" if which == "protocol=consumer" else _TIMES
        named = f" instance={instance}" if instance else ""
        commits = self.random.choice(["yes", "no"])
        return [
            f"member {name} {which} {times}{named}",
            f"listener {name} takes={takes}ms commits={commits}",
            *([f"subscribe {name} t u"] if not takes else []),
        ]

    def _subscribe(self) -> str:
        return self._subscribed(self._any())

    def _subscribed(self, name: str) -> str:
        return f"subscribe {name} {self.random.choice(['t', 't u', 'u', 't'])}"

    def _leave(self) -> str:
        name = self._any()
        del self.living[name]
        return f"close {name}"

    def _come_back(self) -> str:
        """A static member is restarted: it closes, or it is dead, or its old process is still there."""
        statics = [name for name, instance in self.living.items() if instance is not None]
        if not statics:
            return ""
        name = self.random.choice(statics)
        instance = self.living.pop(name)
        how = self.random.choice(["close", "close", "die", ""])
        if how:
            self.lines += [f"{how} {name}", f"advance {self.random.choice([1, 100, 500, 1_000])}ms"]
        self._start(instance)
        return ""

    def _read(self) -> str:
        return f"read {self._any()} {self.random.randint(1, 9)}"

    def _listen(self) -> str:
        takes = self.random.choice([0, 1, 300, INTERVAL, SESSION + 500])
        return f"listener {self._any()} takes={takes}ms commits={self.random.choice(['yes', 'no'])}"

    def _ask(self) -> str:
        return f"rebalance {self._any()}"

    def _grow(self) -> str:
        name = self.random.choice("tu")
        self.partitions[name] = min(self.partitions[name] + 1, MOST_PARTITIONS)
        return f"topic {name} partitions={self.partitions[name]}"

    # -- what breaks

    def _die(self) -> str:
        name = self._any()
        del self.living[name]
        return f"die {name}"

    def _freeze(self) -> str:
        return f"freeze {self._any()} {self.random.choice([50, INTERVAL, 2_000, *_ENDS])}ms"

    def _be_late(self) -> str:
        return f"late {self._any()} {self.random.choice([INTERVAL, MAX_POLL + 1_000])}ms"

    def _skew(self) -> str:
        return f"clocks rate={self.random.choice([0.9, 0.99, 1.01, 1.1])} ahead={self.random.choice([0, 10_000])}ms"

    def _cut(self) -> str:
        return f"cut {self._any()}"

    def _partition(self) -> str:
        names = self.random.sample(list(self.living), self.random.randint(1, len(self.living)))
        return f"partition {' '.join(names)} for={self.random.choice([50, 1_000, 3_000, *_ENDS])}ms"

    def _stall(self) -> str:
        return f"stall {self._any()} {self.random.choice([50, 1_000, 3_000, *_ENDS])}ms"

    def _lose(self) -> str:
        return f"lose {self._any()} {self.random.choice(['request', 'reply'])}"

    def _crash(self) -> str:
        return f"crash loading={self.random.choice([0, 0, 100, 1_000])}ms keeps={self.random.choice([0, 0, 1, 2])}"

    def _move(self) -> str:
        loading, keeps = self.random.choice([0, 100, 1_000]), self.random.choice([0, 0, 1, 2])
        away = self.random.choice([0, 50, 1_000])
        return f"move away={away}ms loading={loading}ms keeps={keeps} ahead={self.random.choice([0, 60])}s"

    def _depose(self) -> str:
        loading, keeps = self.random.choice([0, 100, 1_000]), self.random.choice([0, 0, 1, 2])
        stale = self.random.choice([50, INTERVAL, 3_000])
        return f"move stale={stale}ms loading={loading}ms keeps={keeps}"

    def _pause(self) -> str:
        return f"pause {self.random.choice([50, INTERVAL, 3_000, SESSION + 1_000])}ms"

    def _slow_disk(self) -> str:
        return f"disk takes={self.random.choice([0, 5, 40, 300])}ms"

    def _late_commit(self) -> str:
        """A rebalance ends while one member does not hear of it, and goes on with its work."""
        slow = self._any()
        self.lines += [f"rebalance {self._any()}", f"advance {self.random.randint(1, 2 * INTERVAL)}ms"]
        self.lines += [f"stall {slow} 1500ms", f"advance {self.random.randint(1, 1_000)}ms"]
        return f"read {slow} 2"

    def _lose_answers(self) -> str:
        """The group changes again and again while one member hears nothing: what it says then is epochs behind."""
        deaf = self._any()
        for _ in range(self.random.randint(3, 6)):
            change = self._subscribe()
            self.lines += [change, f"lose {deaf} reply", f"advance {self.random.randint(10, 300)}ms"]
        return f"read {deaf} 1"

    def _fail_writes(self) -> str:
        """While something is being written."""
        self.lines.append("disk takes=300ms")
        what = self.random.choice([self._subscribe, self._read, self._ask, self._leave, self._join])()
        self.lines += [what, f"advance {self.random.randint(1, 400)}ms"] if what else ["advance 250ms"]
        self.lines += ["fail-writes NOT_ENOUGH_REPLICAS", "advance 1ms"]
        return f"disk takes={self.random.choice([0, 0, 5])}ms"
