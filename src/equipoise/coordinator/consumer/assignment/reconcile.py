"""Reconciliation: one step of one member from what it has towards its target, as a pure function. Rule A8.

Kafka: CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from equipoise.coordinator.consumer.member import NOTHING, Assigned, ConsumerGroupMember
from equipoise.coordinator.consumer.states import MEMBER_STEPS, MemberEvent, MemberState, MemberStep
from equipoise.coordinator.metadata import NO_PARTITIONS, Partitions, TopicPartition
from equipoise.wire.errors import ErrorCode, KafkaError

_UNREVOKED, _UNRELEASED = MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


class Situation(NamedTuple):
    """What a member is reconciled with.

    `owned` is what the member says that it has; None: it does not say, and may have all it has to give up. `owners`
    is who has each partition, of the whole group. `topics` are the ids of its subscription that exist. `unconfirmed` is
    what was given to the member and what it has never said that it has: it may be about to take it up. `is_full` is a
    request that says everything: an answer before may have been lost.
    """

    target_epoch: int
    target: Partitions
    owned: Partitions | None
    owners: Mapping[TopicPartition, str]
    topics: Collection[bytes]
    subscription_changed: bool = False
    unconfirmed: Partitions = NO_PARTITIONS
    is_full: bool = False

    def holds(self, partitions: Assigned) -> bool:
        """Whether the member may still have one of these.

        On Kafka what it does not name it does not have. But it may have named its partitions before it heard of the
        last ones, while a callback ran: it would take them up and share them with the next owner for a round trip.
        Such partitions are asked back, an addition. Rule A8.12.
        """
        if self.owned is None or not self.owned.isdisjoint(partitions):
            return True
        return not self.unconfirmed.isdisjoint(partitions)

    def unheard(self, partitions: Assigned) -> dict[TopicPartition, int]:
        """Of these, what the member may never have heard of, because an answer was lost: it says all it has to say, and
        lists what it has without them. What it does not know it cannot give up, and it would not say so. It is told of
        them again, and asked for them when it has named them. Rule A8.13."""
        if self.owned is None or not self.is_full or not self.unconfirmed:
            return {}
        owned, unconfirmed = self.owned, self.unconfirmed
        return {one: epoch for one, epoch in partitions.items() if one in unconfirmed and one not in owned}


def reconcile(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """The member after this heartbeat; the same object if nothing follows. Raises KafkaError: it must begin anew.

    Rule A8. Kafka: CurrentAssignmentBuilder.build.
    """
    return _STEPS[MEMBER_STEPS[member.state, _event(member, situation)]](member, situation)


def _event(member: ConsumerGroupMember, situation: Situation) -> MemberEvent:
    match member.state:
        case MemberState.STABLE if member.member_epoch != situation.target_epoch:
            return MemberEvent.BEHIND
        case MemberState.STABLE if situation.subscription_changed:
            return MemberEvent.SUBSCRIPTION_CHANGED
        case MemberState.UNREVOKED_PARTITIONS if not situation.holds(member.revoking):
            return MemberEvent.HAS_GIVEN_UP
        case MemberState.UNREVOKED_PARTITIONS if situation.subscription_changed:
            return MemberEvent.STILL_HOLDS_AND_SUBSCRIPTION_CHANGED
        case MemberState.UNREVOKED_PARTITIONS:
            return MemberEvent.STILL_HOLDS
        case MemberState.UNKNOWN:
            return MemberEvent.OWNS_NOTHING if situation.owned == frozenset() else MemberEvent.OWNS_SOMETHING
    return MemberEvent.UNCHANGED


def _next(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """Towards the target: first what the member must give up, then what it gets. Never both at once (rule A8.9).

    A partition that the member itself still has to give up is not somebody else's (KAFKA-19449).
    Rules A8.1 to A8.5 and A6.4. Kafka: CurrentAssignmentBuilder.computeNextAssignment.
    """
    target_epoch, owners, topics = situation.target_epoch, situation.owners, situation.topics
    target = {one for one in situation.target if one[0] in topics}
    keep = {one: epoch for one, epoch in member.assigned.items() if one in target}
    give = {one: epoch for one, epoch in member.assigned.items() if one not in target}
    unheard = situation.unheard(give)
    ask = {one: epoch for one, epoch in give.items() if one not in unheard} if unheard else give
    if ask and situation.holds(ask):
        epoch = target_epoch if member.state is MemberState.UNKNOWN else member.member_epoch
        return _moved(member, epoch, _UNREVOKED, (keep | unheard, ask))
    if unheard:
        return _moved(member, member.member_epoch, MemberState.STABLE, (keep | unheard, NOTHING))
    want = target.difference(keep)
    add = {one: target_epoch for one in want if one not in owners or one in member.revoking}
    state = _UNRELEASED if len(add) < len(want) else MemberState.STABLE
    return _moved(member, target_epoch, state, (keep | add, NOTHING))


def _trim(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """Topics that the member has dropped are asked back at once, before any new target (KAFKA-19431).

    Rule A8.6. Kafka: CurrentAssignmentBuilder.updateCurrentAssignment.
    """
    dropped = {one: epoch for one, epoch in member.assigned.items() if one[0] not in situation.topics}
    if not dropped:
        return member
    keep = {one: epoch for one, epoch in member.assigned.items() if one not in dropped}
    revoking = {**member.revoking, **dropped}
    if situation.holds(revoking):
        return _moved(member, member.member_epoch, _UNREVOKED, (keep, revoking))
    return _moved(member, member.member_epoch, member.state, (keep, member.revoking))


def _nothing(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    return member


def _fence(member: ConsumerGroupMember, situation: Situation) -> ConsumerGroupMember:
    """Rule A3.20. Kafka: CurrentAssignmentBuilder.build."""
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
    )


def _moved(
    member: ConsumerGroupMember, epoch: int, state: MemberState, partitions: tuple[Assigned, Assigned]
) -> ConsumerGroupMember:
    """The epoch before is noted also if it stays (rule A6.4). The same member, if it is the same in all."""
    moved = member._replace(
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=partitions[0],
        revoking=partitions[1],
    )
    return moved if moved != member else member


_STEPS: dict[MemberStep, Callable[[ConsumerGroupMember, Situation], ConsumerGroupMember]] = {
    MemberStep.NEXT: _next,
    MemberStep.TRIM: _trim,
    MemberStep.NOTHING: _nothing,
    MemberStep.FENCE: _fence,
}


def waits_for(member: ConsumerGroupMember, target: Partitions, owners: Mapping[TopicPartition, str]) -> dict[str, int]:
    """Whom an unreleased member waits for, and for how many partitions of each. Rule A9.1."""
    found: dict[str, int] = {}
    for partition in target:
        owner = owners.get(partition)
        if owner is not None and owner != member.member_id:
            found[owner] = found.get(owner, 0) + 1
    return found
