"""Topic configs. A topic's effective settings are the broker's, overridden by the topic's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from equipoise.broker.config import DOCUMENT, INTERNAL_SEGMENT_BYTES, BrokerConfig, rows
from equipoise.log.config import LogConfig
from equipoise.settings import INT_MAX, convert, kafka_name, nearest, parse_value, render
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

TOPIC_ROWS: dict[str, dataclasses.Field[Any]] = {
    row.metadata["topic"]: row for row in rows().values() if "topic" in row.metadata
}

# Accepted and described, because tools set them; nothing here depends on them.
NO_EFFECT: dict[str, str] = {
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "preallocate": "false",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "unclean.leader.election.enable": "false",
}


class ConfigSource(IntEnum):
    """Where a value comes from, in DescribeConfigs' numbers."""

    DYNAMIC_TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


class ConfigType(IntEnum):
    """The type of a value, in DescribeConfigs' numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigRow(NamedTuple):
    """One config as DescribeConfigs shows it."""

    name: str
    value: str
    source: ConfigSource
    read_only: bool
    type: ConfigType
    doc: str
    synonyms: tuple[tuple[str, str, ConfigSource], ...]


def effective(defaults: BrokerConfig, configs: Mapping[str, str]) -> BrokerConfig:
    """The settings in force for a topic with these configs. KafkaError(INVALID_CONFIG) names the one at fault."""
    if not configs:
        return defaults
    values = {}
    for name, text in configs.items():
        row = TOPIC_ROWS.get(name)
        if row is None and name not in NO_EFFECT:
            known = [*TOPIC_ROWS, *NO_EFFECT]
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"unknown topic config {name!r}{nearest(name, known, DOCUMENT)}")
        try:
            if row is None:
                convert(name, text, bool if _is_boolean(NO_EFFECT[name]) else int)
            else:
                values[row.name] = parse_value(name, text, row)
        except UsageError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return dataclasses.replace(defaults, **values)


def stored(configs: Mapping[str, str]) -> dict[str, str]:
    """Configs as an older version may have saved them, which allowed segments below Kafka's bound."""
    size = configs.get("segment.bytes", "")
    if not size.isdigit() or int(size) >= TOPIC_ROWS["segment.bytes"].metadata["low"]:
        return dict(configs)
    return {(INTERNAL_SEGMENT_BYTES if name == "segment.bytes" else name): text for name, text in configs.items()}


def log_config(settings: BrokerConfig) -> LogConfig:
    """What the log needs to know of a topic's effective settings."""
    values = {name.replace(".", "_"): getattr(settings, row.name) for name, row in TOPIC_ROWS.items()}
    values["cleanup_policy"] = frozenset(values["cleanup_policy"].split(","))
    values["producer_id_expiration_ms"] = settings.producer_id_expiration_ms
    values["segment_bytes"] = settings.internal_log_segment_bytes or settings.log_segment_bytes
    wanted = {row.name for row in dataclasses.fields(LogConfig)}
    return LogConfig(**{name: value for name, value in values.items() if name in wanted})


def is_list(name: str) -> bool:
    """Whether a request may append to the config, and subtract from it."""
    return name in TOPIC_ROWS and "list_of" in TOPIC_ROWS[name].metadata


def default_text(defaults: BrokerConfig, name: str) -> str:
    """The broker's value of a topic config."""
    return render(getattr(defaults, TOPIC_ROWS[name].name))


def describe(defaults: BrokerConfig, configs: Mapping[str, str]) -> list[ConfigRow]:
    """Every topic config with its effective value and the values behind it, nearest first."""
    described = []
    for name, row in TOPIC_ROWS.items():
        if name == INTERNAL_SEGMENT_BYTES:
            continue
        synonyms = broker_synonyms(defaults, row)
        if name in configs:
            synonyms = ((name, configs[name], ConfigSource.DYNAMIC_TOPIC), *synonyms)
        _, value, source = synonyms[0]
        described.append(ConfigRow(name, value, source, False, config_type(row), row.metadata["doc"], synonyms))
    for name, default in NO_EFFECT.items():
        source = ConfigSource.DYNAMIC_TOPIC if name in configs else ConfigSource.DEFAULT
        value = configs.get(name, default)
        kind = ConfigType.BOOLEAN if _is_boolean(default) else ConfigType.LONG
        described.append(ConfigRow(name, value, source, False, kind, "Without effect here.", ((name, value, source),)))
    return sorted(described)


def describe_broker(config: BrokerConfig) -> list[ConfigRow]:
    """Every setting of the broker, as DescribeConfigs shows it."""
    described = []
    for name, row in rows().items():
        if row.name.startswith("internal_"):
            continue
        synonyms = broker_synonyms(config, row)
        _, value, source = synonyms[0]
        described.append(ConfigRow(name, value, source, True, config_type(row), row.metadata["doc"], synonyms))
    return described


def broker_synonyms(config: BrokerConfig, row: dataclasses.Field[Any]) -> tuple[tuple[str, str, ConfigSource], ...]:
    """The values of a setting of the broker, nearest first."""
    name, value = kafka_name(row.name), getattr(config, row.name)
    default = (name, render(row.default), ConfigSource.DEFAULT)
    return (default,) if value == row.default else ((name, render(value), ConfigSource.STATIC_BROKER), default)


def _is_boolean(default: str) -> bool:
    return default in ("true", "false")


def config_type(row: dataclasses.Field[Any]) -> ConfigType:
    """The type of a setting, as DescribeConfigs says it."""
    if "list_of" in row.metadata:
        return ConfigType.LIST
    number = ConfigType.INT if row.metadata["high"] <= INT_MAX else ConfigType.LONG
    kinds = {bool: ConfigType.BOOLEAN, int: number, float: ConfigType.DOUBLE}
    return kinds.get(type(row.default), ConfigType.STRING)
