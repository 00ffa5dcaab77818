"""The scenarios. Each is written once, for any client on any broker; what it notes must be the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proving.scenarios.stage import PARTITIONS, Stage

SHORT_MS = 6_000  # long enough for a busy machine, short enough to wait for
METADATA_AGE_MS = 400
COOPERATIVE = "cooperative-sticky"

Play = Callable[[Stage], None]


def join(stage: Stage) -> None:
    """Members join one after the other. Each gets its share, and no member reads a committed record again."""
    stage.members.join("first", stage.client)
    stage.settle()
    stage.count_rounds()
    stage.feed()
    for name in ("second", "third"):
        stage.join(name)
        stage.feed()
    stage.note_end()


def leave(stage: Stage) -> None:
    """Two of three members leave, then the last. The next member goes on at the committed offsets."""
    stage.join("first", "second", "third")
    stage.feed()
    stage.count_rounds()
    for name in ("first", "third"):
        stage.members.close(name)
        stage.settle()
        stage.feed()
    stage.members.close("second")
    stage.members.wait_until("the group is empty", lambda: stage.members.view() == ("Empty", 0))
    since = stage.members.now
    new = stage.fleet.produce(stage.places, 2)
    stage.join("next")
    stage.members.wait_read(new)
    stage.wait_committed(new)
    stage.note("the next reads only what is new", stage.members.ledger.read(since).keys() == new)
    stage.note_end()


def crash(stage: Stage) -> None:
    """A member gets SIGKILL. When its session has expired, the other member has all partitions and goes on."""
    stage.join("survivor")
    stage.join("victim", alone=True, session_ms=SHORT_MS)
    stage.feed()
    stage.count_rounds()
    stage.members.kill("victim")
    stage.settle()
    stage.feed()
    stage.note_end()


def static_restart(stage: Stage) -> None:
    """A static member restarts, closed or killed. It has the same partitions again; the other member never notices."""
    for name in ("one", "other"):
        stage.join(name, instance_id=name)
    stage.feed()
    stage.count_rounds()
    stage.members.prepare("one again", stage.client)
    since, owned = stage.members.now, stage.members.owned("one")
    stage.members.close("one")
    stage.members.join("one again", stage.client, instance_id="one", alone=True)
    stage.members.wait_until("it has what it had", lambda: stage.members.owned("one again") == owned)
    stage.feed()
    stage.members.kill("one again")
    stage.members.join("one, a third time", stage.client, instance_id="one")
    stage.members.wait_until("it has what it had", lambda: stage.members.owned("one, a third time") == owned)
    stage.feed()
    stage.note("callbacks of the other", stage.members.rebalances("other", since))
    stage.note_end()


def pattern(stage: Stage) -> None:
    """Members that subscribe to a pattern find a topic that is created later, and no topic that does not match."""
    settings: dict[str, Any] = {"pattern": f"{stage.topic}-a", "topics": (), "metadata_age_ms": METADATA_AGE_MS}
    places = stage.create_topic(f"{stage.topic}-a1")
    stage.create_topic(f"{stage.topic}-b1")
    for name in ("one", "two"):
        stage.members.join(name, stage.client, **settings)
    stage.members.wait_settled(places)
    stage.feed(places)
    places |= stage.create_topic(f"{stage.topic}-a2")
    stage.members.wait_settled(places)
    stage.feed(places)
    stage.note_end(rounds=False)


def added_partitions(stage: Stage) -> None:
    """A topic gets more partitions. The members notice, and share them."""
    for name in ("one", "two"):
        stage.members.join(name, stage.client, metadata_age_ms=METADATA_AGE_MS)
    stage.settle()
    stage.feed()
    places = stage.add_partitions(PARTITIONS + 2)
    stage.members.wait_settled(places)
    stage.feed(places)
    stage.note_end(rounds=False)


def cooperative(stage: Stage) -> None:
    """With cooperative-sticky, a member joins and a member leaves. No member gives up a partition that it keeps.

    How many generations that takes is up to the broker: ours rebalances such groups incrementally. With the switch off
    they are counted in tests/interop/test_groups_cooperative.py."""
    stage.join("first", assignor=COOPERATIVE)
    stage.feed()
    since = stage.members.now
    stage.join("second", assignor=COOPERATIVE)
    stage.feed()
    kept = stage.members.owned("first")
    stage.members.close("second")
    stage.settle()
    stage.feed()
    told = stage.members.rebalances("first", since)
    given_up = {place for kind, places in told if kind != "assigned" for place in places}
    stage.note("the first never lets go of what it keeps", not given_up & kept)
    stage.note_end(rounds=False)


def rolling_upgrade(stage: Stage) -> None:
    """The group changes from range to cooperative-sticky in two rounds of restarts. It has members at all times."""
    both = f"{COOPERATIVE},range"
    stage.join("one", "two")
    stage.feed()
    protocols = [stage.protocol()]
    for assignor in (both, COOPERATIVE):
        for name in ("one", "two"):
            old = next(there for there in stage.members.names if there.startswith(name))
            stage.members.close(old)
            stage.join(f"{name} with {assignor}", assignor=assignor)
            stage.feed()
            protocols.append(stage.protocol())
    stage.note("protocols", protocols)
    stage.note_end(rounds=False)


def standalone_commit(stage: Stage) -> None:
    """A consumer that is no member commits for the group: refused while the group has members, accepted after."""
    stage.join("one", "two")
    stage.feed()
    stage.count_rounds()
    place = min(stage.places)
    stage.note("refused with", stage.members.commit_alone("stranger", stage.client, place, 1))
    stage.feed()
    stage.note_end()
    stage.members.close("one", "two")
    stage.members.wait_until("the group is empty", lambda: stage.members.view() == ("Empty", 0))
    stage.note("refused when empty", stage.members.commit_alone("stranger later", stage.client, place, 1))
    stage.note("committed when empty", stage.committed()[place])


def max_poll_overrun(stage: Stage) -> None:
    """A member works on its records for longer than max.poll.interval.ms. Others get its partitions, its commit is
    refused, and it rejoins."""
    stage.join("steady")
    stage.join("slow", max_poll_ms=SHORT_MS, session_ms=SHORT_MS)
    stage.feed()
    stage.count_rounds()
    stage.members.pause("slow")
    rows = stage.fleet.produce(stage.places, 1)
    stage.members.wait_until("the slow one is at work", lambda: bool(stage.members.told("slow", "paused")))
    stage.members.wait_until("the other has all", lambda: stage.members.owned("steady") == stage.places)
    stage.members.wait_until("the group is of one", lambda: stage.members.view() == ("Stable", 1))
    stage.members.wait_read(rows)
    stage.wait_committed(rows)
    stage.members.resume("slow")
    stage.settle()
    stage.feed()
    stage.note("refused with", sorted({event.error for event in stage.members.told("slow", "refused")}))
    stage.note_end()


def broker_killed(stage: Stage) -> None:
    """The broker gets SIGKILL and starts again. No commit is lost, and the members go on."""
    # KafkaJS may give up meanwhile and start anew; the member it was goes when its session ends.
    session = {"session_ms": SHORT_MS} if stage.client == "kafkajs" else {}
    stage.join("one", "two", **session)
    stage.feed()
    stage.count_rounds()
    before = stage.committed()
    stage.restart_broker()
    stage.members.wait_until("the group is loaded", lambda: bool(stage.committed()))
    stage.note("commits are kept", stage.committed() == before)
    stage.settle()
    stage.feed()
    # The others may join again of their own accord: Java and franz-go when they have lost sight of the topic meanwhile.
    stage.note_end(rounds=stage.client == "confluent-kafka")


SCENARIOS: dict[str, Play] = {
    "join": join,
    "leave": leave,
    "crash": crash,
    "static restart": static_restart,
    "pattern": pattern,
    "added partitions": added_partitions,
    "cooperative": cooperative,
    "rolling upgrade": rolling_upgrade,
    "standalone commit": standalone_commit,
    "max.poll overrun": max_poll_overrun,
    "broker killed": broker_killed,
}
