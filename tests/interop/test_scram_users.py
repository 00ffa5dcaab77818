"""Users and their SCRAM credentials through the admin clients of others."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import admin as kafka_python_admin

from equipoise.broker import Broker
from equipoise.security.sasl.scram import credential, salted_password
from tests.interop.drivers import Confluent, KafkaPython
from tests.interop.drivers.base import PATIENCE_S

PASSWORD = b"a secret, with = and ,"


def assert_password(broker: Broker, user: str, mechanism: str, iterations: int) -> None:
    """What the broker keeps is what a login with the password needs."""
    found = broker.call(lambda server: server.security.state.credentials(user, mechanism))
    assert found is not None
    salted = salted_password(mechanism, PASSWORD, found.salt, iterations)
    assert found == credential(mechanism, salted, found.salt, iterations)


class TestConfluent:
    def alter(self, confluent: Confluent, *changes: UserScramCredentialAlteration) -> None:
        for future in confluent.admin.alter_user_scram_credentials(list(changes)).values():
            future.result(PATIENCE_S)

    def described(self, confluent: Confluent) -> dict[str, Any]:
        asked: Any = confluent.admin.describe_user_scram_credentials()
        found: dict[str, Any] = asked.result(PATIENCE_S)
        return found

    def test_a_user_from_its_beginning_to_its_end(self, confluent: Confluent, broker: Broker) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
        self.alter(confluent, UserScramCredentialUpsertion("alice", info, PASSWORD))
        assert_password(broker, "alice", "SCRAM-SHA-256", 8192)
        (kept,) = self.described(confluent)["alice"].scram_credential_infos
        assert (kept.mechanism, kept.iterations) == (ScramMechanism.SCRAM_SHA_256, 8192)
        self.alter(confluent, UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256))
        assert self.described(confluent) == {}

    def test_a_user_that_is_not_there(self, confluent: Confluent) -> None:
        asked: Any = confluent.admin.describe_user_scram_credentials(["nobody"])
        (future,) = asked.values()
        with pytest.raises(KafkaException) as caught:
            future.result(PATIENCE_S)
        assert caught.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


class TestKafkaPython:
    def test_a_user_from_its_beginning_to_its_end(self, kafka_python: KafkaPython, broker: Broker) -> None:
        mechanism = kafka_python_admin.ScramMechanism.SCRAM_SHA_512
        upsertion = kafka_python_admin.UserScramCredentialUpsertion(
            "bob", mechanism, password=PASSWORD, iterations=4096
        )
        kafka_python.admin.alter_user_scram_credentials([upsertion])
        assert_password(broker, "bob", "SCRAM-SHA-512", 4096)
        assert "bob" in str(kafka_python.admin.describe_user_scram_credentials())
        deletion = kafka_python_admin.UserScramCredentialDeletion("bob", mechanism)
        kafka_python.admin.alter_user_scram_credentials([deletion])
        assert "bob" not in str(kafka_python.admin.describe_user_scram_credentials())
