"""Configs of groups over the wire: described, replaced, changed one by one, listed, kept, and clamped. Rule A19.1."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.consumer.settings import GroupSettings
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.apis.k74_list_config_resources import ListConfigResourcesRequest
from equipoise.wire.errors import ErrorCode, UsageError
from tests.broker import test_topic_configs as topics
from tests.broker.conftest import Connect, StandingClock, Start, advance
from tests.broker.rawclient import RawClient
from tests.broker.test_topic_configs import APPEND, DEFAULT, DELETE, GROUP, SET, STATIC_BROKER

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
INTERVAL, OFFLOAD = "consumer.assignment.interval.ms", "consumer.assignor.offload.enable"
INCREMENTAL = "classic.rebalance.incremental"
DYNAMIC_GROUP = 8
INT, BOOLEAN = 3, 1
OF_THE_BROKER = GroupSettings(45_000, 5_000, 1_000, "cooperative")
WIDER: dict[str, object] = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 100,
}


def alter(client: RawClient, configs: dict[str, str | None], name: str = "g", **options: Any) -> Any:
    return topics.alter(client, configs, name=name, resource_type=GROUP, **options)


def change(client: RawClient, *changes: tuple[str, int, str | None], name: str = "g", **options: Any) -> Any:
    return topics.change(client, *changes, name=name, resource_type=GROUP, **options)


def described(client: RawClient, name: str = "g") -> dict[str, tuple[str, int]]:
    result = topics.describe(client, name, GROUP)
    assert result.error_code == ErrorCode.NONE
    return {row.name: (row.value, row.config_source) for row in result.configs}


def listed(client: RawClient, *types: int) -> list[tuple[str, int]]:
    found = client.call(ListConfigResourcesRequest(resource_types=list(types)), 1).config_resources
    return [(one.resource_name, one.resource_type) for one in found]


def in_force(broker: Broker, group_id: str = "g") -> GroupSettings:
    def settings(server: Any) -> Any:
        return server.group_coordinator.shard_of(group_id).core.settings_of(group_id)

    found = broker.call(settings)
    assert isinstance(found, GroupSettings)
    return found


@pytest.fixture
def broker(start: Start) -> Broker:
    return start()


@pytest.fixture
def client(broker: Broker, connect: Connect) -> RawClient:
    return connect(broker)


# -- described


def test_a_group_without_configs_has_the_brokers_settings(start: Start, connect: Connect) -> None:
    """Rule A19.4."""
    client = connect(start({"group.consumer.heartbeat.interval.ms": 6000}))
    assert described(client) == {
        SESSION: ("45000", DEFAULT),
        HEARTBEAT: ("6000", STATIC_BROKER),
        INTERVAL: ("1000", DEFAULT),
        OFFLOAD: ("true", DEFAULT),
        INCREMENTAL: ("cooperative", DEFAULT),
    }


def test_a_strict_broker_knows_kafkas_configs_alone(start: Start, connect: Connect) -> None:
    """Rule C1.1."""
    client = connect(start({"strict": True, "group.rebalance.incremental": "all"}))
    assert INCREMENTAL not in described(client)
    assert alter(client, {INCREMENTAL: "all"}).error_code == ErrorCode.INVALID_CONFIG


def test_a_group_may_have_its_own_way_to_rebalance(start: Start, connect: Connect) -> None:
    """Rule C1.1."""
    server = start()
    client = connect(server)
    assert alter(client, {INCREMENTAL: "perhaps"}).error_code == ErrorCode.INVALID_CONFIG
    assert alter(client, {INCREMENTAL: "all"}).error_code == ErrorCode.NONE
    assert described(client)[INCREMENTAL] == ("all", DYNAMIC_GROUP)
    assert in_force(server).incremental == "all"


def test_synonyms_are_the_override_then_the_brokers(start: Start, connect: Connect) -> None:
    client = connect(start({"group.consumer.heartbeat.interval.ms": 6000}))
    assert change(client, (HEARTBEAT, SET, "7000")).error_code == ErrorCode.NONE
    result = topics.describe(client, "g", GROUP, [HEARTBEAT, OFFLOAD], include_synonyms=True)
    rows = {row.name: row for row in result.configs}
    assert [(one.name, one.value, one.source) for one in rows[HEARTBEAT].synonyms] == [
        (HEARTBEAT, "7000", DYNAMIC_GROUP),
        ("group.consumer.heartbeat.interval.ms", "6000", STATIC_BROKER),
        ("group.consumer.heartbeat.interval.ms", "5000", DEFAULT),
    ]
    assert [(rows[name].config_type, rows[name].read_only) for name in rows] == [(BOOLEAN, False), (INT, False)]


def test_a_group_without_a_name_is_refused(client: RawClient) -> None:
    assert topics.describe(client, "", GROUP).error_code == ErrorCode.INVALID_REQUEST
    assert change(client, (HEARTBEAT, SET, "7000"), name="").error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, {HEARTBEAT: "7000"}, name="").error_code == ErrorCode.INVALID_REQUEST


# -- altered


def test_changes_one_by_one(broker: Broker, client: RawClient) -> None:
    """Rule A19.3: in force at once; the group need not exist."""
    assert in_force(broker) == OF_THE_BROKER
    assert change(client, (HEARTBEAT, SET, "7000"), (INTERVAL, SET, "0")).error_code == ErrorCode.NONE
    assert described(client)[HEARTBEAT] == ("7000", DYNAMIC_GROUP)
    assert in_force(broker) == GroupSettings(45_000, 7_000, 0, "cooperative")
    assert change(client, (HEARTBEAT, DELETE, None), ("never.there", DELETE, None)).error_code == ErrorCode.NONE
    assert described(client)[HEARTBEAT] == ("5000", DEFAULT)
    assert in_force(broker) == GroupSettings(45_000, 5_000, 0, "cooperative")
    assert in_force(broker, "another") == OF_THE_BROKER


def test_altering_replaces_all_configs(broker: Broker, client: RawClient) -> None:
    assert alter(client, {SESSION: "50000", HEARTBEAT: "8000"}).error_code == ErrorCode.NONE
    assert alter(client, {SESSION: "60000", OFFLOAD: "false"}).error_code == ErrorCode.NONE
    assert in_force(broker) == GroupSettings(60_000, 5_000, 1_000, "cooperative")
    assert described(client)[OFFLOAD] == ("false", DYNAMIC_GROUP)
    assert alter(client, {}).error_code == ErrorCode.NONE
    assert in_force(broker) == OF_THE_BROKER
    assert listed(client, GROUP) == []


REFUSED = [
    ({"consumer.sesion.timeout.ms": "50000"}, "did you mean 'consumer.session.timeout.ms'"),
    ({SESSION: "44999"}, "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."),
    ({SESSION: "60001"}, "range 45000 to 60000"),
    ({HEARTBEAT: "4999"}, "range 5000 to 15000"),
    ({INTERVAL: "15001"}, "range 0 to 15000"),
    ({INTERVAL: "-1"}, "must be between 0 and"),
    ({HEARTBEAT: "soon"}, "must be a number"),
    ({OFFLOAD: "maybe"}, "must be true or false"),
]


@pytest.mark.parametrize(("configs", "said"), REFUSED)
def test_what_is_refused(broker: Broker, client: RawClient, configs: dict[str, str], said: str) -> None:
    (name, value) = next(iter(configs.items()))
    for result in (alter(client, dict(configs)), change(client, (name, SET, value))):
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert said in result.error_message
    assert in_force(broker) == OF_THE_BROKER


def test_null_and_lists_are_refused(client: RawClient) -> None:
    assert alter(client, {SESSION: None}).error_code == ErrorCode.INVALID_CONFIG
    assert change(client, (SESSION, SET, None)).error_code == ErrorCode.INVALID_CONFIG
    assert change(client, (SESSION, APPEND, "50000")).error_code == ErrorCode.INVALID_CONFIG


def test_a_session_is_longer_than_a_heartbeat(start: Start, connect: Connect) -> None:
    """What the group does not have of its own is the broker's."""
    client = connect(start(WIDER | {"group.consumer.max.heartbeat.interval.ms": 60_000}))
    result = change(client, (HEARTBEAT, SET, "45000"))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_CONFIG,
        f"{SESSION} must be greater than {HEARTBEAT}",
    )
    assert change(client, (SESSION, SET, "5000")).error_code == ErrorCode.INVALID_CONFIG
    assert change(client, (SESSION, SET, "5000"), (HEARTBEAT, SET, "4000")).error_code == ErrorCode.NONE


