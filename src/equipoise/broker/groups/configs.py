"""Configs of groups (KIP-848): what a `consumer` group has instead of the broker's settings.

They are kept as they were given. What is in force lies within the broker's limits: a broker that starts with narrower
ones clamps, and says so.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.broker.config import DOCUMENT, BrokerConfig, rows
from equipoise.broker.topics.config import ConfigRow, ConfigSource, broker_synonyms, config_type
from equipoise.coordinator.consumer.settings import GroupSettings
from equipoise.settings import nearest, parse_value
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.server import Server

log = logging.getLogger(__name__)

_PREFIX = "consumer."  # of a group's config; the broker's setting has "group." before it
_LIMITED = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
_KAFKAS = (*_LIMITED, "consumer.assignor.offload.enable")
_INCREMENTAL = "classic.rebalance.incremental"  # our own. Rule C1.1
GROUP_ROWS: dict[str, dataclasses.Field[Any]] = {
    **{name: rows()[f"group.{name}"] for name in _KAFKAS},
    _INCREMENTAL: rows()["group.rebalance.incremental"],
}
_SESSION, _HEARTBEAT, _INTERVAL = _LIMITED
MOST_GROUPS = 10_000  # with configs of their own: all are saved together, and a group need not exist
MOST_CHARACTERS = 1_000_000  # of their names


class _Limits(NamedTuple):
    low: int
    high: int


class GroupConfigs:
    """The configs of all groups, a group that does not exist yet included."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own = server.directory.load_group_configs()
        self.settings: dict[str, GroupSettings] = {}  # in force, of groups with configs of their own
        for group_id, configs in self._own.items():
            self.settings[group_id] = self._in_force(group_id, configs)

    def __iter__(self) -> Any:
        return iter(sorted(self._own))

    def of(self, group_id: str) -> dict[str, str]:
        """What the group has of its own, as it was given."""
        return dict(self._own.get(group_id, {}))

    def check(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Raises KafkaError if a group must not have these configs.

        Rule A19.1. Kafka: ControllerConfigurationValidator.validate, GroupConfig.validate.
        """
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        parsed = {name: self._parsed(name, text) for name, text in configs.items()}
        for name in parsed.keys() & set(_LIMITED):
            low, high = self._limits(name)
            if not low <= parsed[name] <= high:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be in the range {low} to {high} inclusive.")
        if parsed.keys() & {_SESSION, _HEARTBEAT} and self._value(parsed, _SESSION) <= self._value(parsed, _HEARTBEAT):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{_SESSION} must be greater than {_HEARTBEAT}")

    def save(self, changes: Mapping[str, dict[str, str]]) -> None:
        """Replaces the configs of these groups, durably; they are in force at once. Raises KafkaError. Rule A19.3."""
        own = {group_id: configs for group_id, configs in (self._own | dict(changes)).items() if configs}
        if len(own) > max(len(self._own), MOST_GROUPS) or sum(map(len, own)) > MOST_CHARACTERS:
            what = f"more than {MOST_GROUPS:,} groups would have configs, or names of {MOST_CHARACTERS:,} characters"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, what)
        self._server.directory.save_group_configs(own)
        self._own = own
        for group_id, configs in changes.items():
            if configs:
                self.settings[group_id] = self._in_force(group_id, configs)
            else:
                self.settings.pop(group_id, None)

    def describe(self, group_id: str) -> list[ConfigRow]:
        """Every config with its value and the values behind it. Rule A19.4. Kafka: ConfigHelper.describeConfigs."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own, described = self._own.get(group_id, {}), []
        for name, row in self._rows.items():
            synonyms = broker_synonyms(self._config, row)
            if name in own:
                synonyms = ((name, own[name], ConfigSource.DYNAMIC_GROUP), *synonyms)
            _, value, source = synonyms[0]
            described.append(ConfigRow(name, value, source, False, config_type(row), row.metadata["doc"], synonyms))
        return sorted(described)

    def _parsed(self, name: str, text: str) -> Any:
        if name not in self._rows:
            hint = nearest(name, self._rows, DOCUMENT)
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {printable(name)}{hint}")
        try:
            return parse_value(name, text, GROUP_ROWS[name])
        except UsageError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None

    @property
    def _rows(self) -> Mapping[str, dataclasses.Field[Any]]:
        """Kafka's alone where answers are Kafka's to the letter."""
        return {name: GROUP_ROWS[name] for name in _KAFKAS} if self._config.strict else GROUP_ROWS

    @property
    def _config(self) -> BrokerConfig:
        return self._server.config

    def _limits(self, name: str) -> _Limits:
        rest = name.removeprefix(_PREFIX).replace(".", "_")
        return _Limits(*(getattr(self._config, f"group_consumer_{side}_{rest}") for side in ("min", "max")))

    def _value(self, parsed: Mapping[str, Any], name: str) -> int:
        return parsed[name] if name in parsed else int(getattr(self._config, GROUP_ROWS[name].name))

    def _in_force(self, group_id: str, configs: Mapping[str, str]) -> GroupSettings:
        """Rule A19.2. Kafka: GroupConfig.evaluate."""
        values = {name: self._clamped(group_id, name, text) for name, text in configs.items() if name in _LIMITED}
        session, heartbeat, interval = (self._value(values, name) for name in (_SESSION, _HEARTBEAT, _INTERVAL))
        incremental = self._config.group_rebalance_incremental
        if not self._config.strict:
            incremental = configs.get(_INCREMENTAL, incremental)
        return GroupSettings(session, heartbeat, interval, incremental)

    def _clamped(self, group_id: str, name: str, text: str) -> int:
        low, high = self._limits(name)
        value = int(text)
        clamped = min(max(value, low), high)
        if clamped != value:
            log.warning(
                "group %s: %s=%s is not between %s and %s; %s is used",
                printable(group_id),
                name,
                value,
                low,
                high,
                clamped,
            )
        return clamped
