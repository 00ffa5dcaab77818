"""CreateAcls, DescribeAcls, DeleteAcls: what is kept, what is refused, and that it outlives the broker."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.security.acls import AclFilter, AclOperation, AclPermissionType, PatternType, ResourceType
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k22_init_producer_id import InitProducerIdRequest
from equipoise.wire.apis.k29_describe_acls import DescribeAclsRequest
from equipoise.wire.apis.k30_create_acls import AclCreation, CreateAclsRequest
from equipoise.wire.apis.k60_describe_cluster import DescribeClusterRequest
from equipoise.wire.errors import ErrorCode, UsageError
from tests.broker.calls import append, create_topic, fetch, list_offsets
from tests.broker.conftest import Connect, Start
from tests.broker.principals import ADMIN, GUARDED, As, add_acls, as_principal, creation, remove_acls
from tests.broker.rawclient import RawClient
from tests.security.acl_sets import ALLOW, DENY, GROUP, PREFIXED, TOPIC, acl

__all__ = ["as_principal"]
Op = AclOperation
CLUSTER = ResourceType.CLUSTER
BOB = "User:bob"


def describe(client: RawClient, wanted: AclFilter | None = None, version: int = 3) -> Any:
    wanted = wanted or AclFilter()
    return client.call(
        DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        ),
        version,
    )


def listed(client: RawClient, wanted: AclFilter | None = None, version: int = 3) -> list[tuple[str, int, int]]:
    """Name, operation and permission of each, in the order of the answer."""
    answer = describe(client, wanted, version)
    assert answer.error_code == ErrorCode.NONE
    return [(row.resource_name, one.operation, one.permission_type) for row in answer.resources for one in row.acls]


@pytest.fixture
def broker(start: Start) -> Broker:
    return start(GUARDED)


@pytest.fixture
def admin(broker: Broker, as_principal: As) -> RawClient:
    return as_principal(broker, ADMIN)


# -- without an authorizer


def test_without_an_authorizer_the_acl_apis_say_that_security_is_disabled(start: Start, connect: Connect) -> None:
    client = connect(start())
    assert describe(client).error_code == ErrorCode.SECURITY_DISABLED
    assert add_acls(client, acl("t", Op.READ)) == [ErrorCode.SECURITY_DISABLED]
    assert remove_acls(client, AclFilter())[0].error_code == ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize("name", ["acl", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_an_authorizer_denies_what_no_acl_allows(start: Start, connect: Connect, name: str) -> None:
    client = connect(start({"authorizer.class.name": name}))
    assert list_offsets(client, -1).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_settings_that_make_no_sense_are_refused_at_the_start(start: Start) -> None:
    with pytest.raises(UsageError, match=r"super\.users.*'admin'"):
        start({"authorizer.class.name": "acl", "super.users": "admin"})
    with pytest.raises(UsageError, match=r"authorizer\.class\.name"):
        start({"authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer"})


def test_everyone_may_where_no_acl_is_found_if_the_setting_says_so(start: Start, as_principal: As) -> None:
    broker = start(GUARDED | {"allow.everyone.if.no.acl.found": True})
    bob, admin = as_principal(broker, BOB), as_principal(broker, ADMIN)
    create_topic(bob)
    assert append(bob, b"x") == 0
    add_acls(admin, acl("t", Op.READ, principal="User:alice"))
    assert fetch(bob).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- creating, describing, deleting


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_described_by_resource(admin: RawClient, version: int) -> None:
    rules = [
        acl("t", Op.READ),
        acl("t", Op.WRITE, DENY),
        acl("u", Op.READ, pattern=PREFIXED),
        acl("g", Op.READ, kind=GROUP),
    ]
    answer = admin.call(CreateAclsRequest(creations=[creation(rule) for rule in rules]), version)
    assert [row.error_code for row in answer.results] == [ErrorCode.NONE] * 4
    assert listed(admin, version=version) == [("t", 3, 3), ("t", 4, 2), ("u", 3, 3), ("g", 3, 3)]
    assert len(describe(admin, version=version).resources) == 3
    assert listed(admin, AclFilter(resource_type=GROUP), version) == [("g", 3, 3)]
    assert listed(admin, AclFilter(name="ux", pattern_type=PatternType.MATCH), version) == [("u", 3, 3)]


def test_an_acl_that_is_there_already_is_a_success_and_is_kept_once(admin: RawClient) -> None:
    rule = acl("t", Op.READ)
    assert add_acls(admin, rule, rule) == [ErrorCode.NONE] * 2
    assert add_acls(admin, rule) == [ErrorCode.NONE]
    assert listed(admin) == [("t", 3, 3)]


def test_invalid_acls_are_refused_one_by_one(admin: RawClient) -> None:
    good = creation(acl("t", Op.READ))
    changes: list[dict[str, Any]] = [
        {},
        {"resource_type": 1},
        {"resource_type": 0},
        {"resource_type": 4, "resource_name": "other"},
        {"resource_name": ""},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"operation": 77},
        {"permission_type": 1},
        {"principal": "bob"},
        {"host": ""},
    ]
    creations = [AclCreation(**{**_fields(good), **change}) for change in changes]
    codes = [row.error_code for row in admin.call(CreateAclsRequest(creations=creations)).results]
    assert codes == [ErrorCode.NONE] + [ErrorCode.INVALID_REQUEST] * (len(changes) - 1)
    assert listed(admin) == [("t", 3, 3)]


def _fields(row: AclCreation) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.fields}


def test_a_filter_is_told_what_it_has_deleted_and_two_filters_are_both(admin: RawClient) -> None:
    add_acls(admin, acl("t", Op.READ), acl("t", Op.WRITE), acl("u", Op.READ))
    by_name, by_operation, unknown = remove_acls(
        admin, AclFilter(name="t"), AclFilter(operation=Op.READ), AclFilter(operation=Op.UNKNOWN)
    )
    assert [row.operation for row in by_name.matching_acls] == [Op.READ, Op.WRITE]
    assert [row.resource_name for row in by_operation.matching_acls] == ["t", "u"]
    assert unknown.error_code == ErrorCode.INVALID_REQUEST
    assert listed(admin) == []
    assert remove_acls(admin, AclFilter())[0].matching_acls == []


def test_too_many_acls_in_one_request_are_refused_and_none_is_kept(admin: RawClient) -> None:
    rows = [creation(acl(f"t{n}", Op.READ)) for n in range(10_001)]
    codes = {row.error_code for row in admin.call(CreateAclsRequest(creations=rows)).results}
    assert codes == {ErrorCode.POLICY_VIOLATION}
    assert listed(admin) == []


def test_the_work_of_filters_is_bounded_and_named_patterns_cost_none(admin: RawClient) -> None:
    names = [f"t{n}" for n in range(600)]
    add_acls(admin, *(acl(name, Op.READ) for name in names))
    too_many = [AclFilter(principal=f"User:{n}") for n in range(200)]
    assert {row.error_code for row in remove_acls(admin, *too_many)} == {ErrorCode.INVALID_REQUEST}
    again_and_again = [AclFilter()] * 20
    assert {row.error_code for row in remove_acls(admin, *again_and_again)} == {ErrorCode.INVALID_REQUEST}
    assert len(listed(admin)) == 600
    named = [AclFilter(ResourceType.TOPIC, name, PatternType.LITERAL) for name in names]
    assert [[row.resource_name for row in one.matching_acls] for one in remove_acls(admin, *named)] == [
        [name] for name in names
    ]
    assert listed(admin) == []


def test_acls_outlive_the_broker(start: Start, as_principal: As, tmp_path: Path) -> None:
    broker = start(GUARDED, data=tmp_path)
    admin = as_principal(broker, ADMIN)
    create_topic(admin)
    add_acls(admin, acl("t", Op.READ), acl("u", Op.READ), acl("v", Op.READ))
    remove_acls(admin, AclFilter(name="u"))
    for _ in range(2):
        broker.stop()
        broker.start()
        assert listed(as_principal(broker, ADMIN)) == [("t", 3, 3), ("v", 3, 3)]
        assert fetch(as_principal(broker, BOB)).error_code == ErrorCode.NONE
        assert fetch(as_principal(broker, "User:alice")).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# -- what a restricted principal may do


def test_an_acl_holds_from_its_answer_on_and_ends_with_its_removal(
    broker: Broker, admin: RawClient, as_principal: As
) -> None:
    bob = as_principal(broker, BOB)
    create_topic(admin)
    for _ in range(3):
        assert fetch(bob).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        add_acls(admin, acl("t", Op.READ))
        assert fetch(bob).error_code == ErrorCode.NONE
        remove_acls(admin, AclFilter())


def test_an_idempotent_producer_needs_some_topic_or_the_cluster(
    broker: Broker, admin: RawClient, as_principal: As
) -> None:
    bob = as_principal(broker, BOB)
    request = InitProducerIdRequest(transaction_timeout_ms=1000)
    assert bob.call(request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for rule in (acl("t", Op.WRITE), acl("kafka-cluster", Op.IDEMPOTENT_WRITE, kind=CLUSTER)):
        add_acls(admin, rule)
        assert bob.call(request).error_code == ErrorCode.NONE
        remove_acls(admin, AclFilter())
    add_acls(admin, acl("t", Op.WRITE), acl("t", Op.WRITE, DENY))
    assert bob.call(request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_operations_on_the_cluster_are_told_only_to_a_caller_that_may_describe_it(
    broker: Broker, admin: RawClient, as_principal: As
) -> None:
    bob = as_principal(broker, BOB)
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert bob.call(request).cluster_authorized_operations == 0
    add_acls(admin, acl("kafka-cluster", Op.ALTER, kind=CLUSTER))
    assert bob.call(request).cluster_authorized_operations == 1 << Op.ALTER | 1 << Op.DESCRIBE
    everything = admin.call(request).cluster_authorized_operations
    assert everything == sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def test_denials_are_logged_once_for_a_request_with_who_what_and_why(
    broker: Broker, as_principal: As, caplog: pytest.LogCaptureFixture
) -> None:
    bob = as_principal(broker, "User:bob\nadmin")
    with caplog.at_level(logging.INFO, "equipoise.access"):
        list_offsets(bob, -1, topic="t\x1b[31m")
        bob.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    assert [record.getMessage() for record in caplog.records] == [
        r"'User:bob\nadmin' is denied DESCRIBE on TOPIC 't\x1b[31m' from 127.0.0.1 in ListOffsets: DefaultDeny",
        r"'User:bob\nadmin' is denied READ on GROUP 'g' from 127.0.0.1 in Heartbeat: DefaultDeny",
    ]
    assert broker.call(lambda server: dict(server.denials.counts)) == {(TOPIC, Op.DESCRIBE): 1, (GROUP, Op.READ): 1}


def test_the_permission_types_of_the_wire() -> None:
    assert (AclPermissionType.DENY, AclPermissionType.ALLOW) == (DENY, ALLOW) == (2, 3)


def test_a_broker_in_a_test_has_users_and_acls_of_its_own(tmp_path: Path) -> None:
    """They are there before the first client is, and once only when the broker starts again."""
    pytest.importorskip("cryptography")
    rules = [acl("orders", Op.ALL, principal="User:alice"), acl("billing", Op.READ, kind=GROUP, principal="User:alice")]
    users = {"alice": "alice-secret", "bob": "bob-secret", "root": "root-secret"}
    for _ in range(2):
        with Broker(
            {"super.users": "User:root"},
            topics={"orders": 1},
            data=tmp_path / "data",
            security="SASL_SSL",
            users=users,
            acls=rules,
        ) as broker:
            found = {}
            for user in users:
                given = {name.replace(".", "_"): value for name, value in broker.client_settings(user).items()}
                with Admin(given.pop("bootstrap_servers"), **given) as admin:  # type: ignore[arg-type]
                    found[user] = [topic.name for topic in admin.topics()]
                    if user == "root":
                        assert admin.describe_acls() == sorted(rules)
            assert found == {"alice": ["orders"], "bob": [], "root": ["orders"]}


def test_acls_that_cannot_be_are_refused_before_the_start() -> None:
    with pytest.raises(UsageError, match="acls: Invalid empty resource name"):
        Broker(acls=[acl("", Op.READ)])


def test_an_empty_list_of_acls_denies_everything() -> None:
    with Broker(topics={"orders": 1}, acls=[]) as broker, Admin(broker.bootstrap_servers) as admin:
        assert admin.topics() == []
