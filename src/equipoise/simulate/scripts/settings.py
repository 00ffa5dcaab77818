"""Settings of the coordinator in a script: `config group.max.size=2`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from equipoise.coordinator.config import GroupConfig
from equipoise.wire.errors import UsageError

_DEFAULTS = {row.name: row.default for row in fields(GroupConfig)}


def changed(config: GroupConfig, name: str, text: str) -> GroupConfig:
    """The settings with another value of one of them, which is named as Kafka names it."""
    attribute = name.replace(".", "_")
    if attribute not in _DEFAULTS:
        raise UsageError(f"{name} is no setting of the coordinator")
    value: Any = _value(name, text, _DEFAULTS[attribute])
    return replace(config, **{attribute: value})


def _value(name: str, text: str, default: Any) -> int | bool | str:
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise UsageError(f"{name}={text}: write true or false")
        return text == "true"
    return int(text) if isinstance(default, int) else text