def test_validation_changes_nothing(broker: Broker, client: RawClient) -> None:
    assert alter(client, {SESSION: "50000"}, validate_only=True).error_code == ErrorCode.NONE
    assert change(client, (SESSION, SET, "1"), validate_only=True).error_code == ErrorCode.INVALID_CONFIG
    assert change(client, (SESSION, SET, "50000"), validate_only=True).error_code == ErrorCode.NONE
    assert in_force(broker) == OF_THE_BROKER


def test_groups_with_configs_are_listed(client: RawClient) -> None:
    for name in ("g2", "g1"):
        change(client, (SESSION, SET, "50000"), name=name)
    assert listed(client, GROUP) == [("g1", GROUP), ("g2", GROUP)]
    assert ("g1", GROUP) in listed(client)
    assert listed(client, topics.BROKER) == [("1", topics.BROKER)]


# -- in force


def heartbeat(client: RawClient, member_id: str, epoch: int) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return client.call(request, 1)


def test_the_next_answer_has_the_interval_of_the_group(client: RawClient) -> None:
    """Rule A19.3: no epoch moves by it."""
    first = heartbeat(client, "m", 0)
    assert (first.member_epoch, first.heartbeat_interval_ms) == (2, 5_000)
    change(client, (HEARTBEAT, SET, "10000"))
    second = heartbeat(client, "m", 2)
    assert (second.error_code, second.member_epoch, second.heartbeat_interval_ms) == (ErrorCode.NONE, 2, 10_000)
    change(client, (HEARTBEAT, DELETE, None))
    assert heartbeat(client, "m", 2).heartbeat_interval_ms == 5_000


