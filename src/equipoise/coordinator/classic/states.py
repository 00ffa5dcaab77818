"""The five states of a classic group, and every way from one to another.

Rule 1: a group changes its state through `Group.transition`, which looks here; anything not in the table is
a bug, not a message to a client.
Rule 2: this file knows states only. Who may ask for what in which state stands with the requests.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Values are the words DescribeGroups and ListGroups use."""

    EMPTY = "Empty"  # no members; perhaps offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # collecting JoinGroups, which are parked
    COMPLETING_REBALANCE = "CompletingRebalance"  # generation chosen, waiting for the leader's assignment
    STABLE = "Stable"  # every member has, or can get, its assignment
    DEAD = "Dead"  # unloaded; the group lives on elsewhere


TRANSITIONS: dict[tuple[State, State], str] = {
    (State.EMPTY, State.PREPARING_REBALANCE): "the first member is added: the initial rebalance delay begins",
    (State.STABLE, State.PREPARING_REBALANCE): "a member joins, leaves, expires or changes; the leader rejoins",
    (State.COMPLETING_REBALANCE, State.PREPARING_REBALANCE): "a member joins, leaves, fails or changes",
    (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE): "the join phase ends with members",
    (State.PREPARING_REBALANCE, State.EMPTY): "the join phase ends without members",
    (State.COMPLETING_REBALANCE, State.STABLE): "the leader's assignment is durable",
    (State.EMPTY, State.DEAD): "the shard is unloaded",
    (State.PREPARING_REBALANCE, State.DEAD): "the shard is unloaded",
    (State.COMPLETING_REBALANCE, State.DEAD): "the shard is unloaded",
    (State.STABLE, State.DEAD): "the shard is unloaded",
    (State.DEAD, State.DEAD): "unloaded again",
}


class IllegalTransition(AssertionError):
    """A bug of ours: the table does not have this way."""

    def __init__(self, group_id: str, origin: State, target: State) -> None:
        super().__init__(f"group {group_id}: no way from {origin.value} to {target.value}")
