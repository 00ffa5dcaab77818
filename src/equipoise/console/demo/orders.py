"""The orders of the demo: a steady flow of numbered records, written by a stock client."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Self

from equipoise.wire.errors import EquipoiseError

TOPIC = "orders"
PARTITIONS = 12
SHIPPED = "shipped"  # what the queries write
SHIPPED_PARTITIONS = 3
RATE = 1_000  # a second
_STEP_S = 0.05
_PATIENCE_S = 30.0


class Orders:
    """Writes orders in a thread during the `with` block. At its end all are acknowledged."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Producer

        self.written = 0
        self.acknowledged = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 20, "log_level": 0}
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, name="orders", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Stops the flow and waits for the broker. EquipoiseError: some orders were not acknowledged."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join()
        self._producer.flush(_PATIENCE_S)
        if self.acknowledged < self.written:
            raise EquipoiseError(f"{self.written - self.acknowledged} orders were not acknowledged")

    def _write(self) -> None:
        begun = time.monotonic()
        while not self._ending.wait(_STEP_S):
            for number in range(self.written, int((time.monotonic() - begun) * RATE)):
                order = {"order": number, "cents": number * 7919 % 20_000}
                key = f"customer-{number % 997}"
                self._producer.produce(TOPIC, json.dumps(order).encode(), key, on_delivery=self._delivered)
                self.written = number + 1
            self._producer.poll(0)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