def test_a_session_lasts_as_long_as_the_group_says(start: Start, connect: Connect) -> None:
    clock = StandingClock()
    broker = start(WIDER, clock=clock)
    client = connect(broker)
    change(client, (SESSION, SET, "6000"))
    assert heartbeat(client, "m", 0).member_epoch == 2
    advance(broker, clock, 5_999)
    assert heartbeat(client, "m", 2).error_code == ErrorCode.NONE
    advance(broker, clock, 6_000)
    assert heartbeat(client, "m", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- kept


def test_configs_outlive_the_broker(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    change(connect(broker), (SESSION, SET, "50000"))
    change(connect(broker), (SESSION, SET, "50000"), name="gone")
    change(connect(broker), (SESSION, DELETE, None), name="gone")
    broker.stop()
    again = start(data=tmp_path)
    assert in_force(again) == GroupSettings(50_000, 5_000, 1_000, "cooperative")
    assert listed(connect(again), GROUP) == [("g", GROUP)]


def test_narrower_limits_clamp(
    start: Start, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule A19.2: what is in force changes, what was given stays."""
    broker = start(WIDER, data=tmp_path)
    change(connect(broker), (SESSION, SET, "6000"), (HEARTBEAT, SET, "100"))
    assert in_force(broker) == GroupSettings(6_000, 100, 1_000, "cooperative")
    broker.stop()
    with caplog.at_level(logging.WARNING):
        again = start(data=tmp_path)
    assert in_force(again) == OF_THE_BROKER
    assert f"group g: {SESSION}=6000 is not between 45000 and 60000; 45000 is used" in caplog.text
    assert described(connect(again))[SESSION] == ("6000", DYNAMIC_GROUP)


# -- the broker's own settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group.consumer.session.timeout.ms": 6000}, r"between group.consumer.min.session.timeout.ms \(45000\)"),
        ({"group.consumer.max.heartbeat.interval.ms": 4000}, r"group.consumer.max.heartbeat.interval.ms \(4000\)"),
        ({"group.consumer.assignment.interval.ms": 20_000}, r"group.consumer.max.assignment.interval.ms \(15000\)"),
        (
            WIDER | {"group.consumer.session.timeout.ms": 5000},
            r"must be less than group.consumer.session.timeout.ms \(5000\)",
        ),
    ],
)
def test_the_broker_keeps_within_its_limits(settings: dict[str, object], said: str) -> None:
    """Rule A19.6."""
    with pytest.raises(UsageError, match=said):
        Broker(settings)


@pytest.mark.parametrize("denied", [AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS])
def test_each_needs_its_permission_on_the_group(start: Start, connect: Connect, denied: AclOperation) -> None:
    """Rule A19.5."""

    def allows(session: Session, operation: AclOperation, resource: Resource) -> bool:
        return (operation, resource) != (denied, Resource(ResourceType.GROUP, "g"))

    broker = start(authorizer=allows)
    client = connect(broker)
    errors = (
        alter(client, {SESSION: "50000"}).error_code,
        change(client, (SESSION, SET, "50000")).error_code,
        topics.describe(client, "g", GROUP).error_code,
    )
    no, yes = ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NONE
    assert errors == ((no, no, yes) if denied is AclOperation.ALTER_CONFIGS else (yes, yes, no))
    assert (in_force(broker) == OF_THE_BROKER) == (denied is AclOperation.ALTER_CONFIGS)


def test_so_many_groups_have_configs_of_their_own_and_no_more(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need not exist, and all are saved together."""
    monkeypatch.setattr("equipoise.broker.groups.configs.MOST_GROUPS", 3)
    monkeypatch.setattr("equipoise.broker.groups.configs.MOST_CHARACTERS", 100)
    with RawClient(start().bootstrap_servers) as client:
        for name in "abc":
            assert alter(client, {SESSION: "50000"}, name=name).error_code == ErrorCode.NONE
        refused = alter(client, {SESSION: "50000"}, name="d")
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert listed(client, GROUP) == [(name, GROUP) for name in "abc"]
        assert alter(client, {SESSION: "51000"}, name="a").error_code == ErrorCode.NONE
        assert alter(client, {}, name="b").error_code == ErrorCode.NONE
        assert alter(client, {SESSION: "50000"}, name="d" * 200).error_code == ErrorCode.POLICY_VIOLATION
        assert alter(client, {SESSION: "50000"}, name="d").error_code == ErrorCode.NONE
