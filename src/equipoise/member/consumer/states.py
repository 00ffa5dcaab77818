"""The states of a member of a `consumer` group (KIP-848), and every way from one to another; anything not in the table
is a bug.

Theory of operation. The coordinator assigns. A member sends one kind of request, the heartbeat, in which it says what
has changed on its side: its subscription, and the partitions that it holds. The answer says what has changed on the
other side: the member's epoch, and the partitions that it may have from now on, its target. The member gets from what
it holds to its target by itself, and says so with its next heartbeat. Nobody waits for the whole group: only who is to
have a partition waits for the member that still holds it.

- Unsubscribed: the member is not in the group. It may commit as a consumer without a subscription. The first poll()
  after subscribe() ends the state.
- Joining: the member sends a heartbeat with epoch 0 and all that the coordinator has to know. The answer has an epoch
  and a target.
- Reconciling: the target differs from what the member holds. The names of the topics are looked up, since the target
  has their ids. What is not in the target is not read any more; inside poll() its offsets are committed and on_revoked
  runs; then on_assigned runs with what is new. Heartbeats go on, and say nothing of partitions: to the coordinator the
  member holds all that it held before. A newer target waits until this reconciliation has ended, unless the
  application has not heard of it yet.
- Acknowledging: the member holds other partitions, and the coordinator has not been told. The next heartbeat leaves at
  once, and its departure ends the state. From then on others may have what the member gave up.
- Stable: the member holds its target. Heartbeats leave at the interval that the coordinator has set. An answer with
  another target ends the state.
- Fenced: the coordinator does not know the member, or has moved on without it. Others may own its partitions, so it
  reads none of them. on_lost runs in the next poll(). Then the member joins again, with the same member id.
- PrepareLeaving: the application unsubscribes or closes. on_revoked runs, commits go through; heartbeats go on.
- Leaving: the last heartbeat is due, with epoch -1, or -2 if the member is static and may be back. The state ends when
  the request is made; its answer changes nothing.
- Stale: the application did not poll within max.poll.interval.ms, and the member has left so that others get its
  partitions. on_lost runs in the next poll(), and the member joins again.
- Fatal: the coordinator has refused the member for good. on_lost runs, and every poll() raises the error.

The coordinator keeps its own record of the member. It counts a partition as held by the member from the answer that
gives it until the heartbeat that no longer lists it, or until the member is removed. So a lost answer or a lost
request never makes two members owners at once: after every failure the member repeats all that it has to say, and is
told all again.

The states are those of MemberState in Kafka's Java consumer.
"""

from __future__ import annotations

from enum import Enum

from equipoise.wire.transitions import transitions


class MemberState(Enum):
    """MemberState of Kafka's Java consumer."""

    UNSUBSCRIBED = "Unsubscribed"
    JOINING = "Joining"
    RECONCILING = "Reconciling"
    ACKNOWLEDGING = "Acknowledging"
    STABLE = "Stable"
    FENCED = "Fenced"
    PREPARE_LEAVING = "PrepareLeaving"
    LEAVING = "Leaving"
    STALE = "Stale"
    FATAL = "Fatal"


S = MemberState
IN_GROUP = frozenset({S.JOINING, S.RECONCILING, S.ACKNOWLEDGING, S.STABLE})  # a target is taken (rule B5.3)
BEATING = IN_GROUP | {S.PREPARE_LEAVING}  # heartbeats are due (rule B3.1)
OUT = frozenset({S.FENCED, S.STALE, S.FATAL})  # others may own the partitions: they are lost

TRANSITIONS = transitions(
    {
        S.JOINING: {
            S.UNSUBSCRIBED: "poll() after subscribe()",
            S.FENCED: "on_lost has run",
            S.STALE: "poll() is back, and on_lost has run",
        },
        S.RECONCILING: {
            S.JOINING: "a target has come",
            S.STABLE: "another target has come",
            S.ACKNOWLEDGING: "another target has come, or topics are still without a name",
        },
        S.ACKNOWLEDGING: {S.RECONCILING: "the callbacks have run"},
        S.STABLE: {
            S.ACKNOWLEDGING: "the coordinator is told, and the target is held",
            S.RECONCILING: "the target is what is held",
            S.JOINING: "the target is what is held",
        },
        S.FENCED: dict.fromkeys(IN_GROUP, "the coordinator answered UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH"),
        S.PREPARE_LEAVING: dict.fromkeys(IN_GROUP, "the application leaves, or polls too late"),
        S.LEAVING: {S.PREPARE_LEAVING: "callbacks and commits are done"},
        S.UNSUBSCRIBED: {
            S.LEAVING: "the leave is sent, or there is nobody to tell",
            S.FENCED: "on_lost has run, and the application has unsubscribed",
            S.STALE: "on_lost has run, and the application has unsubscribed",
        },
        S.STALE: {S.LEAVING: "the leave is sent because poll() came too late"},
        S.FATAL: dict.fromkeys(BEATING | {S.UNSUBSCRIBED}, "the coordinator has refused the member for good"),
    }
)
