"""The states of a member of a `consumer` group and of the group, as tables.

Theory of operation
-------------------
In a `consumer` group (KIP-848) the coordinator assigns, and nobody waits for everybody. There are three epochs, and
each follows the one before it.

Group epoch. It counts what should change the assignment: a member comes or goes, a subscription, a topic or the
    preferred assignor changes.
Target epoch. When it is behind the group epoch, the coordinator computes the next target assignment from members,
    subscriptions, topics and the target before, and the target epoch becomes the group epoch. Epochs may be skipped.
Member epoch. Each member walks from what it has to its part of the target by itself, with its own heartbeats. It
    first gives up what it is to lose, and says so; then its epoch becomes the target epoch, and it gets what others
    have given up.

The coordinator hands a partition to a member only when nobody else owns it, where the owner of a partition is the
member that has it assigned or still has to give it up. So a partition never has two owners, and a member that loses
nothing and gains nothing is never disturbed.

A member is in one of three states.

Stable. It has all of its target, as far as the coordinator is concerned.
UnrevokedPartitions. It was asked to give partitions up and has not said that it has. Newer targets do not reach it
    until it does. If it does not within its rebalance timeout it is removed.
UnreleasedPartitions. It is at the target epoch and waits for partitions that others have not given up. Waiting is
    free: no timer runs, and each heartbeat brings what has become free.
Unknown. The log has a state that this version does not know; the member must begin anew.

The state of the group is never stored: it is derived from epochs and members, by `GROUP_STATES`. After a leave a
group is Assigning until somebody's heartbeat, or our target timer, computes the next target.

Rule A7, rule A8 and rule A23.5. `MEMBER_STEPS` says what a heartbeat of a member does in which state; `reconcile.py`
has the two steps, next and trim. Kafka: ConsumerGroup.maybeUpdateGroupState, CurrentAssignmentBuilder.build.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto


class GroupState(Enum):
    """Values are the words that describe and list use."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"  # never held: the word for a group that is not there


GROUP_STATES: dict[GroupState, str] = {  # the first condition that holds
    GroupState.EMPTY: "there are no members",
    GroupState.ASSIGNING: "the group epoch is ahead of the target epoch",
    GroupState.RECONCILING: "a member is not Stable at the target epoch; a static one that is away counts",
    GroupState.STABLE: "otherwise",
}


class MemberState(IntEnum):
    """Values are those of the record of a current assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class MemberEvent(Enum):
    """What a heartbeat finds, the first that holds."""

    BEHIND = auto()  # the member epoch is not the target epoch
    SUBSCRIPTION_CHANGED = auto()  # at the target epoch
    UNCHANGED = auto()
    STILL_HOLDS = auto()  # it has not said that it has given up what it was asked for
    STILL_HOLDS_AND_SUBSCRIPTION_CHANGED = auto()
    HAS_GIVEN_UP = auto()
    OWNS_NOTHING = auto()  # it says so
    OWNS_SOMETHING = auto()  # or does not say


class MemberStep(Enum):
    """What follows for the member."""

    NEXT = auto()  # towards the target
    TRIM = auto()  # topics that it no longer subscribes to go at once
    NOTHING = auto()
    FENCE = auto()


_S, _E, _DO = MemberState, MemberEvent, MemberStep
MEMBER_STEPS: dict[tuple[MemberState, MemberEvent], MemberStep] = {
    (_S.STABLE, _E.BEHIND): _DO.NEXT,
    (_S.STABLE, _E.SUBSCRIPTION_CHANGED): _DO.TRIM,
    (_S.STABLE, _E.UNCHANGED): _DO.NOTHING,
    (_S.UNREVOKED_PARTITIONS, _E.STILL_HOLDS): _DO.NOTHING,
    (_S.UNREVOKED_PARTITIONS, _E.STILL_HOLDS_AND_SUBSCRIPTION_CHANGED): _DO.TRIM,
    (_S.UNREVOKED_PARTITIONS, _E.HAS_GIVEN_UP): _DO.NEXT,
    (_S.UNRELEASED_PARTITIONS, _E.UNCHANGED): _DO.NEXT,
    (_S.UNKNOWN, _E.OWNS_NOTHING): _DO.NEXT,
    (_S.UNKNOWN, _E.OWNS_SOMETHING): _DO.FENCE,
}
