"""The broker's settings: Kafka's names, bounds and aliases; nothing unknown passes in silence."""

from __future__ import annotations

import pytest

from equipoise.broker import Broker
from equipoise.broker.config import BrokerConfig, rows
from equipoise.broker.server import parse_address
from equipoise.wire.errors import UsageError


def parse(**settings: object) -> BrokerConfig:
    return BrokerConfig.parse({name.replace("_", "."): value for name, value in settings.items()})


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("num.partition", "num.partitions"),
        ("log.retention.hour", "log.retention.hours"),
        ("max_connections", "max.connections"),
        ("socket.request.max.byte", "socket.request.max.bytes"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, suggestion: str) -> None:
    with pytest.raises(UsageError) as raised:
        BrokerConfig.parse({name: "1"})
    assert repr(name) in str(raised.value)
    assert f"did you mean {suggestion!r}?" in str(raised.value)


def test_a_name_like_no_other_is_refused_without_a_guess() -> None:
    with pytest.raises(UsageError, match=r"SUPPORTED\.md"):
        BrokerConfig.parse({"zzz": "1"})


def test_values_come_as_text_or_as_they_are() -> None:
    assert parse(num_partitions="6") == parse(num_partitions=6)
    assert parse(delete_topic_enable="FALSE") == parse(delete_topic_enable=False)
    assert parse(log_cleaner_min_cleanable_ratio="0.25").log_cleaner_min_cleanable_ratio == 0.25
    assert parse(log_cleanup_policy=" compact , delete,compact ").log_cleanup_policy == "compact,delete"


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("num.partitions", "six", "must be a number"),
        ("num.partitions", "1.5", "must be a number"),
        ("num.partitions", "", "must be a number"),
        ("num.partitions", "0", "must be between 1 and 2147483647"),
        ("num.partitions", "2147483648", "must be between"),
        ("log.retention.ms", "-2", "must be between -1"),
        ("log.segment.bytes", "1048575", "must be between 1048576"),
        ("compression.gzip.level", "0", "must be one of -1, 1"),
        ("compression.lz4.level", "18", "must be between 1 and 17"),
        ("compression.zstd.level", "23", "must be between -131072 and 22"),
        ("log.cleaner.min.cleanable.ratio", "1.1", "must be between 0 and 1"),
        ("delete.topic.enable", "yes", "must be true or false"),
        ("compression.type", "none", "must be one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("log.cleanup.policy", "compact,shred", "must be one or more of delete, compact"),
        ("log.message.timestamp.type", "createtime", "must be one of CreateTime, LogAppendTime"),
        ("default.replication.factor", "3", "must be between 1 and 1"),
        ("flush", "sometimes", "must be one of commit, never"),
        ("broker.id", "one", "must be a number"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(name: str, value: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        BrokerConfig.parse({name: value})
    assert str(raised.value).startswith(f"{name}={value}: {complaint}")


def test_bounds_are_inclusive() -> None:
    assert parse(log_segment_bytes=1 << 20).log_segment_bytes == 1 << 20
    assert parse(log_retention_ms=-1).log_retention_ms == -1
    assert parse(connections_max_idle_ms=-1).connections_max_idle_ms == -1


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        ({"broker.id": 5}, "node_id", 5),
        ({"broker.id": 5, "node.id": 6}, "node_id", 6),
        ({"log.retention.hours": 2}, "log_retention_ms", 7_200_000),
        ({"log.retention.minutes": 2}, "log_retention_ms", 120_000),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, "log_retention_ms", 180_000),
        ({"log.retention.minutes": 3, "log.retention.hours": 2}, "log_retention_ms", 180_000),
        ({"log.retention.hours": 2, "log.retention.ms": 5}, "log_retention_ms", 5),
        ({"log.retention.hours": -1}, "log_retention_ms", -1),
        ({"log.roll.hours": 1}, "log_roll_ms", 3_600_000),
    ],
)
def test_the_finest_of_several_spellings_wins(settings: dict[str, object], name: str, value: int) -> None:
    assert getattr(BrokerConfig.parse(settings), name) == value


def test_every_default_lies_within_its_own_bounds() -> None:
    defaults = {name: row.default for name, row in rows().items()}
    assert BrokerConfig.parse(defaults) == BrokerConfig()


def test_every_setting_has_a_sentence_that_says_what_it_does() -> None:
    assert [name for name, row in rows().items() if not row.metadata["doc"].endswith(".")] == []


def test_a_broker_says_what_is_wrong_before_it_starts() -> None:
    with pytest.raises(UsageError, match=r"num\.partitions"):
        Broker({"num.partitons": 1})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", ("127.0.0.1", 9092)),
        ("PLAINTEXT://localhost:0", ("localhost", 0)),
        ("[::1]:9092", ("::1", 9092)),
        (":9092", ("", 9092)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:http", "localhost:65536", "localhost:-1", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        parse_address(text)
