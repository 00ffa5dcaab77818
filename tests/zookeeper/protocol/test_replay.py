"""A policy's position is its inputs so far: calls, outcomes of its actions, changes of the connection.

A generator cannot be saved, and need not be. The inputs are written down as they come; a new policy that is given them
again asks for the same actions in the same order, and holds the same in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import count
from typing import Any, NamedTuple

import pytest

from equipoise.simulate.zookeeper.member import SimulatedMember
from equipoise.zookeeper.protocol.actions import OpenGate
from equipoise.zookeeper.protocol.policy import RebalancePolicy
from equipoise.zookeeper.protocol.steps import Action, Steps, Synchronized
from equipoise.zookeeper.protocol.views import Gate, PartitionTopicInfo
from tests.zookeeper.protocol.test_hunt_in_memory import Hunt

STEPS = ("join", "synced_rebalance", "handle", "failed", "commit_offsets")
Resume = Callable[[Steps[Any]], Action[Any]]


class Input(NamedTuple):
    """`apply` gives it to a policy that is in the same position; what that does then is shown as `after`."""

    apply: Callable[[Replay], object]
    after: str


class Replay:
    """A new policy, and the steps of it that are under way, in the order in which they began."""

    def __init__(self, policy: RebalancePolicy) -> None:
        self.policy = policy
        self.steps: list[Steps[Any]] = []
        self.asked: list[Action[Any] | None] = []

    def begin(self, steps: Steps[Any]) -> None:
        self.steps.append(steps)
        self.asked.append(None)

    def resume(self, number: int, how: Resume) -> object:
        last = self.asked[number]
        if isinstance(last, OpenGate):
            self.policy.gate.open(last.interruptions)
        try:
            self.asked[number] = action = how(self.steps[number])
        except StopIteration as ended:
            return ended.value
        except Exception as error:  # noqa: BLE001  a policy may raise anything
            return error
        if isinstance(action, Synchronized):
            self.begin(action.steps)
        return action


class Recording:
    """Stands before a policy, and writes down what it is given."""

    policy: RebalancePolicy
    begun_at: int
    inputs: list[Input]
    numbers: Iterator[int]

    def __init__(self, policy: RebalancePolicy, now: int) -> None:
        vars(self).update(policy=policy, begun_at=now, inputs=[], numbers=count())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.policy, name)
        if name == "handle_state_changed":
            return lambda state: self._note(lambda replay: replay.policy.handle_state_changed(state), found(state))
        return (lambda *given: self._begin(name, found, given)) if name in STEPS else found

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.policy, name, value)
        self._note(lambda replay: setattr(replay.policy, name, value), None)

    def _note(self, apply: Callable[[Replay], object], after: object) -> Any:
        self.inputs.append(Input(apply, shown(after)))
        return after

    def _begin(self, name: str, found: Callable[..., Steps[Any]], given: tuple[Any, ...]) -> Steps[Any]:
        kept = tuple(set(one) if isinstance(one, set) else one for one in given)
        self._note(lambda replay: replay.begin(getattr(replay.policy, name)(*kept)), None)
        return self._steps(found(*given))

    def _steps(self, steps: Steps[Any]) -> Steps[Any]:
        return self._driven(next(self.numbers), steps)

    def _driven(self, number: int, steps: Steps[Any]) -> Steps[Any]:
        how: Resume = next
        while True:
            action = self._resumed(number, steps, how)
            if isinstance(action, StopIteration):
                return action.value
            if isinstance(action, Synchronized):
                action = Synchronized(self._steps(action.steps))
            how = yield from self._performed(action)

    def _resumed(self, number: int, steps: Steps[Any], how: Resume) -> Action[Any] | StopIteration:
        def apply(replay: Replay) -> object:
            return replay.resume(number, how)

        try:
            action = how(steps)
        except StopIteration as ended:
            self._note(apply, ended.value)
            return ended
        except Exception as error:
            self._note(apply, error)
            raise
        self._note(apply, action)
        return action

    def _performed(self, action: Action[Any]) -> Steps[Resume]:
        try:
            outcome = yield action
        except Exception as error:  # noqa: BLE001  whatever the runner throws
            thrown = error
            return lambda steps: steps.throw(thrown)
        return lambda steps: steps.send(outcome)


def shown(value: object) -> str:
    """As text without an order of its own, and without what streams change."""
    match value:
        case Synchronized():
            return "Synchronized"
        case Action():
            return f"{type(value).__name__}({', '.join(shown(getattr(value, one.name)) for one in fields(value))})"  # type: ignore[arg-type]
        case PartitionTopicInfo():
            return f"{value.partition} {value.thread} {value.token}"
        case Mapping():
            return str(sorted(f"{shown(key)}: {shown(one)}" for key, one in value.items()))
        case list():
            return str(list(map(shown, value)))
        case set() | frozenset():
            return str(sorted(map(shown, value)))
        case Exception():
            return repr(value)
        case _:
            return str(value)


class RecordedHunt(Hunt):
    def __init__(self, seed: int, **settings: object) -> None:
        super().__init__(seed, **settings)
        self.recorded: list[tuple[SimulatedMember, Recording]] = []

    def join(self) -> None:
        before = set(self.world.members)
        super().join()
        for member in set(self.world.members) - before:
            recording = Recording(member.policy, self.world.now)
            member.policy = recording  # type: ignore[assignment]
            self.recorded.append((member, recording))


def replayed(member: SimulatedMember, recording: Recording) -> Iterator[tuple[str, str]]:
    """What the new policy does with each input, beside what the old did."""
    old = recording.policy
    replay = Replay(type(old)(member.config, member.subscribed, Gate(), recording.begun_at))
    for apply, after in recording.inputs:
        yield shown(apply(replay)), after
    yield shown(replay.policy.threads()), shown(old.threads())


@pytest.mark.parametrize("mode", ["safe", "faithful"])
@pytest.mark.parametrize("seed", range(10))
def test_the_inputs_so_far_are_the_position_of_a_policy(seed: int, mode: str) -> None:
    hunt = RecordedHunt(seed, mode=mode)
    hunt.play([*hunt.orderly(), hunt.kill, hunt.cut_off, hunt.flap])
    assert hunt.recorded
    for member, recording in hunt.recorded:
        for found, expected in replayed(member, recording):
            assert found == expected
