"""What a script about consumers on ZooKeeper can say: one function per command, named in COMMANDS at the end."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.simulate import messages
from equipoise.simulate.scripts.arguments import Arguments, milliseconds
from equipoise.simulate.scripts.words import Words
from equipoise.simulate.transcript import clock_time
from equipoise.simulate.zookeeper.member import SimulatedMember
from equipoise.simulate.zookeeper.world import World
from equipoise.wire.errors import UsageError


class Lines:
    """What is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []


class ZooKeeperStage:
    """A tree in memory, and consumers that share partitions by it. No words are needed: nobody says why."""

    def __init__(self, words: Words) -> None:
        self.transcript = Lines()
        self.world = World()
        self.world.noted = self._note
        self.members: dict[str, SimulatedMember] = {}
        self.topics: list[str] = []
        self.asked: dict[str, int] = {}

    def member(self, name: str) -> SimulatedMember:
        """UsageError if there is none of that name."""
        if name not in self.members:
            raise UsageError(f"there is no consumer {name}")
        return self.members[name]

    def say(self, line: str) -> None:
        """Adds a line, with the time before it."""
        self.transcript.lines.append(f"{clock_time(self.world.now)} {line}")

    def _note(self, member: SimulatedMember) -> None:
        self.say(f"{member.name} reads {messages.partitions(frozenset(member.fetching))}")


def topic(stage: ZooKeeperStage, given: Arguments) -> None:
    """topic orders partitions=3"""
    name = given.word()
    stage.topics.append(name)
    stage.world.topic(name, given.number("partitions", 1))


def consumer(stage: ZooKeeperStage, given: Arguments) -> None:
    """consumer a topics=orders strategy=range mode=faithful: without topics, it subscribes to all that there are"""
    name, strategy = given.word(), given.option("strategy", "range")
    mode = given.option("mode", "faithful")
    topics = dict.fromkeys(given.names("topics", stage.topics), 1)
    stage.members[name] = stage.world.join(name, topics, mode=mode, partition_assignment_strategy=strategy)


def die(stage: ZooKeeperStage, given: Arguments) -> None:
    """die a: its process is killed; ZooKeeper notices at the end of its session, 6 s later"""
    stage.world.die(stage.member(given.word()))


def close(stage: ZooKeeperStage, given: Arguments) -> None:
    """close a: it commits and ends its session"""
    stage.member(given.word()).leave()


def advance(stage: ZooKeeperStage, given: Arguments) -> None:
    """advance 10s: time passes"""
    stage.world.run(milliseconds(given.word()), reads=0)


def owners(stage: ZooKeeperStage, given: Arguments) -> None:
    """Who owns each partition, as it stands in ZooKeeper."""
    found = stage.world.owners()
    for one in sorted(stage.world.ends):
        owner = found.get(one)
        told = "nobody" if owner is None else owner.rpartition("-")[0].partition("_")[2]
        stage.transcript.lines.append(f"{one.topic}:{one.partition} {told}")


def errors(stage: ZooKeeperStage, given: Arguments) -> None:
    """What consumers have told their applications."""
    for name, member in stage.members.items():
        told = ", ".join(f"{type(error).__name__}: {error}" for error in member.errors) or "no errors"
        stage.transcript.lines.append(f"{name}: {told}")


def requests(stage: ZooKeeperStage, given: Arguments) -> None:
    """How often each consumer has asked ZooKeeper since the last time."""
    for name, member in stage.members.items():
        if member in stage.world.members and not member.is_paused:
            count = member.asked - stage.asked.get(name, 0)
            stage.transcript.lines.append(f"{name}: {count} requests to ZooKeeper")
        stage.asked[name] = member.asked


Command = Callable[[ZooKeeperStage, Arguments], None]
COMMANDS: dict[str, Command] = {
    one.__name__: one for one in (topic, consumer, die, close, advance, owners, errors, requests)
}
