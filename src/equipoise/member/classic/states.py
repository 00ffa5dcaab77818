"""The four states of a member, and every way from one to another; anything not in the table is a bug."""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    UNJOINED = "Unjoined"  # not part of a generation: before the first join, or put out of the group
    PREPARING_REBALANCE = "PreparingRebalance"  # JoinGroup is on its way; no heartbeats
    COMPLETING_REBALANCE = "CompletingRebalance"  # part of a generation, without its assignment; heartbeats
    STABLE = "Stable"  # has its assignment


TRANSITIONS: dict[tuple[MemberState, MemberState], str] = {
    (MemberState.UNJOINED, MemberState.PREPARING_REBALANCE): "JoinGroup is sent",
    (MemberState.STABLE, MemberState.PREPARING_REBALANCE): "told of a rebalance, or wanting one, it joins again",
    (
        MemberState.COMPLETING_REBALANCE,
        MemberState.PREPARING_REBALANCE,
    ): "SyncGroup has failed, or its subscription has changed meanwhile: it joins again",
    (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE): "JoinGroup is answered with a generation",
    (MemberState.COMPLETING_REBALANCE, MemberState.STABLE): "SyncGroup is answered with an assignment",
    (MemberState.PREPARING_REBALANCE, MemberState.UNJOINED): "put out of the group, or it leaves",
    (MemberState.COMPLETING_REBALANCE, MemberState.UNJOINED): "put out of the group, or it leaves",
    (MemberState.STABLE, MemberState.UNJOINED): "put out of the group, or it leaves",
}


class IllegalTransition(AssertionError):
    """A bug of ours: the table does not have this way."""

    def __init__(self, member_id: str, origin: MemberState, target: MemberState) -> None:
        super().__init__(f"member {member_id or '(new)'}: no way from {origin.value} to {target.value}")
