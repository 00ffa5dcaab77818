"""What a script about members can say: one function per command, named in COMMANDS at the end. Members do the rest by
themselves; every line they say carries the time."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.member import Commit, TopicPartition
from tests.member import messages
from tests.member.client import Client
from tests.member.town import Town
from tests.transcripts.arguments import Arguments, milliseconds, offsets


def topic(town: Town, given: Arguments) -> None:
    """topic orders partitions=3; a second time, it has grown"""
    town.topics[given.word()] = given.number("partitions", 1)
    town.tell_metadata()


def member(town: Town, given: Arguments) -> None:
    """member a assignors=range session=10s heartbeat=3s max.poll=60s instance=i; of a known name, its next process"""
    name = given.word()
    town.member(
        name,
        *given.names("assignors", ["range"]),
        session_timeout_ms=given.duration("session", 10_000),
        heartbeat_interval_ms=given.duration("heartbeat", 3_000),
        max_poll_interval_ms=given.duration("max.poll", 60_000),
        group_instance_id=given.option("instance"),
    )


def _client(town: Town, given: Arguments) -> Client:
    return town.clients[given.word()]


def subscribe(town: Town, given: Arguments) -> None:
    """subscribe a orders payments"""
    client = _client(town, given)
    client.subscribe(*given.words)
    given.words = []


def close(town: Town, given: Arguments) -> None:
    _client(town, given).close()


def die(town: Town, given: Arguments) -> None:
    """Its process is killed."""
    _client(town, given).die()


def work(town: Town, given: Arguments) -> None:
    """work a records=500: it has taken so many from its last poll, and calls poll() no more until `poll a`"""
    client = _client(town, given)
    client.records = given.number("records", 0)
    client.poll()
    client.polls = False


def poll(town: Town, given: Arguments) -> None:
    _client(town, given).poll()


def commit(town: Town, given: Arguments) -> None:
    """commit a orders:0=41"""
    client = _client(town, given)
    wanted = {
        TopicPartition(name, one): at for name, rows in offsets(_places(given)).items() for one, at in rows.items()
    }

    def done(commit: Commit) -> None:
        error = commit.error
        made = " ".join(f"{where.topic}:{where.partition}={at.offset}" for where, at in sorted(commit.offsets.items()))
        town.say(f"{client.name}: " + (f"committed {made}" if error is None else f"{type(error).__name__}: {error}"))

    asked = client.commit_offsets(wanted)
    asked.on_done = done
    if asked.is_done:
        done(asked)


def _places(given: Arguments) -> list[str]:
    tokens, given.words = given.words, []
    return tokens + [f"{place}={at}" for place, at in given.rest().items()]


def unload(town: Town, given: Arguments) -> None:
    """The broker is coordinator no more, and nobody else is."""
    town.unload()


def load(town: Town, given: Arguments) -> None:
    """load node=2: that broker has read the group"""
    town.start(given.number("node", 1))


def crash(town: Town, given: Arguments) -> None:
    """The broker is killed, and is back at once with what was durable."""
    town.crash()


def advance(town: Town, given: Arguments) -> None:
    town.advance(milliseconds(given.word()))


def settle(town: Town, given: Arguments) -> None:
    """As long as it takes until the group is Stable and every partition has its reader."""
    town.settle(given.duration("within", 60_000))


def owners(town: Town, given: Arguments) -> None:
    for client in town.clients.values():
        one = client.member
        text = (
            f"{client.name}: {one.state.value}, generation {one.generation_id}, reads {messages.places(one.readable)}"
        )
        town.lines.append(text)


COMMANDS: dict[str, Callable[[Town, Arguments], None]] = {
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
    )
}
