"""The brokers of the proving ground: they start, lose nothing when killed, and start again where they were."""

from __future__ import annotations

import pytest

from equipoise.client import Admin
from equipoise.wire.errors import EquipoiseError
from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker, MockBroker


def topics_of(broker: BrokerProcess) -> dict[str, int]:
    with Admin(broker.bootstrap_servers) as admin:
        return {topic.name: len(topic.partitions) for topic in admin.topics()}


@pytest.mark.kafka
def test_kafka_comes_back_after_a_kill_with_what_it_had(kafka: KafkaBroker) -> None:
    with Admin(kafka.bootstrap_servers) as admin:
        admin.create_topic("kept", 3)
    address = kafka.bootstrap_servers
    kafka.kill()
    kafka.start()
    assert kafka.bootstrap_servers == address
    assert topics_of(kafka)["kept"] == 3


def test_ours_comes_back_after_a_kill_with_what_it_had() -> None:
    with EquipoiseBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("kept", 3)
        broker.kill()
        broker.start()
        assert topics_of(broker)["kept"] == 3


def test_a_broker_that_hangs_goes_on_where_it_stood_and_can_be_stopped() -> None:
    with EquipoiseBroker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("kept", 3)
        broker.hang()
        assert broker.is_running
        with pytest.raises(EquipoiseError), Admin(broker.bootstrap_servers, timeout=0.2) as admin:
            admin.topics()
        broker.resume()
        assert topics_of(broker)["kept"] == 3
        broker.hang()
        broker.restart()
        assert not broker.is_hung
        assert topics_of(broker)["kept"] == 3


def test_the_mock_cluster_answers() -> None:
    with MockBroker() as mock:
        assert topics_of(mock) == {}


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(EquipoiseError, match=r"no\.such\.setting"), EquipoiseBroker({"no.such.setting": 1}):
        pass
