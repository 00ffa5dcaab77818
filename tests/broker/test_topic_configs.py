"""Configs over the wire: described, replaced, changed one by one, and in force at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from equipoise.wire.apis import k33_alter_configs as k33
from equipoise.wire.apis import k44_incremental_alter_configs as k44
from equipoise.wire.apis.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import NOW, append, batch_of, create_topic, fetch, list_offsets, produce
from tests.broker.conftest import Connect, StandingClock, Start, advance
from tests.broker.rawclient import RawClient

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5


def describe(
    client: RawClient, name: str = "t", resource_type: int = TOPIC, keys: list[str] | None = None, **options: Any
) -> Any:
    asked = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    version = options.pop("version", 4)
    (result,) = client.call(DescribeConfigsRequest(resources=[asked], **options), version).results
    return result


def value_of(client: RawClient, name: str, topic: str = "t") -> tuple[str, int]:
    (row,) = describe(client, topic, keys=[name]).configs
    return row.value, row.config_source


def alter(client: RawClient, configs: dict[str, str | None], *, name: str = "t", **options: Any) -> Any:
    """AlterConfigs: what is not named goes back to its default."""
    rows = [k33.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = k33.AlterConfigsResource(
        resource_type=options.pop("resource_type", TOPIC), resource_name=name, configs=rows
    )
    (result,) = client.call(k33.AlterConfigsRequest(resources=[resource], **options)).responses
    return result


def change(client: RawClient, *changes: tuple[str, int, str | None], name: str = "t", **options: Any) -> Any:
    """IncrementalAlterConfigs: (config, operation, value)."""
    rows = [k44.IncrementalAlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    resource = k44.IncrementalAlterConfigsResource(
        resource_type=options.pop("resource_type", TOPIC), resource_name=name, configs=rows
    )
    (result,) = client.call(k44.IncrementalAlterConfigsRequest(resources=[resource], **options)).responses
    return result


# -- described


def test_a_value_is_described_with_the_place_it_comes_from(start: Start, connect: Connect) -> None:
    client = connect(start({"log.retention.ms": 5000}))
    create_topic(client, configs={"max.message.bytes": "2000"})
    assert value_of(client, "max.message.bytes") == ("2000", DYNAMIC_TOPIC)
    assert value_of(client, "retention.ms") == ("5000", STATIC_BROKER)
    assert value_of(client, "segment.bytes") == (str(1 << 30), DEFAULT)


def test_synonyms_are_the_values_behind_a_value_nearest_first(start: Start, connect: Connect) -> None:
    client = connect(start({"log.retention.ms": 5000}))
    create_topic(client, configs={"retention.ms": "7000"})
    (row,) = describe(client, keys=["retention.ms"], include_synonyms=True).configs
    assert [(one.name, one.value, one.source) for one in row.synonyms] == [
        ("retention.ms", "7000", DYNAMIC_TOPIC),
        ("log.retention.ms", "5000", STATIC_BROKER),
        ("log.retention.ms", "604800000", DEFAULT),
    ]
    (row,) = describe(client, keys=["retention.ms"]).configs
    assert row.synonyms == []


def test_documentation_comes_if_asked_for(client: RawClient) -> None:
    create_topic(client)
    for ask in (False, True):
        rows = describe(client, include_documentation=ask).configs
        assert {row.documentation is not None for row in rows} == {ask}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_describes_all_configs_if_none_is_named(client: RawClient, version: int) -> None:
    create_topic(client)
    names = {row.name for row in describe(client, version=version).configs}
    assert {"retention.ms", "cleanup.policy", "flush.ms", "min.insync.replicas"} <= names


def test_an_empty_list_of_names_is_all_of_them_and_an_unknown_name_is_none(client: RawClient) -> None:
    create_topic(client)
    assert describe(client, keys=[]).configs == describe(client, keys=None).configs
    assert describe(client, keys=["no.such.config"]).configs == []


def test_the_broker_describes_its_settings_as_read_only(start: Start, connect: Connect) -> None:
    client = connect(start({"num.partitions": 3}))
    for name in ("1", ""):
        rows = {row.name: row for row in describe(client, name, BROKER).configs}
        assert (rows["num.partitions"].value, rows["num.partitions"].config_source) == ("3", STATIC_BROKER)
        assert rows["delete.topic.enable"].value == "true"
        assert all(row.read_only for row in rows.values())


@pytest.mark.parametrize(
    ("name", "resource_type", "code"),
    [
        ("absent", TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("2", BROKER, ErrorCode.INVALID_REQUEST),
        ("t", 99, ErrorCode.INVALID_REQUEST),
    ],
)
def test_describing_has_its_errors(client: RawClient, name: str, resource_type: int, code: ErrorCode) -> None:
    result = describe(client, name, resource_type)
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message


# -- altered


def test_altering_replaces_all_configs(client: RawClient) -> None:
    create_topic(client, configs={"retention.ms": "1000", "flush.ms": "5"})
    assert alter(client, {"max.message.bytes": "2000"}).error_code == ErrorCode.NONE
    assert value_of(client, "max.message.bytes") == ("2000", DYNAMIC_TOPIC)
    assert value_of(client, "retention.ms") == ("604800000", DEFAULT)
    assert value_of(client, "flush.ms")[1] == DEFAULT


def test_changing_touches_only_what_is_named(client: RawClient) -> None:
    create_topic(client, configs={"retention.ms": "1000", "max.message.bytes": "2000"})
    result = change(client, ("max.message.bytes", SET, "3000"), ("segment.bytes", SET, "5000000"))
    assert result.error_code == ErrorCode.NONE
    assert value_of(client, "retention.ms") == ("1000", DYNAMIC_TOPIC)
    assert value_of(client, "max.message.bytes") == ("3000", DYNAMIC_TOPIC)
    assert change(client, ("retention.ms", DELETE, None)).error_code == ErrorCode.NONE
    assert value_of(client, "retention.ms") == ("604800000", DEFAULT)


def test_lists_are_added_to_and_taken_from(client: RawClient) -> None:
    create_topic(client)
    change(client, ("cleanup.policy", APPEND, "compact"))
    assert value_of(client, "cleanup.policy") == ("delete,compact", DYNAMIC_TOPIC)
    change(client, ("cleanup.policy", APPEND, "compact"))
    assert value_of(client, "cleanup.policy") == ("delete,compact", DYNAMIC_TOPIC)
    change(client, ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(client, "cleanup.policy") == ("compact", DYNAMIC_TOPIC)


REFUSED: dict[str, tuple[tuple[str, int, str | None], ErrorCode]] = {
    "an unknown name": (("retention.mss", SET, "1"), ErrorCode.INVALID_CONFIG),
    "no number": (("retention.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
    "no number, without effect": (("flush.ms", SET, "soon"), ErrorCode.INVALID_CONFIG),
    "neither true nor false": (("preallocate", SET, "perhaps"), ErrorCode.INVALID_CONFIG),
    "out of bounds": (("retention.ms", SET, "-5"), ErrorCode.INVALID_CONFIG),
    "no value": (("retention.ms", SET, None), ErrorCode.INVALID_CONFIG),
    "adding to what is no list": (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
    "adding an unknown word": (("cleanup.policy", APPEND, "shred"), ErrorCode.INVALID_CONFIG),
    "taking the last word": (("cleanup.policy", SUBTRACT, "delete"), ErrorCode.INVALID_CONFIG),
    "an unknown operation": (("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize(("row", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_change_changes_nothing(client: RawClient, row: tuple[str, int, str | None], code: ErrorCode) -> None:
    create_topic(client)
    result = change(client, ("max.message.bytes", SET, "2000"), row)
    assert result.error_code == code
    assert row[0] in result.error_message
    assert value_of(client, "max.message.bytes")[1] == DEFAULT


def test_a_config_that_stands_twice_is_refused(client: RawClient) -> None:
    """ConfigAdminManager.preprocess. Each of thousands would be looked at, and added to what was made so far."""
    create_topic(client)
    rows = [k33.AlterableConfig(name="retention.ms", value=value) for value in ("1", "2")]
    resource = k33.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=rows)
    (replaced,) = client.call(k33.AlterConfigsRequest(resources=[resource])).responses
    changed = change(client, ("cleanup.policy", APPEND, "compact"), ("cleanup.policy", SUBTRACT, "delete"))
    assert (replaced.error_code, changed.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)
    assert value_of(client, "retention.ms")[1] == value_of(client, "cleanup.policy")[1] == DEFAULT


def test_words_are_added_in_their_order(client: RawClient) -> None:
    create_topic(client, configs={"cleanup.policy": "compact"})
    change(client, ("cleanup.policy", APPEND, "delete, compact,delete"))
    assert value_of(client, "cleanup.policy") == ("compact,delete", DYNAMIC_TOPIC)


def test_altering_has_its_errors(client: RawClient) -> None:
    create_topic(client)
    ways: tuple[Callable[..., Any], ...] = (partial(alter, client, {"retention.ms": "1"}), partial(change, client))
    for way in ways:
        assert way(name="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert way(name="1", resource_type=BROKER).error_code == ErrorCode.INVALID_REQUEST
    assert alter(client, {"retention.mss": "1"}).error_code == ErrorCode.INVALID_CONFIG


def test_changes_can_be_tried_out(client: RawClient) -> None:
    create_topic(client, configs={"retention.ms": "1000"})
    assert alter(client, {}, validate_only=True).error_code == ErrorCode.NONE
    assert change(client, ("retention.ms", SET, "5"), validate_only=True).error_code == ErrorCode.NONE
    assert change(client, ("retention.ms", SET, "x"), validate_only=True).error_code == ErrorCode.INVALID_CONFIG
    assert value_of(client, "retention.ms") == ("1000", DYNAMIC_TOPIC)


# -- in force


def test_a_new_limit_on_batches_holds_for_the_next_batch(client: RawClient) -> None:
    create_topic(client)
    append(client, bytes(1000))
    change(client, ("max.message.bytes", SET, "500"))
    assert produce(client, batch_of(bytes(1000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change(client, ("max.message.bytes", DELETE, None))
    append(client, bytes(1000))


def test_a_new_retention_holds_for_the_next_round(start: Start, connect: Connect) -> None:
    clock = StandingClock(now=NOW)
    broker = start({"log.retention.check.interval.ms": 1000, "connections.max.idle.ms": -1}, clock=clock)
    client = connect(broker)
    create_topic(client)
    append(client, b"old", timestamp=NOW)
    advance(broker, clock, 1000)
    assert list_offsets(client, -2).offset == 0
    change(client, ("retention.ms", SET, "1500"))
    advance(broker, clock, 1000)
    assert (list_offsets(client, -2).offset, list_offsets(client, -1).offset) == (1, 1)
    assert fetch(client, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_retention_by_size_keeps_the_newest_segments(start: Start, connect: Connect) -> None:
    clock = StandingClock(now=NOW)
    broker = start({"log.retention.check.interval.ms": 1000, "connections.max.idle.ms": -1}, clock=clock)
    client = connect(broker)
    size = len(batch_of(bytes(1000)))
    create_topic(client, configs={"internal.segment.bytes": str(size), "retention.bytes": str(2 * size)})
    for _ in range(5):
        append(client, bytes(1000))
    advance(broker, clock, 1000)
    assert list_offsets(client, -2).offset == 3


def test_a_new_cleanup_policy_asks_for_keys_at_once(client: RawClient) -> None:
    create_topic(client)
    append(client, b"no key")
    change(client, ("cleanup.policy", SET, "compact"))
    assert produce(client, batch_of(b"no key")).error_code == ErrorCode.INVALID_RECORD


def test_nothing_can_be_removed_of_a_broker_and_that_is_no_error(client: RawClient) -> None:
    """kafka-reassign-partitions removes throttles of all brokers when it is done."""
    codes = []
    for operation in (1, 0):
        change = k44.IncrementalAlterableConfig(
            name="leader.replication.throttled.rate", config_operation=operation, value=None if operation else "1"
        )
        resource = k44.IncrementalAlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        (answer,) = client.call(k44.IncrementalAlterConfigsRequest(resources=[resource])).responses
        codes.append(answer.error_code)
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
