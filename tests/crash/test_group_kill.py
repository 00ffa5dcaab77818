"""The broker is killed by SIGKILL in every state of a live group, and started again: the members, of confluent-kafka
and kafka-python, end up in a Stable group, and go on where their commits had ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest
from equipoise.wire.errors import ErrorCode
from proving.members.events import Place
from proving.members.fleet import Members, places_of
from proving.members.hosts import Membership
from tests.broker.calls import create_topic, read_partition
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.crash.warm import WarmBroker
from tests.interop.groups import SETTINGS, Fleet

GROUP = "group"
TOPIC = "topic"
PLACES = places_of(TOPIC, 12)
FOREVER = 3_600_000
CONFLUENT, KAFKA_PYTHON = "confluent-kafka", "kafka-python"


class Restartable:
    """A broker that is killed and comes back, perhaps with other settings, on the same port and data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._served = WarmBroker(directory / "data", directory / "log")
        self.address = self._served.address

    def start(self, **settings: object) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self._served = WarmBroker(self._directory / "data", self._directory / "log", {**SETTINGS, **named})
        self._served.address = self.address
        self._served.start()
        eventually(self._is_loaded, "the group is loaded")

    def _is_loaded(self) -> bool:
        (group,) = self.call(DescribeGroupsRequest(groups=[GROUP]), 5).groups
        return bool(group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def kill(self) -> None:
        """Another one may take its place, with other settings."""
        self._served.close()

    # -- what there is to see from outside

    def call(self, request: Any, version: int) -> Any:
        with RawClient(self.address) as client:
            return client.call(request, version)

    def view(self) -> tuple[str, int]:
        (group,) = self.call(DescribeGroupsRequest(groups=[GROUP]), 5).groups
        return group.group_state, len(group.members)

    def committed(self) -> dict[Place, int]:
        topics = self.call(OffsetFetchRequest(group_id=GROUP, topics=None), 7).topics
        return {(topic.name, row.partition_index): row.committed_offset for topic in topics for row in topic.partitions}

    def generations(self) -> list[tuple[str, int]]:
        """The states the group has been in and their generations, from the journal."""
        with RawClient(self.address) as client:
            rows = [json.loads(record.value or b"") for record in read_partition(client, "__rebalances")]
        return [(row["target"], row["generation_id"]) for row in rows if row["type"] == "state_changed"]

    def stable_generations(self) -> list[int]:
        """Those that the group was Stable in. On a busy machine kafka-python may join twice."""
        return [generation for state, generation in self.generations() if state == "Stable"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable(tmp_path)
    yield restartable
    restartable.kill()
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.fixture
def members(broker: Restartable, tmp_path: Path) -> Iterator[Members]:
    """The fixture only prepares them: the test starts the broker, and ends with members that can close."""
    base = Membership(GROUP, (TOPIC,))
    with Fleet(broker.address, tmp_path / "members") as fleet, Members(fleet, base) as members:
        yield members


def start(broker: Restartable, **settings: object) -> None:
    broker.start(**settings)
    with RawClient(broker.address) as client:
        create_topic(client, TOPIC, len(PLACES))


def begin(broker: Restartable, members: Members, **settings: object) -> None:
    """A member of confluent-kafka has read and committed three records of each partition."""
    start(broker, **settings)
    members.join("first", CONFLUENT)
    members.wait_settled(PLACES)
    read_and_commit(broker, members)


def read_and_commit(broker: Restartable, members: Members) -> None:
    members.wait_read(members.fleet.produce(PLACES, 3))
    ends = dict.fromkeys(PLACES, max(row[2] for row in members.ledger.read()) + 1)
    members.wait_until("all is committed", lambda: broker.committed() == ends)


def check_goes_on(broker: Restartable, members: Members) -> None:
    """All members share the partitions, read what is new, and nothing twice."""
    members.wait_settled(PLACES)
    read_and_commit(broker, members)
    assert members.read_again() == set()


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_stable(broker: Restartable, members: Members, assignor: str) -> None:
    """While sessions hold, a restart is nothing to the members: same generation, no callback, commits go on."""
    members.base = Membership(GROUP, (TOPIC,), assignor=assignor)
    begin(broker, members)
    members.join("second", KAFKA_PYTHON)
    members.wait_settled(PLACES)
    read_and_commit(broker, members)
    before, committed, since = broker.generations(), broker.committed(), members.now
    broker.kill()
    broker.start()
    assert broker.committed() == committed
    assert broker.view() == ("Stable", 2)
    read_and_commit(broker, members)
    assert broker.generations() == before
    assert members.rebalances("first", since) == members.rebalances("second", since) == []
    assert members.read_again() == set()


@pytest.mark.parametrize(("client", "assignor"), [("aiokafka", "range"), ("kafkajs", "roundrobin")])
def test_stable_with_others(broker: Restartable, members: Members, client: str, assignor: str) -> None:
    """They may join again, but come back, and lose nothing. KafkaJS, if it has given up in the meantime, starts anew as
    another member; the one it was goes when its session ends."""
    start(broker)
    members.base = Membership(GROUP, (TOPIC,), assignor=assignor, commit="auto", session_ms=5_000)
    members.join("first", client)
    members.join("second", client)
    members.wait_settled(PLACES)
    read_and_commit(broker, members)
    committed = broker.committed()
    broker.kill()
    broker.start()
    assert broker.committed() == committed
    check_goes_on(broker, members)


def test_empty(broker: Restartable, members: Members) -> None:
    begin(broker, members)
    members.close("first")
    members.wait_until("the group is empty", lambda: broker.view() == ("Empty", 0))
    committed, since = broker.committed(), members.now
    broker.kill()
    broker.start()
    assert broker.view() == ("Empty", 0)
    assert broker.committed() == committed
    new = members.fleet.produce(PLACES, 1)
    members.join("second", KAFKA_PYTHON)
    members.wait_settled(PLACES)
    members.wait_read(new)
    assert members.ledger.read(since).keys() == new
    members.wait_until("the generations have gone on", lambda: broker.stable_generations()[-1] > 2)  # 2: Empty


def test_preparing_from_empty(broker: Restartable, members: Members) -> None:
    """Killed in the initial delay: two JoinGroups were parked."""
    begin(broker, members)
    members.close("first")
    broker.kill()
    broker.start(
        group_initial_rebalance_delay_ms=FOREVER,
        group_initial_rebalance_delay_early=False,
        group_initial_rebalance_delay_quiet_ms=0,
    )
    members.join("second", CONFLUENT)
    members.join("third", KAFKA_PYTHON)
    members.wait_until("both have joined", lambda: broker.view() == ("PreparingRebalance", 2))
    committed = broker.committed()
    broker.kill()
    broker.start()
    assert broker.committed() == committed
    check_goes_on(broker, members)


def test_preparing_from_stable(broker: Restartable, members: Members) -> None:
    """Killed while the join phase waits: an old and a new member were parked."""
    begin(broker, members, group_rebalance_debounce_ms=FOREVER)
    members.join("second", KAFKA_PYTHON)
    members.wait_until("the second has joined", lambda: broker.view() == ("PreparingRebalance", 2))
    members.wait_until("the first has let go", lambda: not members.owned("first"))
    committed = broker.committed()
    broker.kill()
    broker.start()
    assert broker.committed() == committed
    check_goes_on(broker, members)


def test_completing(broker: Restartable, members: Members) -> None:
    """Killed while the leader makes up its mind: the follower's SyncGroup was parked."""
    start(broker)
    members.join("leader", KAFKA_PYTHON, assignor="slow range")
    members.may_assign("leader", 1)
    members.wait_settled(PLACES)
    read_and_commit(broker, members)
    since = members.now
    members.join("follower", CONFLUENT)
    members.wait_until("the leader is asked", lambda: bool(members.told("leader", "assigning", since=since)))
    members.wait_until("the group waits for it", lambda: broker.view() == ("CompletingRebalance", 2))
    committed = broker.committed()
    broker.kill()
    broker.start()
    assert broker.committed() == committed
    members.may_assign("leader", 1000)
    check_goes_on(broker, members)


def test_acknowledged_commits_survive(broker: Restartable, members: Members) -> None:
    """Killed three times in the middle of reading and committing: no commit that was acknowledged is lost."""
    begin(broker, members)
    members.join("second", KAFKA_PYTHON)
    members.wait_settled(PLACES)
    done = threading.Event()
    producer = threading.Thread(target=produce_until, args=(done, broker.address))
    producer.start()
    try:
        for _ in range(3):
            enough = sum(members.ledger.committed().values()) + 200
            members.wait_until("more is committed", partial(has_committed, members, enough))
            broker.kill()
            acknowledged = members.ledger.committed()
            broker.start()
            committed = broker.committed()
            assert [place for place in PLACES if committed[place] < acknowledged[place]] == []
    finally:
        done.set()
        producer.join()
    members.wait_settled(PLACES)
    members.wait_until("all is read and committed", lambda: broker.committed() == ends(broker))


def has_committed(members: Members, enough: int) -> bool:
    return sum(members.ledger.committed().values()) >= enough


def produce_until(done: threading.Event, address: str) -> None:
    """Records to all partitions, as fast as is decent; those that a kill has cost are not missed."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "reconnect.backoff.max.ms": 200, "log_level": 0})
    while not done.wait(0.02):
        for topic, partition in PLACES:
            with suppress(KafkaException, BufferError):
                producer.produce(topic, b"more", partition=partition)
        producer.poll(0)
    producer.flush(120)


def ends(broker: Restartable) -> dict[Place, int]:
    with RawClient(broker.address) as client:
        return {place: len(read_partition(client, *place)) for place in PLACES}
