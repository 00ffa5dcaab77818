"""A group on Apache Kafka, whose members do things."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from uuid import uuid4

from equipoise.client import Admin, Consumer, Producer
from proving.brokers import KafkaBroker
from tests.commands import Command

Golden = Callable[..., int]


class Scene:
    """A topic of three partitions with records, and a group on it."""

    def __init__(self, kafka: KafkaBroker, stack: ExitStack) -> None:
        self.kafka, self.address = kafka, kafka.bootstrap_servers
        self.topic, self.group = f"orders-{uuid4().hex[:6]}", f"billing-{uuid4().hex[:6]}"
        self._stack = stack
        self.admin = stack.enter_context(Admin(kafka.bootstrap_servers))
        self.admin.create_topic(self.topic, 3)
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for number in range(30):
                producer.send(self.topic, b"x", partition=number % 3)

    def member(self, client_id: str, protocol: str = "classic", **settings: object) -> Consumer:
        """A consumer that has subscribed."""
        given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **settings}
        consumer = Consumer(
            bootstrap_servers=self.address, group_id=self.group, client_id=client_id, group_protocol=protocol, **given
        )
        self._stack.callback(consumer.close)
        consumer.subscribe([self.topic])
        return consumer

    def join(
        self, client_id: str, protocol: str = "classic", beside: Consumer | None = None, **settings: object
    ) -> Consumer:
        """A consumer that has partitions; `beside`: while another is polled."""
        consumer = self.member(client_id, protocol, **settings)
        others = [] if beside is None else [beside]
        while not consumer.assignment() or any(not one.assignment() for one in others):
            for one in (consumer, *others):
                one.poll(0.1)
        return consumer

    def newest(self, groups: Command) -> int:
        """The generation of its last rebalance, as the records tell; 0 if there was none, or no group yet."""
        return max(self._generations(groups), default=0)

    def next(self, groups: Command, after: int) -> int:
        """The generation of its next rebalance; Kafka leaves out numbers."""
        return min(one for one in self._generations(groups) if one > after)

    def _generations(self, groups: Command) -> list[int]:
        found = json.loads(groups("history", self.group, "--json").out).get("rebalances", [])
        return [one["generation"] for one in found]
