"""Requests that change several topics: each topic is checked by itself, all that pass are changed together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from equipoise.broker.handlers.repeated_names import RepeatedNames
from equipoise.wire.errors import KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server


class _NamedRow(Protocol):
    name: str


Asked = TypeVar("Asked", bound=_NamedRow)
Plan = TypeVar("Plan")
Answered = TypeVar("Answered")


class TopicByTopic(ABC, Generic[Asked, Plan, Answered]):
    """One request. A name that stands twice is refused, as on Kafka (ControllerApis.createTopics, createPartitions)."""

    def __init__(self, server: Server, call: Call, topics: Sequence[Asked]) -> None:
        self.server = server
        self.call = call
        self.asked = {topic.name: topic for topic in topics}
        self.repeated = RepeatedNames(topic.name for topic in topics)
        self.plans: dict[str, Plan] = {}
        self.answers: dict[str, Answered] = {}

    @abstractmethod
    def plan(self, asked: Asked) -> Plan:
        """What is to be done. Raises KafkaError: it may not be."""

    @abstractmethod
    def check_again(self, plan: Plan) -> None:
        """Raises KafkaError where another request came between."""

    @abstractmethod
    def change(self) -> Iterator[None]:
        """Carries out all plans, in turns of the loop. Raises KafkaError: nothing was changed."""

    @abstractmethod
    def done(self, plan: Plan) -> Answered:
        """The answer for a topic that is changed."""

    @abstractmethod
    def refused(self, name: str, error: KafkaError) -> Answered:
        """The answer for a topic that is not changed."""

    def steps(self) -> Iterator[None]:
        """A turn of the loop for each topic, then those of the change."""
        for name, asked in self.asked.items():
            try:
                self.repeated.check(name, name)
                self.plans[name] = self.plan(asked)
                self.answers[name] = self.done(self.plans[name])
            except KafkaError as error:
                self.answers[name] = self.refused(name, error)
            yield
        self._drop_late()
        try:
            if self.plans:
                yield from self.change()
        except KafkaError as error:
            self.answers |= {name: self.refused(name, error) for name in self.plans}

    def _drop_late(self) -> None:
        """Topics may have come or gone while the request was checked, topic by topic."""
        for name, plan in list(self.plans.items()):
            try:
                self.check_again(plan)
            except KafkaError as error:
                self.answers[name] = self.refused(name, error)
                del self.plans[name]
