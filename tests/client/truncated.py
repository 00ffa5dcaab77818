"""Readers of a log that an unclean election has cut, on any cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from equipoise.client import Consumer, ConsumerRecord
from tests.client.writing import Reachable

COMMON, LOST = 100, 100
PATIENCE_S = 120.0


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    taken: list[ConsumerRecord] = []
    end = time.monotonic() + PATIENCE_S
    while len(taken) < count:
        assert time.monotonic() < end, f"{len(taken)} of {count} came"
        taken += consumer.poll(0.5)
    return taken


@contextmanager
def reading(cluster: Reachable, topic: str, **settings: object) -> Iterator[Consumer]:
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"group-{topic}",
        session_timeout_ms=30_000,
        enable_auto_commit=False,
        **settings,
    ) as consumer:
        consumer.assign([(topic, 0)])
        yield consumer
