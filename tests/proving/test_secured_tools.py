"""Kafka's own tools by SASL_SSL with SCRAM: they make users, topics and rules on both brokers, and say the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from equipoise import Producer
from equipoise.errors import AuthorizationError
from proving.secured_broker import ACLS, PASSWORD, USER, SecuredBroker, SecuredEquipoise
from proving.secured_kafka import SecuredKafka
from proving.tools import Tools
from tests.broker.conftest import eventually
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka
CAROL = "carol"
CREDENTIALS = "SCRAM-SHA-256=[iterations=8192,password=carol-secret]"
OF_CAROL = f"--entity-type users --entity-name {CAROL}"
MAKING = f"""
kafka-configs --alter {OF_CAROL} --add-config {CREDENTIALS}
kafka-configs --alter {OF_CAROL} --add-config producer_byte_rate=100000000
kafka-topics --create --topic tooled --partitions 2
kafka-topics --create --topic closed --partitions 1
kafka-acls --add --allow-principal User:{CAROL} --operation All --topic tooled --force
"""
LOOKING = f"""
kafka-configs --describe {OF_CAROL}
kafka-topics --list
kafka-acls --list --topic tooled
kafka-consumer-groups --list
"""
ENDING = f"""
kafka-acls --remove --topic tooled --allow-principal User:{CAROL} --operation All --force
kafka-configs --alter {OF_CAROL} --delete-config SCRAM-SHA-256
kafka-configs --describe {OF_CAROL}
"""


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with needed(Tools) as running:
        yield running


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[SecuredBroker]]:
    settings = {**ACLS, "super.users": f"User:ANONYMOUS;User:{USER}"}
    with needed(lambda: SecuredKafka(settings)) as kafka, SecuredEquipoise(settings) as ours:
        yield [kafka, ours]


def config(broker: SecuredBroker, place: Path, password: str = PASSWORD) -> str:
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{password}";'
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": broker.ca_file,
    }
    file = place / f"{broker.name}-{password}.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)


def say(tools: Tools, broker: SecuredBroker, lines: str, place: Path) -> list[list[str]]:
    """What each tool prints, without an order."""
    said = []
    at = SimpleNamespace(bootstrap_servers=broker.address_of("LOGIN"))
    for line in filter(None, lines.split("\n")):
        tool, *arguments = line.split()
        ended = tools.run(tool, *arguments, "--command-config", config(broker, place), broker=at)
        assert ended.status == 0, (broker.name, line, ended)
        said.append(sorted(ended.stdout.split("\n")))
    return said


def can_write(broker: SecuredBroker, topic: str) -> bool:
    settings = broker.client("SCRAM-SHA-256") | {"sasl.username": CAROL, "sasl.password": "carol-secret"}
    with Producer(settings) as producer:
        try:
            producer.send(topic, b"x").result(30)
        except AuthorizationError:
            return False
    return True


def test_tools_make_users_and_rules_and_say_the_same(
    brokers: list[SecuredBroker], tools: Tools, tmp_path: Path
) -> None:
    told = []
    for broker in brokers:
        made = say(tools, broker, MAKING, tmp_path)
        eventually(lambda broker=broker: can_write(broker, "tooled"), "carol may write")  # type: ignore[misc]
        assert not can_write(broker, "closed")
        told.append([*made, *say(tools, broker, LOOKING, tmp_path), *say(tools, broker, ENDING, tmp_path)])
    assert told[0] == told[1]


def test_a_wrong_password_ends_a_tool_in_the_same_way(
    brokers: list[SecuredBroker], tools: Tools, tmp_path: Path
) -> None:
    kinds = []
    for broker in brokers:
        at = SimpleNamespace(bootstrap_servers=broker.address_of("LOGIN"))
        ended = tools.run("kafka-topics", "--list", "--command-config", config(broker, tmp_path, "guess"), broker=at)
        kinds.append((ended.status, "invalid credentials with SASL mechanism SCRAM-SHA-512" in str(ended)))
    assert kinds[0] == kinds[1]
    assert kinds[0] == (1, True)
