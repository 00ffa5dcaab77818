"""The states of a member of a classic group, and every way from one to another; anything not in the table is a bug.

Theory of operation. A member and its coordinator agree on a generation: a number, the members in it, and the share of
each. The member gets from one generation to the next by two requests. JoinGroup says "I take part" and is answered when
all have said so. SyncGroup asks for the share and is answered when the leader has sent all shares. Between them lies
the one decision that the group makes itself: the leader, a member like the others, assigns.

- Unjoined: the member is in no generation. It reads nothing and sends no heartbeats. It waits for the application: the
  first poll() after subscribe() starts a join, and so does the first poll() after the member was put out. It waits for
  the rebalance listener too: partitions that it had are lost, and on_lost runs before it joins. A JoinGroup ends it.
- PreparingRebalance: JoinGroup is under way. The coordinator waits for the other members, at most for the longest
  max.poll.interval.ms among them. The open request is the sign of life, so there are no heartbeats. An eager member has
  given back all partitions before; a cooperative one goes on to read what it has, still in its old generation. The
  answer ends it, with a generation, with a member id to join with, or with an error.
- CompletingRebalance: the member is in the generation and has no share yet. Heartbeats begin. The leader waits for
  metadata of all topics of the group, assigns, and sends all shares with its SyncGroup. Followers wait for the leader,
  at most for the rebalance timeout. The answer ends it, with the share or with an error.
- Stable: the member has its share. The listener is told what was revoked and what was added; new partitions are read
  when on_assigned has run. Heartbeats go out every heartbeat.interval.ms, and poll() must come back within
  max.poll.interval.ms. A rebalance ends it: the coordinator announces one in a heartbeat or a commit, or the member
  wants one, because its topics changed, or because it has revoked partitions whose next owners wait for them. Without
  one the state lasts until the member leaves or is put out.

Three things put a member out of any state: the coordinator does not know its member id or generation any more, the
application did not poll in time, or another process has its group.instance.id. The first two join again with the next
poll(); the third is for good.

The states are those of AbstractCoordinator.MemberState in Kafka's Java consumer. Heartbeats of their own and the
deadline of poll() are KIP-62, the member id before the first join is KIP-394, cooperative members are KIP-429, static
members are KIP-345.
"""

from __future__ import annotations

from enum import Enum

from equipoise.wire.transitions import transitions


class MemberState(Enum):
    """AbstractCoordinator.MemberState."""

    UNJOINED = "Unjoined"  # not part of a generation: before the first join, or put out of the group
    PREPARING_REBALANCE = "PreparingRebalance"  # JoinGroup is on its way; no heartbeats
    COMPLETING_REBALANCE = "CompletingRebalance"  # part of a generation, without its assignment; heartbeats
    STABLE = "Stable"  # has its assignment


TRANSITIONS = transitions(
    {
        MemberState.PREPARING_REBALANCE: {
            MemberState.UNJOINED: "JoinGroup is sent",
            MemberState.STABLE: "told of a rebalance, or wanting one, it joins again",
            MemberState.COMPLETING_REBALANCE: "SyncGroup has failed, or its subscription has changed meanwhile: it "
            "joins again",
        },
        MemberState.COMPLETING_REBALANCE: {MemberState.PREPARING_REBALANCE: "JoinGroup is answered with a generation"},
        MemberState.STABLE: {MemberState.COMPLETING_REBALANCE: "SyncGroup is answered with an assignment"},
        MemberState.UNJOINED: dict.fromkeys(
            (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE, MemberState.STABLE),
            "put out of the group, or it leaves",
        ),
    }
)
