"""What a rebalance listener may ask of its consumer, in both group protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.client import Consumer, RebalanceListener
from tests.client.consumer.consuming import wait
from tests.client.writing import produce

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@PROTOCOLS
def test_positions_are_known_when_partitions_are_assigned(
    broker: Broker, topic: str, consumer: Callable[..., Consumer], protocol: str
) -> None:
    """Twenty times: whether anybody looked for them was a matter of luck."""
    produce(broker, topic, 3)

    class Asking(RebalanceListener):
        found: list[int] = []  # noqa: RUF012

        def on_assigned(self, consumer: Consumer, added: Any) -> None:
            self.found += [consumer.position(one, timeout=10) for one in added]

    for number in range(20):
        Asking.found = []
        with consumer(group_id=f"{topic}-{number}", group_protocol=protocol) as one:
            one.subscribe(topic, Asking())
            wait(one, lambda: len(Asking.found) == 3)
        assert Asking.found == [0, 0, 0]
