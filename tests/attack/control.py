"""The control group: honest clients beside an attack, and what they notice of it.

Two consumers share a topic that a producer writes to; one more member, on a raw connection, sends heartbeats as fast as
they are answered. None of them may lose its place, an answer or a record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Set as AbstractSet
from typing import Any

from equipoise.client import Consumer, RebalanceListener
from equipoise.wire.errors import ErrorCode
from tests.attack.meter import Meter
from tests.broker.calls import ALL, batch_of, create_topic, produce
from tests.broker.rawclient import TIMEOUT, RawClient
from tests.spec.requests import heartbeat, join, sync

TOPIC = "control"
PARTITIONS = 4
_PAUSE_S = 0.002


class Beats:
    """What the heartbeats of a while have met."""

    def __init__(self, held: list[float], waited: list[float]) -> None:
        self.held, self.waited = sorted(held), sorted(waited)

    @property
    def p99_held(self) -> float:
        """CPU seconds for which the loop served others while a heartbeat waited."""
        return self.held[int(len(self.held) * 0.99)]

    @property
    def p99_waited(self) -> float:
        """Seconds by the wall, on a machine that others may use too."""
        return self.waited[int(len(self.waited) * 0.99)]

    def __str__(self) -> str:
        return (
            f"{len(self.held)} heartbeats, p99 {self.p99_held * 1000:.0f} ms of the loop "
            f"(longest {self.held[-1] * 1000:.0f} ms), by the wall {self.p99_waited * 1000:.0f} ms "
            f"(longest {self.waited[-1] * 1000:.0f} ms)"
        )


class _NoticesLoss(RebalanceListener):
    def __init__(self, control: ControlGroup) -> None:
        self._control = control

    def on_revoked(self, consumer: Any, removed: AbstractSet[Any]) -> None:
        if removed:
            self._control.revocations += 1

    def on_lost(self, consumer: Any, lost: AbstractSet[Any]) -> None:
        self._control.errors.append(f"a consumer has lost {sorted(lost)}")


class ControlGroup:
    """Runs in threads from `start` to `stop`."""

    def __init__(self, address: str, meter: Meter) -> None:
        self._address = address
        self._meter = meter
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._assigned = threading.Barrier(4)
        self._held: list[float] = []
        self._waited: list[float] = []
        self.errors: list[str] = []
        self.revocations = 0
        self.written = 0
        self.read: dict[int, int] = {}  # number of a record, and how often it was read

    def start(self) -> ControlGroup:
        with RawClient(self._address) as client:
            create_topic(client, TOPIC, PARTITIONS)
        for work in (self._consume, self._consume, self._produce):
            self._threads.append(threading.Thread(target=self._guarded, args=(work,), daemon=True))
        for thread in self._threads:
            thread.start()
        self._assigned.wait(TIMEOUT)
        self.revocations = 0
        beating = threading.Thread(target=self._guarded, args=(self._beat,), daemon=True)
        self._threads.append(beating)
        beating.start()
        return self

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  told by the test's own thread
            self.errors.append(f"{work.__name__}: {error!r}")
            self._assigned.abort()

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._address, "group.id": TOPIC, "auto.offset.reset": "earliest"}
        with Consumer(settings) as consumer:
            consumer.subscribe(TOPIC, _NoticesLoss(self))
            while len(consumer.assignment()) != PARTITIONS // 2:
                self._take(consumer.poll(0.05))
            self._assigned.wait(TIMEOUT)
            while not self._stopping.is_set() or len(self.read) < self.written:
                self._take(consumer.poll(0.1))

    def _take(self, records: Any) -> None:
        for record in records:
            number = int(record.value)
            self.read[number] = self.read.get(number, 0) + 1

    def _produce(self) -> None:
        self._assigned.wait(TIMEOUT)
        with RawClient(self._address) as client:
            while not self._stopping.is_set():
                batch = batch_of(str(self.written).encode(), timestamp=int(time.time() * 1000))
                answer = produce(client, batch, topic=TOPIC, partition=self.written % PARTITIONS, acks=ALL)
                if answer.error_code != ErrorCode.NONE:
                    self.errors.append(f"Produce was answered with {answer.error_code}")
                    return
                self.written += 1
                time.sleep(0.01)

    def _beat(self) -> None:
        with RawClient(self._address) as client:
            member_id = client.call(join()).member_id
            assert client.call(join(member_id)).error_code == ErrorCode.NONE
            assert client.call(sync(member_id)).error_code == ErrorCode.NONE
            while not self._stopping.is_set():
                cpu, began = self._meter.loop_seconds(), time.monotonic()
                error = client.call(heartbeat(member_id)).error_code
                self._waited.append(time.monotonic() - began)
                self._held.append(self._meter.loop_seconds() - cpu)
                if error != ErrorCode.NONE:
                    self.errors.append(f"Heartbeat was answered with {error}")
                    return
                time.sleep(_PAUSE_S)

    def beats_until_now(self, at_least: int) -> Beats:
        """Since the last call; waits for some more if there are few."""
        deadline = time.monotonic() + TIMEOUT
        while len(self._held) < at_least and not self.errors:
            assert time.monotonic() < deadline, "no heartbeat is answered any more"
            time.sleep(0.01)
        count = min(len(self._held), len(self._waited))
        held, self._held = self._held[:count], self._held[count:]
        waited, self._waited = self._waited[:count], self._waited[count:]
        return Beats(held or [0.0], waited or [0.0])

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive(), "a client of the control group does not come to its end"
