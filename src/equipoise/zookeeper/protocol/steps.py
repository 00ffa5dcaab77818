"""How a policy speaks: as a generator of actions, each of which is a value, and to each of which an outcome comes back.

    brokers = yield from ReadBrokers()

A runner carries the actions out, and throws what fails into the generator: connector.py on kazoo and threads,
tests/zookeeper/protocol/simulated.py on a tree in memory and virtual time. So a policy is straight code without input
or output, and between any two of its actions others may have acted.

The position of a policy is its inputs so far: given once more, they bring a new policy to the same place
(tests/zookeeper/protocol/test_replay.py). What must outlive the process stands in ZooKeeper's nodes. States with names
would need one for every place between two actions, and the order of actions, which is the protocol, would be lost to
the eye. What a view of the nodes means is decided apart from this, by a function without actions
(`RebalancePolicy.decide`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Action(Generic[T]):
    """T is its outcome. Every kind of action is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __iter__(self) -> Generator[Action[Any], Any, T]:
        outcome: T = yield self
        return outcome


Steps = Generator[Action[Any], Any, T]


class Synchronized(Action[T]):
    """These steps, while no other such steps of the consumer are under way (rebalanceLock)."""

    steps: Steps[T]


class Ended(NamedTuple):
    """Steps have come to their end."""

    outcome: Any


def advance(go_on: Callable[[], Action[Any]]) -> Action[Any] | Ended:
    """The next action of steps, which go on by `next`, `send` or `throw`."""
    try:
        return go_on()
    except StopIteration as ended:
        return Ended(ended.value)
