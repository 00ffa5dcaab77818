"""What a client sees when it is not let in is the same on our broker as on Apache Kafka."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from proving.members.fleet import Fleet
from proving.secured_broker import ACLS, SecuredBroker, SecuredEquipoise
from proving.secured_kafka import SecuredKafka
from tests.proving.needed import needed
from tests.proving.secured_failures import FAILURES, fail, kind_of, make_topics

pytestmark = pytest.mark.kafka

CLIENTS = ("java", "confluent-kafka", "equipoise", "kafka-python", "aiokafka", "kafkajs", "franz-go", "kcat")
# On both brokers these clients try on, and their applications hear of nothing.
SILENT = {
    ("kafka-python", "topic without an ACL"),
    ("kafkajs", "expired certificate of the client"),
    ("kcat", "topic without an ACL"),
    ("kcat", "group without an ACL"),
}
CELLS = [(client, name) for client in CLIENTS for name in FAILURES if (client, name) not in SILENT]
Said = dict[tuple[str, str], str]


def hear_all(broker: SecuredBroker, place: pytest.TempPathFactory) -> Said:
    with broker, Fleet(broker.bootstrap_servers, place.mktemp("members") / "log") as fleet:
        make_topics(broker)
        with ThreadPoolExecutor(len(CELLS)) as threads:
            said = threads.map(lambda cell: fail(broker, fleet, *cell), CELLS)
            return dict(zip(CELLS, said, strict=True))


@pytest.fixture(scope="module")
def on_kafka(tmp_path_factory: pytest.TempPathFactory) -> Said:
    return hear_all(needed(lambda: SecuredKafka(ACLS)), tmp_path_factory)


@pytest.fixture(scope="module")
def on_ours(tmp_path_factory: pytest.TempPathFactory) -> Said:
    return hear_all(SecuredEquipoise(ACLS), tmp_path_factory)


@pytest.mark.parametrize(("client", "failure"), CELLS)
def test_the_error_is_of_the_same_kind(on_kafka: Said, on_ours: Said, client: str, failure: str) -> None:
    ours, kafkas = on_ours[client, failure], on_kafka[client, failure]
    assert kind_of(ours) == kind_of(kafkas), f"ours: {ours}\nKafka: {kafkas}"
