"""What a script about members can say: one function per command, named in COMMANDS at the end. Members do the rest by
themselves; every line they say carries the time. What breaks stands in faults.py."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.member import Callback, CallbackKind, Commit, Member, TopicPartition
from equipoise.simulate import messages
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.rules import check_rest
from equipoise.simulate.scripts.arguments import Arguments, milliseconds, offsets
from equipoise.simulate.scripts.faults import FAULTS
from equipoise.simulate.scripts.member_stage import MemberStage
from equipoise.simulate.scripts.settings import changed
from equipoise.wire.errors import UsageError


def config(stage: MemberStage, given: Arguments) -> None:
    """config group.initial.rebalance.delay.ms=3000: settings of the coordinator"""
    stage.check_unbegun()
    for name, value in given.rest().items():
        stage.config = changed(stage.config, name, value)


def network(stage: MemberStage, given: Arguments) -> None:
    """network latency=2ms jitter=30ms loss=2% seed=7: how long messages take, and how many are lost"""
    stage.check_unbegun()
    stage.network = {
        "latency_ms": given.duration("latency", 1),
        "jitter_ms": given.duration("jitter", 0),
        "loss": _percent(given.option("loss", "0%") or "0%"),
        "seed": given.number("seed", 0),
    }


def _percent(text: str) -> float:
    if not text.endswith("%"):
        raise UsageError(f"{text} is no share; write 2%")
    return float(text[:-1]) / 100


def topic(stage: MemberStage, given: Arguments) -> None:
    """topic orders partitions=3; a second time, it has grown"""
    stage.world.set_topics({**stage.world.topics, given.word(): given.number("partitions", 1)})
    stage.world.tell_metadata()


def delete_topic(stage: MemberStage, given: Arguments) -> None:
    """delete-topic orders: the coordinator knows at once, members do not"""
    name = given.word()
    stage.world.set_topics({topic: count for topic, count in stage.world.topics.items() if topic != name})


def member(stage: MemberStage, given: Arguments) -> None:
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


def _consumer(stage: MemberStage, given: Arguments) -> Consumer:
    return stage.consumer(given.word())


def subscribe(stage: MemberStage, given: Arguments) -> None:
    """subscribe a orders payments; subscribe a regex=or.*: the coordinator looks for the topics"""
    consumer = _consumer(stage, given)
    consumer.subscribe(*given.words, regex=given.option("regex"))
    given.words = []


def unsubscribe(stage: MemberStage, given: Arguments) -> None:
    """unsubscribe a: it gives back all partitions and leaves"""
    _consumer(stage, given).unsubscribe()


def rebalance(stage: MemberStage, given: Arguments) -> None:
    """rebalance a: its application asks for a rebalance; of the classic protocol alone"""
    consumer = _consumer(stage, given)
    if not isinstance(consumer.member, Member):
        raise UsageError(f"{consumer.name} cannot ask: with the consumer protocol the coordinator decides")
    consumer.enforce_rebalance("the application asks for it")


def close(stage: MemberStage, given: Arguments) -> None:
    """close a: it gives back all partitions and leaves; a static member keeps its place"""
    _consumer(stage, given).close()


def work(stage: MemberStage, given: Arguments) -> None:
    """work a records=500: it has taken so many from its last poll, and calls poll() no more until `poll a`"""
    consumer = _consumer(stage, given)
    consumer.records = given.number("records", 0)
    consumer.poll()
    consumer.polls = False


def poll(stage: MemberStage, given: Arguments) -> None:
    """poll a: once, and then all the time"""
    _consumer(stage, given).poll()


def read(stage: MemberStage, given: Arguments) -> None:
    """read a 5: it processes so many records of each of its partitions, and commits; for scripts with `watch`"""
    consumer, records = _consumer(stage, given), int(given.word())
    if stage.rules is None:
        raise UsageError("nobody keeps positions; begin with watch")
    wanted = stage.rules.positions.read(consumer, records)
    if wanted and not consumer.is_frozen:
        consumer.commit(wanted)


def listener(stage: MemberStage, given: Arguments) -> None:
    """listener a takes=300ms commits=yes: how its callbacks are from now on; it commits what it gives back"""
    consumer = _consumer(stage, given)
    consumer.callback_ms = given.duration("takes", 0)
    is_committing = given.option("commits") == "yes"
    if is_committing and stage.rules is None:
        raise UsageError("nobody keeps positions; begin with watch")

    def called(callback: Callback) -> None:
        if is_committing and callback.kind is CallbackKind.REVOKED and stage.rules is not None:
            consumer.commit(stage.rules.positions.of(consumer.name, callback.partitions))

    consumer.listener = called


def commit(stage: MemberStage, given: Arguments) -> None:
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


def advance(stage: MemberStage, given: Arguments) -> None:
    """advance 3s: time passes"""
    stage.world.advance(milliseconds(given.word()))


def settle(stage: MemberStage, given: Arguments) -> None:
    """As long as it takes until the group is Stable and every partition has its reader."""
    stage.world.settle(given.duration("within", 60_000))


def owners(stage: MemberStage, given: Arguments) -> None:
    """The members, their states and their partitions."""
    for consumer in stage.world.consumers.values():
        one = consumer.member
        reads = messages.partitions(one.readable)
        stage.transcript.lines.append(
            f"{consumer.name}: {one.state.value}, generation {one.generation_id}, reads {reads}"
        )


def hold(stage: MemberStage, given: Arguments) -> None:
    """hold 4500ms: the coordinator holds heartbeats without news for so long"""
    stage.world.hold_ms = milliseconds(given.word())


def explain(stage: MemberStage, given: Arguments) -> None:
    """The last entry of the journal of the group."""
    entry = stage.world.coordinator.journal("g")[-1]
    stage.transcript.lines += stage.words.explain(entry)


def subscribe_all(stage: MemberStage, given: Arguments) -> None:
    """subscribe-all t u: every member that is subscribed to anything is subscribed to these from now on"""
    for consumer in stage.world.consumers.values():
        if consumer.is_living:
            consumer.subscribe(*given.words)
    given.words = []


def rebalance_all(stage: MemberStage, given: Arguments) -> None:
    """Every application of the classic protocol asks for a rebalance: its member joins again, and says what it is."""
    for consumer in stage.world.consumers.values():
        if consumer.is_living and isinstance(consumer.member, Member):
            consumer.enforce_rebalance("to be known")


def rest(stage: MemberStage, given: Arguments) -> None:
    """rest 60s: for so long nothing happens, and nothing may be written"""
    check_rest(stage.world, milliseconds(given.word()))
    if stage.rules is not None:
        stage.rules.durability.check_replay()


def watch(stage: MemberStage, given: Arguments) -> None:
    """watch: from here on all rules are checked at every step, and the script ends where one is broken"""
    stage.watch()


Command = Callable[[MemberStage, Arguments], None]
COMMANDS: dict[str, Command] = {
    one.__name__.replace("_", "-"): one
    for one in (
        *(config, network, watch, topic, delete_topic, member, subscribe, unsubscribe, rebalance, close),
        *(work, poll, read, listener, commit, advance, settle, owners, hold, explain),
        *(subscribe_all, rebalance_all, rest),
    )
} | FAULTS
