"""A consumer's settings: Kafka's names and bounds, librdkafka's aliases, and nothing unknown in silence."""

from __future__ import annotations

import logging

import pytest

from equipoise.client.consumer.config import EARLIEST, LATEST, ConsumerConfig, rows
from equipoise.wire.errors import UsageError

SERVERS = {"bootstrap.servers": "127.0.0.1:9092"}


def parse(**settings: object) -> ConsumerConfig:
    return ConsumerConfig.from_keywords(bootstrap_servers="127.0.0.1:9092", **settings)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("group.ids", "group.id"),
        ("auto.offset.rest", "auto.offset.reset"),
        ("session.timeout", "session.timeout.ms"),
        ("max_poll_records", "max.poll.records"),
        ("fetch.wait.max", "fetch.wait.max.ms"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, suggestion: str) -> None:
    with pytest.raises(UsageError) as raised:
        ConsumerConfig.parse(SERVERS | {name: "1"})
    assert f"unknown setting {name!r}; did you mean {suggestion!r}?" in str(raised.value)


def test_a_name_like_no_other_points_to_the_document() -> None:
    with pytest.raises(UsageError, match=r"docs/consumer\.md lists the names"):
        ConsumerConfig.parse(SERVERS | {"zzz": "1"})


def test_keywords_and_names_give_the_same() -> None:
    named = ConsumerConfig.parse(SERVERS | {"group.id": "g", "max.poll.records": "7", "enable.auto.commit": "false"})
    assert named == parse(group_id="g", max_poll_records=7, enable_auto_commit=False)


def test_the_defaults_are_kafkas() -> None:
    config = parse(group_id="g")
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.max_poll_interval_ms) == (
        45_000,
        3_000,
        300_000,
    )
    assert config.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert (config.auto_offset_reset, config.enable_auto_commit, config.max_poll_records) == ("latest", True, 500)
    assert (config.isolation, config.queued_max_bytes) == (0, 64 << 20)


@pytest.mark.parametrize(
    ("alias", "name"),
    [("fetch.wait.max.ms", "fetch_max_wait_ms"), ("fetch.message.max.bytes", "max_partition_fetch_bytes")],
)
def test_librdkafkas_names_are_known_too(alias: str, name: str) -> None:
    assert getattr(ConsumerConfig.parse(SERVERS | {alias: 77}), name) == 77
    assert ConsumerConfig.parse({"metadata.broker.list": "a:1"}).bootstrap_servers == "a:1"


@pytest.mark.parametrize("word", ["PLAINTEXT", "plaintext", "Plaintext"])
def test_plain_text_may_be_said(word: str) -> None:
    assert ConsumerConfig.parse(SERVERS | {"security.protocol": word}).security.protocol == "PLAINTEXT"


def test_servers_may_be_a_list() -> None:
    assert ConsumerConfig.parse({"bootstrap.servers": ["a:1", "b:2"]}).bootstrap_servers == "a:1,b:2"


def test_without_servers_there_is_nothing_to_do() -> None:
    with pytest.raises(UsageError, match=r"^bootstrap\.servers is missing: name one or more brokers"):
        ConsumerConfig.parse({})


