"""Queries that have nothing to read and do not know why: what they say after a while, and that they go on."""

from __future__ import annotations

import logging

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.client.net import lasting_warnings
from equipoise.server_process import free_port
from equipoise.spark.source import batch_planner
from equipoise.wire.errors import UsageError
from tests.client.writing import produce
from tests.spark.engine import Engine, until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting_warnings, "FIRST_S", 0.2)
    monkeypatch.setattr(batch_planner, "_UNMATCHED_SECONDS", 0.2)
    monkeypatch.setattr(batch_planner, "_JOIN_SECONDS", 0.5)


@pytest.mark.parametrize("group", [{}, {"group__id": "g"}])
def test_a_wrong_port(group: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    engine = Engine(nobody, kafka__default__api__timeout__ms="1500", kafka__request__timeout__ms="1000", **group)
    with caplog.at_level(logging.WARNING):
        until("it is told", lambda: "no broker" in caplog.text, lambda: _try(engine))
    assert f"no broker of bootstrap.servers={nobody} has answered" in caplog.text
    assert "Check the address, and that a broker runs there" in caplog.text
    engine.kill()


def _try(engine: Engine) -> None:
    try:
        engine.plan()
    except Exception as error:  # noqa: BLE001 without a group it ends with default.api.timeout.ms
        assert "had no answer within" in str(error)  # noqa: PT017


def test_a_member_of_a_missing_topic() -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        engine = Engine(broker.bootstrap_servers, subscribe="ordres", group__id="g")
        with pytest.raises(UsageError, match=r"topic 'ordres' does not exist at .*: create it, or check its name"):
            until("never", lambda: False, engine.batch)
        engine.stop()


@pytest.mark.parametrize("group", [{}, {"group__id": "g"}])
def test_a_pattern_without_topics(group: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """It is told once, and the topics are read when they come."""
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker, Admin(broker.bootstrap_servers) as admin:
        options = {"subscribePattern": "ord.*", "startingOffsets": "earliest", "kafka__metadata__max__age__ms": "200"}
        engine = Engine(broker.bootstrap_servers, **options, **group)
        with caplog.at_level(logging.WARNING):
            until("it is told", lambda: "has matched subscribePattern=ord.* for" in caplog.text, engine.batch)
            engine.batch()
        assert caplog.text.count("has matched") == 1
        admin.create_topic("orders", 1)
        produce(broker, "orders", 5, partitions=1)
        until("all is read", lambda: len(engine.records()) == 5, engine.batch)
        engine.stop()
