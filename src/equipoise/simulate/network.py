"""The network between consumers and brokers: messages take time, and connections break.

Requests travel over TCP. A message is therefore never lost alone: the connection breaks, and every request that waits
for an answer on it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from equipoise.simulate.clock import Clock
from equipoise.wire.schema import Message

Way = Literal["request", "reply"]


class Network:
    """Each message takes `latency_ms` and up to `jitter_ms` more. Of all messages the share `loss` is lost.

    Chance comes from `seed` alone.
    """

    def __init__(
        self, clock: Clock, *, latency_ms: int = 1, jitter_ms: int = 0, loss: float = 0.0, seed: int = 0
    ) -> None:
        self.clock = clock
        self.latency_ms = latency_ms
        self.jitter_ms = jitter_ms
        self.loss = loss
        self._random = Random(seed)

    def delay_ms(self) -> int:
        """How long the next message takes."""
        return self.latency_ms + (self._random.randint(0, self.jitter_ms) if self.jitter_ms else 0)

    def loses(self) -> bool:
        """Whether the next message is lost."""
        return self.loss > 0 and self._random.random() < self.loss


@dataclass(eq=False, slots=True)
class Exchange:
    """A request under way to a broker, and its answer under way back."""

    connection: Connection
    client_id: str
    request: Message
    node_id: int
    is_delivered: bool = False
    is_answered: bool = False


class Connection:
    """What a consumer sends and hears. Messages of one direction keep their order."""

    def __init__(self, network: Network, client_id: str, deliver: Callable[[Exchange], None]) -> None:
        self.is_up = True
        self.lose_next: Way | None = None  # breaks once, before the next request or the next reply arrives
        self.on_reply: Callable[[Message, Message], None] = lambda request, response: None
        self.on_failure: Callable[[Message], None] = lambda request: None
        self.on_silence: Callable[[Message], None] = lambda request: None  # of a broker that has the request
        self._network = network
        self._client_id = client_id
        self._deliver = deliver
        self._open: list[Exchange] = []
        self._last_arrival: dict[Way, int] = {"request": 0, "reply": 0}
        self._stalled_until = 0

    def send(self, request: Message, node_id: int, timeout_ms: int) -> None:
        """A request to a broker. It fails after `timeout_ms` without answer."""
        exchange = Exchange(self, self._client_id, request, node_id)
        self._open.append(exchange)
        self._carry("request", lambda: self._arrive(exchange))
        self._network.clock.after(timeout_ms, lambda: self._time_out(exchange))

    def reply(self, exchange: Exchange, response: Message) -> None:
        """The answer to a request leaves the broker."""
        exchange.is_answered = True
        self._carry("reply", lambda: self._take(exchange, response))

    def cut(self) -> None:
        """Breaks: whatever waits for an answer fails."""
        exchanges, self._open = self._open, []
        for exchange in exchanges:
            self.on_failure(exchange.request)

    def stall(self, ms: int) -> None:
        """For so long nothing arrives, in either direction; then all does, in order."""
        self._stalled_until = max(self._stalled_until, self._network.clock.now + ms)

    def close(self) -> None:
        """Ends the connection without an event: its owner is gone."""
        self.is_up = False
        self._open.clear()

    def _carry(self, way: Way, arrive: Callable[[], None]) -> None:
        clock = self._network.clock
        earliest = max(self._last_arrival[way], self._stalled_until)
        at = self._last_arrival[way] = max(clock.now + self._network.delay_ms(), earliest)
        clock.at(at, arrive)

    def _breaks(self, way: Way) -> bool:
        if self.is_up and self.lose_next != way and not self._network.loses():
            return False
        self.lose_next = None
        self.cut()
        return True

    def _arrive(self, exchange: Exchange) -> None:
        if exchange in self._open and not self._breaks("request"):
            exchange.is_delivered = True
            self._deliver(exchange)

    def _take(self, exchange: Exchange, response: Message) -> None:
        if exchange in self._open and not self._breaks("reply"):
            self._open.remove(exchange)
            self.on_reply(exchange.request, response)

    def _time_out(self, exchange: Exchange) -> None:
        if exchange in self._open:
            self._open.remove(exchange)
            if exchange.is_delivered and not exchange.is_answered:
                self.on_silence(exchange.request)
            self.on_failure(exchange.request)
