"""The decisions of both policies as functions: a view of the group, what is owned, and the plan that follows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from equipoise.member.partitions import TopicPartition
from equipoise.simulate.zookeeper.tree import Tree
from equipoise.simulate.zookeeper.world import places
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol.actions import OpenGate, WatchMembers
from equipoise.zookeeper.protocol.assignment import Strategy
from equipoise.zookeeper.protocol.errors import InconsistentStrategyError, NotRegisteredError, ZooKeeperError
from equipoise.zookeeper.protocol.faithful import FaithfulPolicy
from equipoise.zookeeper.protocol.fencing import FencedNodes
from equipoise.zookeeper.protocol.group import GroupNodes
from equipoise.zookeeper.protocol.layout import Registration
from equipoise.zookeeper.protocol.nodes import CreateMissing, EnsurePath, Exists, Transaction
from equipoise.zookeeper.protocol.policy import RebalancePolicy
from equipoise.zookeeper.protocol.safe import SafePolicy
from equipoise.zookeeper.protocol.steps import Steps, Synchronized
from equipoise.zookeeper.protocol.views import AssignmentContext, Gate, Plan, RegisteredConsumer
from equipoise.zookeeper.session import unique_name

RANGE, ROUND = Strategy("range"), Strategy("roundrobin")
ORDERS_0 = TopicPartition("orders", 0)


def policy(consumer_id: str = "c1", mode: str = "safe", **settings: object) -> RebalancePolicy:
    given = {"zookeeper.connect": "-", "group.id": "billing", "mode": mode}
    config = ZooKeeperConsumerConfig.parse(given | {key.replace("_", "."): value for key, value in settings.items()})
    made = (SafePolicy if config.is_safe else FaithfulPolicy)(config, Registration({"orders": 1}), Gate(), 0)
    made.consumer_id = consumer_id
    return made


def view(partitions: int, strategies: Mapping[str, Strategy | None]) -> AssignmentContext:
    """In the order in which they have come, each with one stream."""
    members = {
        consumer_id: RegisteredConsumer(Registration({"orders": 1}, strategy=strategy), created)
        for created, (consumer_id, strategy) in enumerate(strategies.items())
    }
    return AssignmentContext(members, {key: {"orders": 1} for key in members}, {"orders": range(partitions)})


def owned(*numbers: int, thread: str = "c1-0") -> dict[TopicPartition, str]:
    return dict.fromkeys(sorted(places("orders", numbers)), thread)


def moves(plan: Plan) -> tuple[list[int], list[int]]:
    """What is released, and what is claimed."""
    return sorted(one.partition for one in plan.release), sorted(one.partition for one in plan.claim)


# -- what moves


def test_as_it_was_everything_moves() -> None:
    plan = policy(mode="faithful").decide(view(4, {"c1": None, "c2": None}), owned(0, 1, 2, 3))
    assert moves(plan) == ([0, 1, 2, 3], [0, 1])
    assert len(plan.decision) == 4


def test_in_safe_mode_only_the_difference_moves() -> None:
    both = view(4, {"c1": RANGE, "c2": RANGE})
    assert moves(policy().decide(both, owned(0, 1, 2, 3))) == ([2, 3], [])
    assert moves(policy().decide(both, owned(0))) == ([], [1])
    assert moves(policy("c2").decide(both, {})) == ([], [2, 3])


def test_a_partition_that_goes_to_another_thread_moves() -> None:
    plan = policy().decide(view(2, {"c1": RANGE}), owned(0, thread="c1-1") | owned(1))
    assert moves(plan) == ([0], [0])


def test_when_all_brokers_are_others_nothing_stays() -> None:
    assert moves(policy().decide(view(2, {"c1": RANGE}), owned(0, 1), stays=False)) == ([0, 1], [0, 1])


def test_who_is_not_registered_claims_nothing() -> None:
    with pytest.raises(NotRegisteredError, match="consumer c3 is not registered"):
        policy("c3").decide(view(2, {"c1": RANGE}), {})


# -- who decides


def test_the_first_member_decides_for_the_group_and_not_the_smallest_id() -> None:
    with pytest.raises(InconsistentStrategyError, match=r"first member of group billing, c2, has roundrobin \(t-p\)"):
        policy().decide(view(2, {"c2": ROUND, "c1": RANGE}), {})
    assert moves(policy().decide(view(2, {"c1": RANGE, "c0": ROUND}), {})) == ([], [0, 1])


def test_a_member_that_tells_nothing_is_not_counted_and_not_followed() -> None:
    assert moves(policy().decide(view(2, {"c1": RANGE, "c0": None}), {})) == ([], [0, 1])
    with pytest.raises(InconsistentStrategyError, match="does not tell its strategy"):
        policy().decide(view(2, {"c0": None, "c1": RANGE}), {})


# -- steps by hand


def answered(steps: Steps[Any], *outcomes: object) -> Any:
    """The action that comes after these outcomes."""
    action = next(steps)
    for outcome in outcomes:
        action = steps.send(outcome)
    return action


@pytest.mark.parametrize(
    ("mode", "given", "expected"),
    [
        ("faithful", "", r"billing_.+-1700000000000-[0-9a-f]{8}"),
        ("faithful", "c1", "billing_c1"),
        ("safe", "", r"billing_.+-1700000000000-[0-9a-f]{8}"),
        ("safe", "c1", "billing_c1-[0-9a-f]{8}"),
    ],
)
def test_a_consumer_id_is_group_host_time_and_chance(mode: str, given: str, expected: str) -> None:
    steps = policy(mode=mode, **{"consumer.id": given}).new_consumer_id()
    with pytest.raises(StopIteration) as ended:
        answered(steps, unique_name(1700000000000))
    assert re.fullmatch(expected, ended.value.value)


def test_the_gate_stays_shut_if_the_connection_was_lost_again_since_the_look() -> None:
    safe = policy()
    safe.handle_state_changed("SUSPENDED")
    locked = answered(safe.handle_new_session())
    assert isinstance(locked, Synchronized)
    look = next(locked.steps)
    assert isinstance(look, Exists)
    assert look.paths == ("/consumers/billing/ids/c1",)
    stat = Tree()
    session = stat.new_session()
    stat.create(look.paths[0], b"", session)
    locked.steps.send((stat.get(look.paths[0]).stat,))  # type: ignore[union-attr]
    assert isinstance(locked.steps.send(session), WatchMembers)
    opening = locked.steps.send(None)
    assert isinstance(opening, OpenGate)
    safe.handle_state_changed("SUSPENDED")
    assert not safe.gate.open(opening.interruptions)
    assert safe.gate.open(safe.gate.interruptions)


def test_who_is_not_registered_is_refused_by_the_claim_itself() -> None:
    """As when the session ends between the decision and the claim."""
    tree = Tree()
    steps = FencedNodes(GroupNodes("billing")).claim("c1", owned(0))
    action = next(steps)
    with pytest.raises(ZooKeeperError, match="the claim of c1 was refused: NoNodeError"):  # noqa: PT012
        while True:
            action = steps.send(_carried_out(tree, action))
    assert tree.get("/consumers/billing/owners/orders/0") is None
    assert tree.get("/consumers/billing/epochs/orders/0").stat.version == 0  # type: ignore[union-attr]


def _carried_out(tree: Tree, action: object) -> object:
    match action:
        case EnsurePath(path):
            tree.ensure_path(path)
            return None
        case CreateMissing(paths):
            return [tree.create(path, b"") for path in paths]
        case Transaction(operations):
            return tree.transact(operations, 1)
    raise AssertionError(action)