def test_without_a_group_nothing_is_committed() -> None:
    assert parse().enable_auto_commit is False
    assert parse().commits is False
    assert parse(group_id="g").enable_auto_commit is True


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"session.timeout.ms": 0}, "session.timeout.ms=0: must be between 1 and 2147483647"),
        ({"max.poll.records": 0}, "max.poll.records=0: must be between 1"),
        ({"max.poll.interval.ms": "soon"}, "max.poll.interval.ms=soon: must be a number"),
        (
            {"isolation.level": "serializable"},
            "isolation.level=serializable: must be one of read_uncommitted, read_com",
        ),
        ({"group.protocol": "share"}, "group.protocol=share: must be one of classic, consumer, auto"),
        (
            {"group.protocol": "consumer", "session.timeout.ms": 9000},
            "session.timeout.ms cannot be set with group.protocol=consumer: leave it out; the broker has",
        ),
        (
            {"group.protocol": "consumer", "heartbeat.interval.ms": 3000},
            "heartbeat.interval.ms cannot be set with group.protocol=consumer",
        ),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
            "partition.assignment.strategy cannot be set with group.protocol=consumer: leave it out; the broker",
        ),
        ({"group.remote.assignor": "range"}, "group.remote.assignor needs group.protocol=consumer"),
        ({"enable.auto.commit": "yes"}, "enable.auto.commit=yes: must be true or false"),
        ({"auto.offset.reset": "newest"}, "auto.offset.reset=newest: must be latest, earliest, none or by_duration"),
        ({"auto.offset.reset": "by_duration:1h"}, "auto.offset.reset=by_duration:1h: must be"),
        ({"auto.offset.reset": "by_duration:PT"}, "auto.offset.reset=by_duration:PT: must be"),
        ({"auto.offset.reset": "by_duration:P"}, "auto.offset.reset=by_duration:P: must be"),
        ({"security.protocol": "TLS"}, "security.protocol=TLS: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL"),
        ({"sasl.mechanisn": "PLAIN"}, "unknown setting 'sasl.mechanisn'; did you mean 'sasl.mechanism'?"),
        ({"group.id": ""}, "group.id is empty"),
        ({"group.id": "b\udcffrsen"}, "group.id='b\\udcffrsen': cannot be written in UTF-8"),
        ({"client.id": "ö" * 16_384}, "client.id: has 32768 bytes; a request holds 32767 at most"),
        ({"group.instance.id": "a b"}, "group.instance.id=a b: must be 1 to 249 letters"),
        ({"heartbeat.interval.ms": 45000}, "heartbeat.interval.ms=45000: must be below session.timeout.ms, which is"),
        ({"retry.backoff.ms": 2000}, "retry.backoff.ms=2000: must not be above retry.backoff.max.ms, which is 1000"),
        ({"fetch.min.bytes": 2, "fetch.max.bytes": 1}, "fetch.min.bytes=2: must not be above fetch.max.bytes"),
        ({"partition.assignment.strategy": ""}, "partition.assignment.strategy='': name one assignor or more"),
        ({"partition.assignment.strategy": []}, "partition.assignment.strategy=[]: name one assignor or more"),
        ({"partition.assignment.strategy": "range,range"}, "partition.assignment.strategy='range,range': range is nam"),
    ],
)
def test_what_cannot_be_is_refused_by_name(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        ConsumerConfig.parse(SERVERS | settings)
    assert str(raised.value).startswith(complaint)


def test_auto_is_classic_where_a_setting_of_classic_members_is_given() -> None:
    assert parse(group_protocol="auto").group_protocol == "auto"
    assert parse(group_protocol="auto", group_remote_assignor="range").group_protocol == "auto"
    for name, value in (
        ("session_timeout_ms", 9_000),
        ("heartbeat_interval_ms", 1_000),
        ("partition_assignment_strategy", "range"),
    ):
        assert parse(group_protocol="auto", **{name: value}).group_protocol == "classic"


def test_rare_heartbeats_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse(session_timeout_ms=9_000, heartbeat_interval_ms=3_000)
        assert not caplog.records
        parse(session_timeout_ms=8_999, heartbeat_interval_ms=3_000)
    assert "over a third of session.timeout.ms=8999" in caplog.text
    assert "set it to 2999 or less" in caplog.text


def test_assignors_are_names_or_objects() -> None:
    class Custom:
        name = "mine"

    mine = Custom()
    assert parse(partition_assignment_strategy=" sticky , range").partition_assignment_strategy == ("sticky", "range")
    assert parse(partition_assignment_strategy=["range", mine]).partition_assignment_strategy == ("range", mine)
    assert parse(partition_assignment_strategy=mine).partition_assignment_strategy == (mine,)


@pytest.mark.parametrize(
    ("reset", "timestamp"),
    [
        ("latest", LATEST),
        ("earliest", EARLIEST),
        ("none", None),
        ("by_duration:PT1H30M", 100_000_000 - 5_400_000),
        ("by_duration:P1DT0.5S", 100_000_000 - 86_400_500),
        ("by_duration:P9D", 0),
    ],
)
def test_a_reset_is_a_timestamp_for_list_offsets(reset: str, timestamp: int | None) -> None:
    assert parse(auto_offset_reset=reset).reset_timestamp(100_000_000) == timestamp


def test_every_setting_says_what_it_is() -> None:
    assert all(row.metadata["doc"].rstrip().endswith((".", ">.")) for row in rows().values())
