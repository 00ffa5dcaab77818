"""Operations that ACLs deny: the clients say at once which permission is missing, and of whom."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    AsyncConsumer,
    Consumer,
    Producer,
    ResourcePattern,
    ResourceType,
    TopicPartition,
)
from equipoise.console.edge import REFUSED
from equipoise.errors import AuthorizationError, ErrorCode

QUICK = {"group.initial.rebalance.delay.ms": 0, "authorizer.class.name": "acl", "super.users": "User:admin"}
USERS = {"admin": "admin-secret", "alice": "alice-secret"}
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    with Broker(QUICK, topics={"orders": 1}, security="SASL_PLAINTEXT", users=USERS) as broker:
        yield broker


@pytest.fixture(autouse=True)
def no_acls(guarded: Broker) -> Iterator[None]:
    yield
    with client(Admin, guarded, "admin") as admin:
        admin.delete_acls([AclFilter()])


def client(kind: Any, broker: Broker, user: str = "alice", **more: Any) -> Any:
    """A client of this kind that logs in as this user."""
    given: dict[str, Any] = {name.replace(".", "_"): value for name, value in broker.client_settings(user).items()}
    if kind is Admin:
        return Admin(given.pop("bootstrap_servers"), **given, **more)
    return kind(**given, **more)


def allow(broker: Broker, *rules: tuple[AclOperation, ResourceType, str]) -> None:
    acls = [
        Acl(ResourcePattern(kind, name), "User:alice", "*", operation, AclPermissionType.ALLOW)
        for operation, kind, name in rules
    ]
    with client(Admin, broker, "admin") as admin:
        admin.create_acls(acls)


def needs(error: BaseException, code: ErrorCode, operation: str, resource: str, options: str) -> None:
    assert isinstance(error, AuthorizationError)
    assert error.code is code
    assert f"User:alice needs {operation} on {resource}" in str(error)
    command = f"equipoise acls add --allow-principal User:alice --operation {operation.capitalize()} {options}"
    assert command in str(error)


def test_poll_says_which_topic_is_denied(guarded: Broker) -> None:
    allow(guarded, (READ, GROUP, "g"))
    with client(Consumer, guarded, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(AuthorizationError) as caught:
            _poll(consumer)
        needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ", "topic orders", "--topic orders")


def test_poll_says_that_the_group_is_denied(guarded: Broker) -> None:
    allow(guarded, (READ, TOPIC, "orders"))
    with client(Consumer, guarded, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        with pytest.raises(AuthorizationError) as caught:
            _poll(consumer)
    needs(caught.value, ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ", "group billing", "--group billing")


def _poll(consumer: Consumer) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        consumer.poll(0.1)


def test_an_async_consumer_says_the_same(guarded: Broker) -> None:
    async def run() -> None:
        async with client(AsyncConsumer, guarded, group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            async with asyncio.timeout(60):
                while True:
                    await consumer.poll(0.1)

    allow(guarded, (READ, TOPIC, "orders"))
    with pytest.raises(AuthorizationError) as caught:
        asyncio.run(run())
    needs(caught.value, ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ", "group billing", "--group billing")


def test_offsets_of_a_denied_topic_are_refused_at_once_and_reading_others_goes_on(guarded: Broker) -> None:
    denied, place = TopicPartition("secret", 0), TopicPartition("orders", 0)
    with client(Admin, guarded, "admin") as admin:
        admin.create_topic("secret", 1)
    allow(guarded, (READ, TOPIC, "orders"))
    with client(Consumer, guarded, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        for ask in (consumer.end_offsets, consumer.beginning_offsets):
            with pytest.raises(AuthorizationError) as caught:
                ask(place, denied)
        needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ", "topic secret", "--topic secret")
        assert consumer.poll(0.2) == []
        assert consumer.position(place) == consumer.end_offsets(place)[place]
        allow(guarded, (READ, TOPIC, "secret"))
        assert consumer.end_offsets(denied) == {denied: 0}
        consumer.assign([denied])
        assert consumer.position(denied) == 0


def test_records_that_may_be_described_and_not_read(guarded: Broker) -> None:
    allow(guarded, (DESCRIBE, TOPIC, "orders"), (READ, GROUP, "g"))
    with client(Consumer, guarded, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(AuthorizationError) as caught:
            _poll(consumer)
    needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ", "topic orders", "--topic orders")


@pytest.mark.parametrize("is_group", [True, False])
def test_a_commit(guarded: Broker, is_group: bool) -> None:
    allow(guarded, (READ, GROUP, "g") if is_group else (READ, TOPIC, "orders"))
    orders = TopicPartition("orders", 0)
    with client(Consumer, guarded, group_id="g") as consumer:
        consumer.assign([orders])
        with pytest.raises(AuthorizationError) as caught:
            consumer.commit({orders: 1})
    if is_group:
        needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ", "topic orders", "--topic orders")
    else:
        needs(caught.value, ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ", "group g", "--group g")


@pytest.mark.parametrize("may_describe", [True, False])
def test_produce(guarded: Broker, may_describe: bool) -> None:
    if may_describe:
        allow(guarded, (DESCRIBE, TOPIC, "orders"), (AclOperation.IDEMPOTENT_WRITE, CLUSTER, "kafka-cluster"))
    with client(Producer, guarded) as producer, pytest.raises(AuthorizationError) as caught:
        producer.send("orders", b"x").result(60)
    needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "WRITE", "topic orders", "--topic orders")


def test_a_producer_without_an_id_fails_at_once_and_goes_on_when_it_is_allowed(guarded: Broker) -> None:
    allow(guarded, (DESCRIBE, TOPIC, "orders"))
    with client(Producer, guarded) as producer:
        with pytest.raises(AuthorizationError, match="needs IDEMPOTENT_WRITE on the cluster"):
            producer.send("orders", b"x").result(60)
        allow(guarded, (WRITE, TOPIC, "orders"))
        assert producer.send("orders", b"x").result(60).topic == "orders"


def test_admin(guarded: Broker) -> None:
    with client(Admin, guarded) as admin:
        with pytest.raises(AuthorizationError) as caught:
            admin.create_topic("fresh")
        needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "CREATE", "topic fresh", "--topic fresh")
        with pytest.raises(AuthorizationError) as caught:
            admin.topic("orders")
        needs(caught.value, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "DESCRIBE", "topic orders", "--topic orders")
        with pytest.raises(AuthorizationError) as caught:
            admin.describe_acls()
        needs(caught.value, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "DESCRIBE", "the cluster", "--cluster")
        with pytest.raises(AuthorizationError) as caught:
            admin.remove_user("bob", "SCRAM-SHA-256")
        needs(caught.value, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ALTER", "the cluster", "--cluster")
        allow(guarded, (DESCRIBE, TOPIC, "orders"))
        denied: list[tuple[Callable[[], object], str]] = [
            (partial(admin.delete_topic, "orders"), "DELETE"),
            (partial(admin.add_partitions, "orders", 2), "ALTER"),
            (partial(admin.configs, "orders"), "DESCRIBE_CONFIGS"),
        ]
        for call, operation in denied:
            with pytest.raises(AuthorizationError, match=f"User:alice needs {operation} on topic orders"):
                call()


def test_a_topic_is_created_by_a_principal_that_may_not_describe_it(guarded: Broker) -> None:
    allow(guarded, (CREATE, TOPIC, "made"))
    with client(Admin, guarded, timeout=600) as admin:
        admin.create_topic("made")  # does not wait for what it cannot see


def test_a_command_says_it_in_one_line(guarded: Broker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    given = guarded.client_settings("alice")
    config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    config.chmod(0o600)
    command = [sys.executable, "-m", "equipoise", "topics", "create", "fresh", "--command-config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == REFUSED
    assert "User:alice needs CREATE on topic fresh" in done.stderr
    assert "Traceback" not in done.stderr
