"""How long a heartbeat may be held: what a member shows of its interval, and what it does not."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.broker.config import BrokerConfig
from equipoise.broker.groups.held_heartbeats import HeldHeartbeat, SilenceOfGuest, note_rejoin
from equipoise.coordinator.classic.group import ClassicGroupMember
from equipoise.coordinator.consumer.group import Presence
from equipoise.coordinator.timers import TimerKey, TimerKind
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import RawClient
from tests.spec.requests import commit, heartbeat, join, sync

CONFIG = BrokerConfig()
NOW = 1_700_000_000_000
FIRST = 1200  # two fifths of the usual interval


class Client:
    """Beats at times given as seconds since its assignment; says how long each may be held."""

    def __init__(self, software: str = "librdkafka", config: BrokerConfig = CONFIG, *, static: bool = False) -> None:
        self.held_heartbeat = HeldHeartbeat()
        self.held_heartbeat.known_as(software)
        self.config = config
        self.member = ClassicGroupMember(
            group_id="g",
            member_id="m",
            group_instance_id="one" if static else None,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            protocols=[],
        )
        self.member.last_seen = NOW
        self.silence = SilenceOfGuest(45_000, is_static=static)

    def beat(self, at: float) -> int:
        now = NOW + round(at * 1000)
        limit = self.held_heartbeat.limit(self.config, self.member, self.silence, now)
        self.member.last_seen = now
        return limit

    def beats(self, *times: float) -> list[int]:
        return [self.beat(at) for at in times]


class Waiting(Client):
    """Sends the next heartbeat when its interval has passed and the last one is answered, as kafka-python does."""

    def run(self, interval: float, count: int) -> list[int]:
        holds, at = [], interval
        for _ in range(count):
            hold = self.beat(at)
            holds.append(hold)
            at += max(interval, hold / 1000)
        return holds


class Skipping(Client):
    """Sends heartbeats at multiples of its interval, and skips those that come up while one is held: librdkafka."""

    def run(self, interval: float, count: int) -> list[int]:
        holds, beat = [], 0
        for _ in range(count):
            hold = self.beat(beat * interval)
            holds.append(hold)
            beat += max(1, -(-hold // round(interval * 1000)))
        return holds


def longest(interval: float, margin_ms: int = 100) -> float:
    """A tenth of a second less than the interval, and at least nine tenths of it; in milliseconds."""
    return max(interval * 900, interval * 1000 - margin_ms)


def test_a_client_that_skips_none_is_held_for_most_of_an_interval_that_was_seen_twice() -> None:
    """In the rest of the interval it could not be told anything."""
    assert Client("apache-kafka-java").beats(3, 6, 9, 12) == [FIRST, 2700, 2900, 2900]


def test_a_first_hold_is_short_and_then_most_of_the_interval() -> None:
    """Nine tenths, as long as the interval was seen once. librdkafka would skip a heartbeat if its answer were late."""
    assert Client().beats(0, 3, 6, 9) == [FIRST, 2700, 2850, 2850]


@pytest.mark.parametrize("software", ["", "kgo", "sarama", "kafkajs"])
def test_others_are_answered_at_once(software: str) -> None:
    assert Client(software).beats(0, 3) == [0, 0]


def test_aiokafka_is_known_by_its_own_client_id() -> None:
    for client_id, is_held in (("aiokafka-0.14.0", True), ("mine", False), ("aiokafka-mine", False)):
        client = Client("")
        client.held_heartbeat.known_as("", client_id)
        assert client.beat(0) == (FIRST if is_held else 0)
    client = Client("")
    client.held_heartbeat.known_as("kafkajs", "aiokafka-0.14.0")
    assert client.beat(0) == 0


@pytest.mark.parametrize("interval", [0.1, 0.2, 0.5, 1, 2, 3, 4, 10])
@pytest.mark.parametrize("software", ["kafka-python", "apache-kafka-java"])
def test_a_client_that_waits_for_its_answer_is_never_held_beyond_its_interval(software: str, interval: float) -> None:
    holds = Waiting(software).run(interval, 12)
    limit = min(longest(interval), 1800 if software == "kafka-python" else 5000)
    assert max(holds) <= limit
    assert holds[0] == min(interval, 3) * 400 or interval == 0.1  # too short to be worth it
    assert holds[2:] == [limit] * 10


@pytest.mark.parametrize("interval", [0.5, 1, 2, 3, 4, 10])
def test_a_client_that_skips_heartbeats_is_held_too_long_once_at_most(interval: float) -> None:
    """Its first heartbeat comes at once, and says nothing of its interval."""
    holds = Skipping().run(interval, 12)
    assert holds[0] == FIRST
    limit = min(longest(interval, 150), 5000)
    assert max(holds[1:]) <= limit
    assert holds[3:] == [limit] * 9


def test_our_own_client_is_told_of_what_follows_its_first_assignment() -> None:
    """It sends a heartbeat with it. With another interval than the usual the next but one is held by that."""
    assert Client("equipoise").beats(0, 3, 6) == [2700, 2900, 2900]
    assert Client("equipoise").beats(0, 2.7, 3.2, 3.7) == [2700, 0, 450, 450]


def test_another_interval_is_looked_at_without_a_hold_and_then_used() -> None:
    assert Client().beats(0, 2, 4, 6) == [FIRST, 0, 1800, 1850]


def test_a_longer_interval_is_learnt_the_same_way_up_to_the_setting() -> None:
    assert Client().beats(0, 4, 8, 12, 22, 32) == [FIRST, 3600, 3850, 3850, 0, 5000]


def test_a_heartbeat_that_is_a_little_late_does_not_make_the_interval_longer() -> None:
    assert Client().beats(0, 3.1, 6.1, 9.1) == [FIRST, 2790, 2850, 2850]


def test_a_rebalance_in_between_says_nothing_of_the_interval() -> None:
    """Held for nine tenths of 3.4 s, a client that beats every 3 s would skip one, and then beat every 6 s."""
    client = Client()
    assert client.beats(0, 3) == [FIRST, 2700]
    note_rejoin(client.member)
    assert client.beats(6.4, 9.4) == [2700, 2850]


def test_a_skipped_beat_is_no_interval() -> None:
    assert Client().beats(0, 3, 6, 12, 15, 18) == [FIRST, 2700, 2850, 0, 2700, 2700]


def test_a_skipped_beat_makes_holds_shorter() -> None:
    """The answer came too late for the next heartbeat, over a slow network: nine tenths from then on."""
    assert Client("equipoise").beats(0, 3, 6, 12, 15, 18) == [2700, 2900, 2900, 0, 2700, 2700]


def told(client: Client, *times: float, interval: int = 0) -> list[int]:
    """Holds of a member of a `consumer` group, whose interval is 5 s, or is said with the last answer."""
    presence, holds = Presence(TimerKey(TimerKind.SESSION, "g", "m"), last_seen=NOW, told_interval_ms=interval), []
    for at in times:
        now = NOW + round(at * 1000)
        holds.append(client.held_heartbeat.limit_of_consumer(CONFIG, presence, 5_000, now, is_static=False))
        presence.last_seen = now
    return holds


def test_members_of_consumer_groups_are_held_for_most_of_the_interval_that_they_are_told() -> None:
    assert told(Client("equipoise"), 0, 5, 10, 20, 25) == [4900, 4900, 4900, 4500, 4500], "it has skipped one"
    assert told(Client("librdkafka"), 0, 5, 10, 20, 25) == [4500, 4500, 4500, 4500, 4500]


@pytest.mark.parametrize(("software", "limit"), [("apache-kafka-java", 225), ("librdkafka", 0), ("equipoise", 4900)])
def test_who_is_not_held_beyond_the_interval_that_it_was_told(software: str, limit: int) -> None:
    """Java's threads do not rest while a heartbeat is due and another one is in flight. librdkafka gives a heartbeat up
    after that interval, and its connection with it."""
    assert told(Client(software), 0.25, interval=250) == [limit]


def test_librdkafka_has_its_answer_half_a_second_before_it_gives_up() -> None:
    assert told(Client("librdkafka"), 1, interval=1_000) == [500]


def test_static_members_are_held_for_half_a_second_at_most() -> None:
    assert Client(static=True).beats(0, 3, 6) == [500, 500, 500]


def test_without_the_setting_none_is_held() -> None:
    client = Client(config=BrokerConfig(group_heartbeat_hold_max_ms=0))
    assert client.beats(0, 3, 6) == [0, 0, 0]


def test_what_a_member_has_shown_outlives_its_connection() -> None:
    client = Client()
    client.beats(0, 3)
    client.held_heartbeat = HeldHeartbeat()
    client.held_heartbeat.known_as("librdkafka")
    assert client.beat(6) == 2850


# -- on a broker


def introduce(client: RawClient, software: str) -> None:
    client.call(ApiVersionsRequest(client_software_name=software, client_software_version="1"))


def settle(broker: Broker, clock: StandingClock, client: RawClient) -> str:
    introduce(client, "kafka-python")
    member_id: str = client.call(join()).member_id
    client.send(join(member_id))

    def is_joined() -> bool:
        advance(broker, clock, 1)
        return client.has_reply()

    eventually(is_joined, "the join phase ends")
    assert client.receive().error_code == ErrorCode.NONE
    assert client.call(sync(member_id)).error_code == ErrorCode.NONE
    return member_id


def is_held(broker: Broker, member_id: str) -> bool:
    def look(server: object) -> bool:
        return member_id in broker.server.group_coordinator.shard_of("g").core.groups["g"].parked.heartbeats

    return broker.call(look)


@pytest.fixture
def standing(start: Start) -> tuple[Broker, StandingClock]:
    clock = StandingClock()
    return start({"group.initial.rebalance.delay.ms": 0}, clock=clock), clock


def test_a_member_whose_connection_ends_during_a_hold_is_held_no_more(
    standing: tuple[Broker, StandingClock], connect: Connect
) -> None:
    """request.timeout.ms may be shorter than a hold: such a client would lose its coordinator again and again."""
    broker, clock = standing
    client, again = connect(broker), connect(broker)
    member_id = settle(broker, clock, client)
    client.send(heartbeat(member_id))
    eventually(lambda: is_held(broker, member_id), "the heartbeat is held")
    client.close()
    eventually(lambda: not is_held(broker, member_id), "the broker has seen the end of the connection")
    introduce(again, "kafka-python")
    for _ in range(5):
        advance(broker, clock, 3_000)
        assert again.call(heartbeat(member_id)).error_code == ErrorCode.NONE


def test_a_member_that_leaves_a_held_heartbeat_by_another_request_is_held_again(
    standing: tuple[Broker, StandingClock], connect: Connect
) -> None:
    broker, clock = standing
    client, again = connect(broker), connect(broker)
    member_id = settle(broker, clock, client)
    client.send(heartbeat(member_id))
    eventually(lambda: is_held(broker, member_id), "the heartbeat is held")
    client.send(commit({}), 9)
    assert client.receive().error_code == ErrorCode.NONE
    client.receive()
    client.close()
    advance(broker, clock, 3_000)
    introduce(again, "kafka-python")
    again.send(heartbeat(member_id))
    eventually(lambda: is_held(broker, member_id), "it is held on its next connection")
    advance(broker, clock, 1_801)
    assert again.receive().error_code == ErrorCode.NONE


@pytest.mark.parametrize("software", ["kafkajs", "sarama", "kgo", ""])
def test_clients_that_await_the_answer_are_never_held(software: str) -> None:
    """The table in docs/groups.md: other work of theirs would wait as long as the hold."""
    found = HeldHeartbeat()
    found.known_as(software, "some-client")
    assert not found.is_patient
