"""A broker, a topic, and consumers of one group."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Admin, Consumer
from tests.client.consumer.consuming import SETTINGS


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Three partitions, with a name of its own."""
    name = re.sub(r"\W", "-", request.node.name)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, 3)
    return name


@pytest.fixture
def consumer(broker: Broker, topic: str) -> Iterator[Callable[..., Consumer]]:
    """Makes consumers of the group that is named as the topic; they are closed in the end."""
    made: list[Consumer] = []

    def make(**settings: Any) -> Consumer:
        base = {"bootstrap_servers": broker.bootstrap_servers, "group_id": topic, "auto_offset_reset": "earliest"}
        made.append(Consumer(**{**base, "metadata_max_age_ms": 100, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()
