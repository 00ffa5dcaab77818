"""The interface through which a simulated world reports what happens."""

from __future__ import annotations

from equipoise.coordinator.events import Event
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.step import Write
from equipoise.member import Callback
from equipoise.simulate.calls import Call
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message


class Observer:
    """Each method hears of one kind of thing as it happens. All do nothing; a subclass takes what it needs."""

    # -- the coordinator

    def arrived(self, call: Call, shard: Shard) -> None:
        """A request has come to a coordinator, which has not looked at it yet."""

    def event(self, event: Event) -> None:
        """The coordinator noted an event."""

    def answered(self, call: Call) -> None:
        """The reply to a call has left its broker."""

    def write_held(self, write: Write) -> None:
        """Records are being written, and become durable later or never."""

    def write_ended(self, write: Write, error: ErrorCode) -> None:
        """Records are durable, or their write has failed."""

    def stepped(self, shard: Shard) -> None:
        """The coordinator has done with one input: its state must be consistent."""

    # -- consumers, by their name

    def sent(self, name: str, request: Message) -> None:
        """A consumer has sent a request."""

    def received(self, name: str, request: Message, response: Message) -> None:
        """A consumer has the answer to its request."""

    def failed(self, name: str, request: Message) -> None:
        """A request of a consumer has failed, by its connection or by its timeout."""

    def unanswered(self, name: str, request: Message) -> None:
        """A request had come to its broker, and its time is over without an answer and without a broken connection."""

    def called_back(self, name: str, callback: Callback) -> None:
        """The rebalance listener of a consumer runs."""

    def raised(self, name: str, error: KafkaError) -> None:
        """poll() of a consumer raises an error."""
