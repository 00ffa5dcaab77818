"""How long a heartbeat may be held: what a connection shows of its interval, and what it does not."""

from __future__ import annotations

import pytest

from equipoise.broker.config import BrokerConfig
from equipoise.broker.holding import Holding
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest

CONFIG = BrokerConfig()
NOW = 1_700_000_000_000


class Client:
    """Beats at times given as seconds since it connected; says how long each may be held."""

    def __init__(self, software: str = "librdkafka", config: BrokerConfig = CONFIG) -> None:
        self.holding = Holding()
        self.holding.known_as(software)
        self.config = config

    def beat(self, at: float, instance_id: str | None = None) -> int:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=instance_id)
        return self.holding.limit(self.config, request, NOW + round(at * 1000))


def test_from_the_first_on_nine_tenths_of_the_usual_interval() -> None:
    client = Client()
    assert [client.beat(at) for at in (0, 3, 6)] == [2700, 2700, 2700]


@pytest.mark.parametrize("software", ["", "kgo", "sarama", "kafkajs"])
def test_others_are_answered_at_once(software: str) -> None:
    client = Client(software)
    assert [client.beat(at) for at in (0, 3)] == [0, 0]


def test_aiokafka_is_known_by_its_own_client_id() -> None:
    for client_id, is_held in (("aiokafka-0.14.0", True), ("mine", False), ("aiokafka-mine", False)):
        client = Client("")
        client.holding.known_as("", client_id)
        assert client.beat(0) == (2700 if is_held else 0)
    client = Client("")
    client.holding.known_as("kafkajs", "aiokafka-0.14.0")
    assert client.beat(0) == 0


def test_another_interval_is_looked_at_without_a_hold_and_then_used() -> None:
    client = Client()
    assert [client.beat(at) for at in (0, 2, 4, 6)] == [2700, 0, 1800, 1800]


def test_a_longer_interval_is_learnt_the_same_way_up_to_the_setting() -> None:
    client = Client()
    assert [client.beat(at) for at in (0, 4, 8, 12, 22, 32)] == [2700, 0, 3600, 3600, 0, 5000]


def test_a_rebalance_in_between_says_nothing_of_the_interval() -> None:
    """Held for nine tenths of 3.4 s, a client that beats every 3 s would skip one, and then beat every 6 s."""
    client = Client()
    assert client.beat(0) == 2700
    client.holding.rejoins()
    assert [client.beat(at) for at in (3.4, 6.4)] == [2700, 2700]


def test_a_skipped_beat_is_no_interval() -> None:
    client = Client()
    assert [client.beat(at) for at in (0, 3, 9, 12, 15)] == [2700, 2700, 0, 2700, 2700]


def test_static_members_are_held_for_half_a_second_at_most() -> None:
    client = Client()
    assert [client.beat(at, "one") for at in (0, 3)] == [500, 500]


def test_without_the_setting_none_is_held() -> None:
    client = Client(config=BrokerConfig(group_heartbeat_hold_max_ms=0))
    assert [client.beat(at) for at in (0, 3, 6)] == [0, 0, 0]
