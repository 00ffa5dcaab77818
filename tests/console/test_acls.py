"""`equipoise acls`, and the ACLs of `Admin`, on our broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermissionType,
    Admin,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from equipoise.errors import KafkaError
from tests.commands import Command, Ended, check_line
from tests.console.schemas import all_schemas, check

READ_ORDERS = Acl(
    ResourcePattern(ResourceType.TOPIC, "orders"), "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Its plaintext clients are ANONYMOUS, who may do everything here."""
    with Broker({"authorizer.class.name": "acl", "super.users": "User:ANONYMOUS"}) as broker:
        yield broker


@pytest.fixture
def acls(command: Command, broker: Broker) -> Any:
    def call(name: str, *options: str) -> Ended:
        return command("acls", name, *options, "--bootstrap-servers", broker.bootstrap_servers)

    return call


def rows(ended: Ended) -> list[str]:
    assert ended.status == 0, ended.err
    found = json.loads(ended.out)
    check(found, all_schemas()["acls"])
    return [
        f"{row['permissionType']} {row['operation']} {row['principal']} {row['host']} "
        f"{row['resourceType']}:{row['patternType']}:{row['name']}"
        for row in found["acls"]
    ]


def test_rules_are_added_listed_and_removed(acls: Any) -> None:
    added = acls(
        "add", "--allow-principal", "User:alice", "--operation", "Read", "--operation", "describe-configs",
        "--topic", "orders", "--group", "g", "--resource-pattern-type", "prefixed", "--json",
    )  # fmt: skip
    assert rows(added) == [
        "ALLOW READ User:alice * TOPIC:PREFIXED:orders",
        "ALLOW DESCRIBE_CONFIGS User:alice * TOPIC:PREFIXED:orders",
        "ALLOW READ User:alice * GROUP:PREFIXED:g",
        "ALLOW DESCRIBE_CONFIGS User:alice * GROUP:PREFIXED:g",
    ]
    acls("add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.0/8", "--cluster")
    assert rows(acls("list", "--cluster", "--json")) == ["DENY ALL User:bob 10.0.0.0/8 CLUSTER:LITERAL:kafka-cluster"]
    assert len(rows(acls("list", "--json"))) == 5
    assert len(rows(acls("list", "--topic", "orders-2", "--resource-pattern-type", "match", "--json"))) == 2
    assert len(rows(acls("list", "--principal", "User:alice", "--json"))) == 4
    removed = acls("remove", "--group", "g", "--resource-pattern-type", "prefixed", "--json")
    assert len(rows(removed)) == 2
    removed = acls(
        "remove", "--topic", "orders", "--resource-pattern-type", "prefixed", "--allow-principal", "User:alice",
        "--operation", "READ", "--json",
    )  # fmt: skip
    assert rows(removed) == ["ALLOW READ User:alice * TOPIC:PREFIXED:orders"]
    assert len(rows(acls("list", "--json"))) == 2


def test_a_table_for_people(acls: Any) -> None:
    assert acls("list").out == "no access rules match\n"
    table = acls("add", "--allow-principal", "User:*", "--topic", "*", "--operation", "DESCRIBE").out.splitlines()
    assert [line.split() for line in table] == [
        ["resource", "name", "pattern", "principal", "host", "operation", "permission"],
        ["TOPIC", "*", "LITERAL", "User:*", "*", "DESCRIBE", "ALLOW"],
    ]
    assert acls("remove", "--group", "x").out == "no access rules match: none was removed\n"


def test_names_that_are_not_polite_stay_in_their_cells(acls: Any, broker: Broker) -> None:
    """Whoever may write a rule chooses the names in it, and somebody else's terminal shows them."""
    hostile = "a\x1b[2J\r\nDENY\u202e"
    rule = READ_ORDERS._replace(pattern=ResourcePattern(ResourceType.TOPIC, hostile), principal=f"User:{hostile}")
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_acls([rule])
    listed = acls("list")
    assert (listed.status, len(listed.out.splitlines())) == (0, 2)
    assert listed.out.count(r"a\x1b[2J\r\nDENY\u202e") == 2
    assert listed.out.replace("\n", "").isprintable()
    removed = acls("remove", "--topic", hostile)
    assert removed.out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("add", "--topic", "t"), "--allow-principal"),
        (("add", "--allow-principal", "User:a"), "--topic"),
        (("add", "--topic", "t", "--allow-principal", "User:a", "--operation", "eat"), "READ"),
        (("add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "match"), "prefixed"),
        (("add", "--topic", "t", "--allow-host", "10.1.1.1", "--deny-principal", "User:a"), "--allow-principal"),
        (("remove",), "--topic"),
        (("add", "--topic", "t", "--allow-principal", "alice"), "colon"),
    ],
)
def test_what_makes_no_rule_is_refused_in_one_line(acls: Any, options: tuple[str, ...], told: str) -> None:
    check_line(acls(*options), told)


def test_without_an_authorizer_the_command_says_what_to_set(command: Command) -> None:
    with Broker() as broker:
        ended = command("acls", "list", "--bootstrap-servers", broker.bootstrap_servers)
    check_line(ended, "authorizer.class.name", status=1)


def test_admin_has_typed_values(broker: Broker) -> None:
    deny = READ_ORDERS._replace(permission_type=AclPermissionType.DENY, principal="User:bob")
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_acls([READ_ORDERS, deny, READ_ORDERS])
        assert admin.describe_acls() == [READ_ORDERS, deny]
        assert admin.describe_acls(AclFilter(principal="User:bob")) == [deny]
        wanted = AclFilter(name="orders", pattern_type=PatternType.MATCH)
        assert admin.delete_acls([wanted, AclFilter(principal="User:bob")]) == [READ_ORDERS, deny]
        assert admin.describe_acls() == []
        with pytest.raises(KafkaError, match="empty resource name"):
            admin.create_acls([READ_ORDERS._replace(pattern=ResourcePattern(ResourceType.TOPIC, ""))])
