"""What happens in a world, as lines to read: events, requests, answers, callbacks, each with its time.

0:03.004 a -> JoinGroup member_id=- generation=- protocols=range topics=orders owning nothing
0:03.006 a <- JoinGroup MEMBER_ID_REQUIRED member_id=a-1
"""

from __future__ import annotations

from collections.abc import Callable

from equipoise.coordinator.events import Event
from equipoise.member import Callback
from equipoise.simulate import messages
from equipoise.simulate.clock import Clock
from equipoise.simulate.observer import Observer
from equipoise.wire.errors import KafkaError
from equipoise.wire.schema import Message


class Transcript(Observer):
    """`describe` makes words of an event, as `equipoise.console.words.event` does.

    Heartbeats without news are left out.
    """

    def __init__(self, clock: Clock, describe: Callable[[Event], str]) -> None:
        self.lines: list[str] = []
        self._clock = clock
        self._describe = describe

    def say(self, line: str) -> None:
        """Adds a line, with the time before it."""
        self.lines.append(f"{clock_time(self._clock.now)} {line}")

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def event(self, event: Event) -> None:
        self.say(f"{event.group_id}: {self._describe(event)}")

    def sent(self, name: str, request: Message) -> None:
        if not messages.is_routine(request):
            self.say(f"{name} -> {messages.asked(request)}")

    def received(self, name: str, request: Message, response: Message) -> None:
        if not messages.is_routine(response):
            self.say(f"{name} <- {messages.answered(request, response)}")

    def failed(self, name: str, request: Message) -> None:
        self.say(f"{name}: {messages.api(request)} has failed")

    def called_back(self, name: str, callback: Callback) -> None:
        self.say(f"{name}: {callback.kind.value} {messages.partitions(callback.partitions)}")

    def raised(self, name: str, error: KafkaError) -> None:
        self.say(f"{name}: poll() raises {type(error).__name__}: {error}")


def clock_time(ms: int) -> str:
    """0:06.000; with hours and days where there are any."""
    minutes, rest = divmod(ms, 60_000)
    seconds = f"{rest // 1_000:02}.{rest % 1_000:03}"
    if minutes < 60:
        return f"{minutes}:{seconds}"
    days, minutes = divmod(minutes, 24 * 60)
    hours = f"{minutes // 60}:{minutes % 60:02}:{seconds}"
    return f"{days}d {hours}" if days else hours
