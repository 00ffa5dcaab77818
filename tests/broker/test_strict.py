"""`strict`: every addition for groups is off, whatever its setting says."""

from __future__ import annotations

from equipoise.broker import Broker
from equipoise.broker.config import _STRICT, BrokerConfig


def test_strict_turns_every_addition_off() -> None:
    for settings in ({"strict": "true"}, {"strict": True, "group.heartbeat.hold.max.ms": 100}):
        config = BrokerConfig.parse(settings)
        assert {name: getattr(config, name) for name in _STRICT} == _STRICT
        assert set(_STRICT.values()) <= {0, "off"}
    assert BrokerConfig.parse({}).group_heartbeat_hold_max_ms == 5_000


def test_a_broker_in_the_process_can_be_strict() -> None:
    with Broker(strict=True) as broker:
        config = broker.call(lambda server: server.group_coordinator.config)
    assert (config.strict, config.group_consumer_assignment_timer, config.group_heartbeat_hold_max_ms) == (
        *(True, False),
        0,
    )
