"""What a script about members can say: one function per command, named in COMMANDS at the end. Members do the rest by
themselves; every line they say carries the time."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.console import words
from equipoise.member import Commit, TopicPartition
from equipoise.simulate import Consumer, messages
from tests.member.town import Stage
from tests.transcripts.arguments import Arguments, milliseconds, offsets


def topic(stage: Stage, given: Arguments) -> None:
    """topic orders partitions=3; a second time, it has grown"""
    stage.world.set_topics({**stage.world.topics, given.word(): given.number("partitions", 1)})
    stage.world.tell_metadata()


def member(stage: Stage, given: Arguments) -> None:
    """member a assignors=range session=10s heartbeat=3s max.poll=60s instance=i; of a known name, its next process.
    member a protocol=consumer: with KIP-848"""
    name = given.word()
    if given.option("protocol") == "consumer":
        instance, max_poll = given.option("instance"), given.duration("max.poll", 60_000)
        stage.world.consumer_of_848(name, group_instance_id=instance, max_poll_interval_ms=max_poll)
        return
    stage.world.consumer(
        name,
        *given.names("assignors", ["range"]),
        session_timeout_ms=given.duration("session", 10_000),
        heartbeat_interval_ms=given.duration("heartbeat", 3_000),
        max_poll_interval_ms=given.duration("max.poll", 60_000),
        group_instance_id=given.option("instance"),
    )


def _consumer(stage: Stage, given: Arguments) -> Consumer:
    return stage.world.consumers[given.word()]


def subscribe(stage: Stage, given: Arguments) -> None:
    """subscribe a orders payments; subscribe a regex=or.*: the coordinator looks for the topics"""
    consumer = _consumer(stage, given)
    consumer.subscribe(*given.words, regex=given.option("regex"))
    given.words = []


def close(stage: Stage, given: Arguments) -> None:
    _consumer(stage, given).close()


def die(stage: Stage, given: Arguments) -> None:
    """Its process is killed."""
    stage.world.kill(given.word())


def work(stage: Stage, given: Arguments) -> None:
    """work a records=500: it has taken so many from its last poll, and calls poll() no more until `poll a`"""
    consumer = _consumer(stage, given)
    consumer.records = given.number("records", 0)
    consumer.poll()
    consumer.polls = False


def poll(stage: Stage, given: Arguments) -> None:
    _consumer(stage, given).poll()


def commit(stage: Stage, given: Arguments) -> None:
    """commit a orders:0=41"""
    consumer = _consumer(stage, given)
    wanted = {
        TopicPartition(name, one): at for name, rows in offsets(_places(given)).items() for one, at in rows.items()
    }

    def done(commit: Commit) -> None:
        error = commit.error
        made = " ".join(f"{where.topic}:{where.partition}={at.offset}" for where, at in sorted(commit.offsets.items()))
        outcome = f"committed {made}" if error is None else f"{type(error).__name__}: {error}"
        stage.transcript.say(f"{consumer.name}: {outcome}")

    asked = consumer.commit(wanted)
    asked.on_done = done
    if asked.is_done:
        done(asked)


def _places(given: Arguments) -> list[str]:
    tokens, given.words = given.words, []
    return tokens + [f"{place}={at}" for place, at in given.rest().items()]


def unload(stage: Stage, given: Arguments) -> None:
    """The broker is coordinator no more, and nobody else is."""
    stage.world.unload()


def load(stage: Stage, given: Arguments) -> None:
    """load node=2: that broker has read the group"""
    stage.world.load(given.number("node", 1))


def crash(stage: Stage, given: Arguments) -> None:
    """The broker is killed, and is back at once with what was durable."""
    stage.world.crash()


def advance(stage: Stage, given: Arguments) -> None:
    stage.world.advance(milliseconds(given.word()))


def settle(stage: Stage, given: Arguments) -> None:
    """As long as it takes until the group is Stable and every partition has its reader."""
    stage.world.settle(given.duration("within", 60_000))


def owners(stage: Stage, given: Arguments) -> None:
    for consumer in stage.world.consumers.values():
        one = consumer.member
        reads = messages.partitions(one.readable)
        stage.transcript.lines.append(
            f"{consumer.name}: {one.state.value}, generation {one.generation_id}, reads {reads}"
        )


def hold(stage: Stage, given: Arguments) -> None:
    """hold 4500ms: the coordinator holds heartbeats without news for so long"""
    stage.world.hold_ms = milliseconds(given.word())


def explain(stage: Stage, given: Arguments) -> None:
    """The last entry of the journal of the group."""
    entry = stage.world.coordinator.journal("g")[-1]
    stage.transcript.lines += words.explain(entry)


COMMANDS: dict[str, Callable[[Stage, Arguments], None]] = {
    one.__name__: one
    for one in (
        topic,
        member,
        subscribe,
        close,
        die,
        work,
        poll,
        commit,
        unload,
        load,
        crash,
        advance,
        settle,
        owners,
        hold,
        explain,
    )
}
