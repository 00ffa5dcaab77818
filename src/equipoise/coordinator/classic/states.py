"""The five states of a classic group, and every way from one to another.

Theory of operation
-------------------
A classic group agrees on an assignment in two rounds, and all its members take part in both. The coordinator never
looks into the assignment: one member, the leader, computes it. The coordinator decides who is a member, which
generation counts, and when a round is over.

Empty. The group has no members, and perhaps offsets. It waits for no member. The first JoinGroup ends this state; the
    last offset that expires, or DeleteGroups, ends the group.
PreparingRebalance, the join phase. Every JoinGroup is parked. The coordinator waits for the members: all of them
    have to rejoin, and hear that from their heartbeats. The members wait for each other. The phase ends when every
    member's JoinGroup is there and no member id that was given out is missing, or when the longest rebalance timeout
    of the members is over; then dynamic members that are not back are removed, static ones stay. A group that comes
    from Empty waits for the initial rebalance delay instead, since its members are still starting. The end of the
    phase makes the next generation, answers every JoinGroup, and gives the leader the metadata of all.
CompletingRebalance, the sync phase. Every SyncGroup is parked. The coordinator waits for the leader's assignment,
    then for the log; the members wait for the coordinator. The phase ends when the record with the assignment is
    durable: every SyncGroup is answered with its part. A member that joins, leaves, expires or changes ends it too,
    and so does a failed write: all begin again with the join phase.
Stable. Every member has its assignment, or gets it at once when it asks. Nobody waits, but for held heartbeats, which
    wait for the next rebalance. The state ends with it: a member joins, leaves, is silent for its session timeout,
    comes with other metadata, or does not ask for its assignment within the rebalance timeout; or the leader rejoins.
Dead. The shard is unloaded, and the group lives on where the partition went. All parked requests are answered
    NOT_COORDINATOR, and the clients look for the new coordinator.

Silence counts only while a member could speak: the session timer of a member whose JoinGroup or SyncGroup is parked
passes without effect, and is armed again with the answer. A new member has a longer timer for its first JoinGroup,
so that a client that is gone does not hold its place for ever.

Only what the log has survives a crash: members, generation, assignment (Stable), offsets. A rebalance that was under
way is lost. Its members find out by their heartbeats, and begin again.

Rule 1.2: a group changes its state through `Group.transition`, which looks here; anything not in the table is a
bug, not a message to a client. This file knows states only: what a request may do in which state stands with the
requests. Kafka: ClassicGroupState, ClassicGroup.assertValidTransition.
"""

from __future__ import annotations

from enum import Enum

from equipoise.wire.transitions import transitions


class State(Enum):
    """Values are the words DescribeGroups and ListGroups use."""

    EMPTY = "Empty"  # no members; perhaps offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # collecting JoinGroups, which are parked
    COMPLETING_REBALANCE = "CompletingRebalance"  # generation chosen, waiting for the leader's assignment
    STABLE = "Stable"  # every member has, or can get, its assignment
    DEAD = "Dead"  # unloaded; the group lives on elsewhere


TRANSITIONS = transitions(
    {
        State.PREPARING_REBALANCE: {
            State.EMPTY: "the first member is added: the initial rebalance delay begins",
            State.STABLE: "a member joins, leaves, expires or changes; the leader rejoins",
            State.COMPLETING_REBALANCE: "a member joins, leaves, fails or changes",
        },
        State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE: "the join phase ends with members"},
        State.EMPTY: {State.PREPARING_REBALANCE: "the join phase ends without members"},
        State.STABLE: {State.COMPLETING_REBALANCE: "the leader's assignment is durable"},
        State.DEAD: {
            **dict.fromkeys(
                (State.EMPTY, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.STABLE),
                "the shard is unloaded",
            ),
            State.DEAD: "unloaded again",
        },
    }
)
