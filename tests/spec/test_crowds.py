"""Groups of thousands: the end of their join phase is told in portions. Here a thousand is two."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from equipoise.coordinator.classic import rebalance
from equipoise.coordinator.classic.states import State
from equipoise.wire.errors import ErrorCode
from tests.effort import examples
from tests.member.test_town_stateful import TownMachine
from tests.property.test_group_stateful import GroupMachine
from tests.spec.context import DELAY, Context, assignment


@pytest.fixture(autouse=True)
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "_MANY", 2)


def test_a_portion_hears_of_its_generation_each_millisecond_the_leader_first() -> None:
    ctx = Context()
    clients = [ctx.client(name) for name in "abcdef"]
    for client in clients:
        client.enter()
    joins = [client.join() for client in clients]
    ctx.advance(DELAY)
    ctx.advance(DELAY)
    assert [call.is_parked for call in joins] == [False, False, False, True, True, True]
    ctx.advance(1)
    assert [call.is_parked for call in joins] == [False, False, False, False, False, True]
    ctx.advance(1)
    assert [call.reply.generation_id for call in joins] == [1] * 6
    assert [len(call.reply.members) for call in joins] == [6, 0, 0, 0, 0, 0]
    assert all(client.deadline is not None for client in clients)


def test_who_is_overtaken_by_the_next_rebalance_takes_part_in_it() -> None:
    ctx = Context()
    clients = [ctx.client(name) for name in "abcdef"]
    for client in clients:
        client.enter()
    joins = [client.join() for client in clients]
    ctx.advance(DELAY)
    ctx.advance(DELAY)
    answered = [one for one, call in zip(clients, joins, strict=True) if not call.is_parked]
    assert len(answered) == 3
    answered[2].leave()
    assert ctx.state is State.PREPARING_REBALANCE
    assert [call.is_parked for call in joins[3:]] == [True] * 3
    again = [client.join() for client in answered[:2]]
    ctx.advance(3)
    assert [call.reply.generation_id for call in [*again, *joins[3:]]] == [2] * 5


def test_the_group_becomes_stable_although_some_have_not_heard_of_their_generation() -> None:
    ctx = Context()
    clients = [ctx.client(name) for name in "abcdef"]
    for client in clients:
        client.enter()
    joins = [client.join() for client in clients]
    ctx.advance(DELAY)
    ctx.advance(DELAY)
    leader = clients[0].sync({client: assignment(place) for place, client in enumerate(clients)})
    assert leader.reply.error_code == ErrorCode.NONE
    assert ctx.state is State.STABLE
    assert [call.reply.generation_id for call in joins] == [1] * 6
    assert clients[5].sync().reply.assignment == assignment(5)


@pytest.mark.parametrize("machine", [GroupMachine, TownMachine])
def test_a_hunt_finds_nothing_when_two_are_many(machine: type[RuleBasedStateMachine]) -> None:
    chosen = settings(
        max_examples=examples(15),
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
