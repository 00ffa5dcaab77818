"""Three brokers in one process, and a connection to each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from equipoise.broker import Broker
from tests.broker.rawclient import RawClient

QUICK = {"group.initial.rebalance.delay.ms": 0}
At = Callable[[int], RawClient]


@pytest.fixture
def three() -> Iterator[Broker]:
    """With a topic `t` of three partitions: broker 1 leads the first, 2 the next, 3 the last."""
    with Broker(QUICK, brokers=3, topics={"t": 3}) as broker:
        yield broker


@pytest.fixture
def at(three: Broker) -> Iterator[At]:
    """`at(2)` is a new connection to broker 2."""
    with ExitStack() as stack:
        yield lambda node_id: stack.enter_context(RawClient(three.brokers[node_id].address))
