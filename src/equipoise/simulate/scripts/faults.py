"""What breaks in a script about members: processes, connections, clocks, the coordinator and its disk."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.simulate.scripts.arguments import Arguments, milliseconds
from equipoise.simulate.scripts.member_stage import MemberStage
from equipoise.simulate.world import NOWHERE
from equipoise.wire.errors import ErrorCode, UsageError

# -- processes


def die(stage: MemberStage, given: Arguments) -> None:
    """die a: its process is killed"""
    name = stage.consumer(given.word()).name
    stage.world.kill(name)


def freeze(stage: MemberStage, given: Arguments) -> None:
    """freeze a 7s: its process stops for so long, as in a collection of garbage"""
    stage.consumer(given.word()).freeze(milliseconds(given.word()))


def late(stage: MemberStage, given: Arguments) -> None:
    """late a 9s: its application does not poll for so long"""
    consumer = stage.consumer(given.word())
    consumer.polls = False
    stage.world.clock.after(milliseconds(given.word()), consumer.poll)


def clocks(stage: MemberStage, given: Arguments) -> None:
    """clocks rate=1.05 ahead=3s: of processes that start from now on"""
    stage.world.rate = float(given.option("rate", "1") or 1)
    stage.world.ahead_ms = given.duration("ahead", 0)


# -- connections


def cut(stage: MemberStage, given: Arguments) -> None:
    """cut a: its connection breaks, and can be made again at once"""
    stage.consumer(given.word()).connection.cut()


def partition(stage: MemberStage, given: Arguments) -> None:
    """partition a b for=3s: for so long they cannot reach any broker"""
    ms = given.duration("for", 1_000)
    while given.words:
        connection = stage.consumer(given.word()).connection
        connection.is_up = False
        connection.cut()
        stage.world.clock.after(ms, lambda connection=connection: setattr(connection, "is_up", True))  # type: ignore[misc]


def stall(stage: MemberStage, given: Arguments) -> None:
    """stall a 3s: for so long nothing arrives on its connection, then all does"""
    stage.consumer(given.word()).connection.stall(milliseconds(given.word()))


def lose(stage: MemberStage, given: Arguments) -> None:
    """lose a request, lose a reply: its connection breaks with the next one on its way"""
    connection, way = stage.consumer(given.word()).connection, given.word()
    if way not in ("request", "reply"):
        raise UsageError(f"{way} cannot be lost; write request or reply")
    connection.lose_next = "request" if way == "request" else "reply"


# -- the coordinator


def unload(stage: MemberStage, given: Arguments) -> None:
    """The broker is coordinator no more, and nobody else is."""
    stage.world.unload(given.number("keeps", 0))


def load(stage: MemberStage, given: Arguments) -> None:
    """load node=2 loading=100ms: that broker has read the group"""
    stage.world.load(given.number("node", 1), given.duration("loading", 0))


def crash(stage: MemberStage, given: Arguments) -> None:
    """crash loading=100ms keeps=1: the broker is killed, and is back with what was durable. Of the writes under way the
    first are durable too"""
    stage.world.crash(given.duration("loading", 0), given.number("keeps", 0))


def move(stage: MemberStage, given: Arguments) -> None:
    """move stale=500ms loading=100ms keeps=1 ahead=3s: another broker becomes coordinator. For `stale` the old one does
    not know; the wall clock of the new one is `ahead`. Without `stale` nobody is coordinator while it is `away`"""
    world, loading, keeps = stage.world, given.duration("loading", 0), given.number("keeps", 0)
    stale, away = given.duration("stale", 0), given.duration("away", 0)
    world.coordinator.wall_ahead_ms = given.duration("ahead", world.coordinator.wall_ahead_ms)
    if world.node_id == NOWHERE:
        raise UsageError("nobody is coordinator")
    node_id = 3 - world.node_id
    if stale:
        world.depose(node_id, stale, loading, keeps)
        return
    world.unload(keeps)
    world.clock.after(away, lambda: world.load(node_id, loading))


def pause(stage: MemberStage, given: Arguments) -> None:
    """pause 2s: the coordinator stops for so long, as in a collection of garbage"""
    stage.world.coordinator.pause(milliseconds(given.word()))


def disk(stage: MemberStage, given: Arguments) -> None:
    """disk takes=40ms: so long takes a write of the coordinator from now on"""
    stage.world.coordinator.write_ms = given.duration("takes", 0)


def fail_writes(stage: MemberStage, given: Arguments) -> None:
    """fail-writes NOT_ENOUGH_REPLICAS: what is being written is not"""
    stage.world.coordinator.fail_writes(ErrorCode[given.word()])


def heal(stage: MemberStage, given: Arguments) -> None:
    """heal: nothing is lost from now on, applications poll, listeners and disks are quick"""
    world = stage.world
    world.network.loss = 0.0
    world.coordinator.write_ms = 0
    world.coordinator.durable()
    for consumer in world.consumers.values():
        consumer.connection.is_up, consumer.connection.lose_next, consumer.callback_ms = True, None, 0
        consumer.poll()


FAULTS: dict[str, Callable[[MemberStage, Arguments], None]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        *(die, freeze, late, clocks, cut, partition, stall, lose),
        *(unload, load, crash, move, pause, disk, fail_writes, heal),
    )
}
