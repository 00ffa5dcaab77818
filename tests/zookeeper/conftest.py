from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from equipoise.zookeeper import ZooKeeperServer
from tests.zookeeper.town import Town


@pytest.fixture
def town(zookeeper: ZooKeeperServer) -> Iterator[Town]:
    with Town(zookeeper.connect, uuid.uuid4().hex) as running:
        yield running
