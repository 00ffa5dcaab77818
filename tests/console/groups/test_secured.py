"""The commands on a secured cluster: TLS and SASL by --command-config, and a principal that may see one group only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import (
    Acl,
    AclOperation,
    AclPermissionType,
    Admin,
    PatternType,
    ResourcePattern,
    ResourceType,
    TopicPartition,
)
from tests.commands import Command, Ended

USERS = {"admin": "admin-secret", "bob": "bob-secret"}


def _may(operation: AclOperation, kind: ResourceType, name: str) -> Acl:
    pattern = ResourcePattern(kind, name, PatternType.LITERAL)
    return Acl(pattern, "User:bob", "*", operation, AclPermissionType.ALLOW)


@pytest.fixture
def secured() -> Iterator[Broker]:
    acls = [
        _may(AclOperation.DESCRIBE, ResourceType.GROUP, "billing"),
        _may(AclOperation.DESCRIBE, ResourceType.TOPIC, "orders"),
    ]
    settings = {"super.users": "User:admin"}
    with Broker(settings, topics={"orders": 2}, security="SASL_SSL", users=USERS, acls=acls) as broker:
        with Admin(broker.bootstrap_servers, **_login(broker, "admin")) as admin:
            admin.commit_offsets("billing", {TopicPartition("orders", 0): 0})
            admin.commit_offsets("hidden", {TopicPartition("orders", 0): 0})
        yield broker


def _login(broker: Broker, user: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": user,
        "sasl_password": USERS[user],
        "ssl_ca_location": str(broker.ca_file),
    }


def _call(command: Command, broker: Broker, tmp_path: Path, user: str, *arguments: str) -> Ended:
    file = tmp_path / user
    file.touch(0o600)
    settings = _login(broker, user)
    file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    return command(*arguments, "-b", broker.bootstrap_servers, "--command-config", str(file))


def test_who_may_see_all_sees_all_by_the_journal(command: Command, secured: Broker, tmp_path: Path) -> None:
    ended = _call(command, secured, tmp_path, "admin", "groups", "list", "--json")
    found = json.loads(ended.out)
    assert [one["group_id"] for one in found["groups"]] == ["billing", "hidden"]
    assert _call(command, secured, tmp_path, "admin", "groups", "check", "billing").status == 0


def test_who_may_see_one_group_sees_that_one_and_says_what_it_may_not(
    command: Command, secured: Broker, tmp_path: Path
) -> None:
    found = json.loads(_call(command, secured, tmp_path, "bob", "groups", "lag", "billing", "--json").out)
    assert (found["source"], found["groups"][0]["lag"]["lag"]) == ("polling", 0)
    ended = _call(command, secured, tmp_path, "bob", "groups", "members", "hidden")
    assert (ended.status, ended.out) == (1, "")
    assert "GROUP_AUTHORIZATION_FAILED" in ended.err
    assert USERS["bob"] not in ended.err
