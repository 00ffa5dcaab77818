"""Logs exchanged in the middle of a script: one broker writes what the other goes on with.

The scripts are those that a restart cuts in two. The members live through the first half on one broker. Then the groups
move, and the second half is played against both: the broker that wrote the log, started again, and the one that has
read it. Their answers must be the same.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.conformance.consumer.scripts import all_scripts
from proving.conformance.consumer.side import ConsumerSide
from proving.conformance.play import Played, play_on
from proving.conformance.steps import Restart, Script, Step
from proving.conformance.worlds import World, await_groups, find_place, kafka_settings, our_settings, prepare
from proving.moving import adopt_logs, copy_groups

WORLD = "consumer restart"
_numbers = itertools.count(1)


def scripts() -> list[Script]:
    """Configs of groups are no part of a group's log."""
    return [script for script in all_scripts() if script.world == WORLD and "configs" not in script.name]


def from_kafka() -> list[Played]:
    """Our broker goes on with Kafka's files."""
    with ExitStack() as running:
        kafka = running.enter_context(KafkaBroker(kafka_settings(WORLD)))
        place = prepare(kafka.name, kafka.port)
        halves = first_halves(World(WORLD, place, place))
        return _second_halves(halves, kafka, _with_files_of(kafka, running))


def from_ours() -> list[Played]:
    """Kafka goes on with our records. They count when it starts.

    Both have the topics with the same ids: the hash of a group's topics is made of them.
    """
    with ExitStack() as running:
        kafka = running.enter_context(KafkaBroker(kafka_settings(WORLD)))
        prepare(kafka.name, kafka.port)
        ours = _with_files_of(kafka, running)
        await_groups(ours.port)
        place = find_place(ours.name, ours.port)
        halves = first_halves(World(WORLD, place, place))
        copy_groups(ours, kafka)
        for broker in (ours, kafka):
            broker.stop()
            broker.start()
        return _second_halves(halves, kafka, ours)


def _with_files_of(kafka: KafkaBroker, running: ExitStack) -> EquipoiseBroker:
    """Ours, with the topics and groups of Kafka, which is started again."""
    data = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-exchange-")), "data")
    data.mkdir()
    kafka.stop()
    adopt_logs(kafka.logs, data)
    ours = running.enter_context(EquipoiseBroker(our_settings(WORLD), data=data))
    kafka.start()
    return ours


Half = tuple[Script, ConsumerSide]


def first_halves(world: World) -> list[Half]:
    """The members of all scripts up to where they are cut, on the first broker of the world."""
    played = []
    for script in scripts():
        side = ConsumerSide(world, world.kafka, {name: f"{name}-{next(_numbers)}" for name in script.groups})
        for step in _cut(script)[0]:
            side.begin(step)
            side.settle(step)
        played.append((script, side))
    return played


def _cut(script: Script) -> tuple[Sequence[Step], Sequence[Step]]:
    at = list(script.steps).index(Restart())
    return script.steps[:at], script.steps[at + 1 :]


def _second_halves(halves: Sequence[Half], kafka: BrokerProcess, ours: BrokerProcess) -> list[Played]:
    for broker in (kafka, ours):
        await_groups(broker.port)
    world = World(WORLD, find_place(kafka.name, kafka.port), find_place(ours.name, ours.port))
    played = []
    for script, side in halves:
        side.close()
        with (
            closing(side.cloned(world, world.kafka)) as on_kafka,
            closing(side.cloned(world, world.ours)) as on_ours,
        ):
            played.append(play_on(script, on_kafka, on_ours, _cut(script)[1]))
    return played
