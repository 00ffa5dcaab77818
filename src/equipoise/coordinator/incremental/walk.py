"""One step of a classic member of an incremental group towards its target, as pure functions. Rule C4.

They differ from `consumer/assignment/reconcile.py` in two things. A JoinGroup says all that its sender has, and with
what it does not say it has given up the rest. And the generation is the group epoch at the JoinGroup, which may be
ahead of the target's.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.consumer.member import NOTHING, Assigned, ConsumerGroupMember
from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.metadata import MetadataImage, Partitions, TopicPartition

Owners = Mapping[TopicPartition, str]


def wanted(group: ConsumerGroup, member: ConsumerGroupMember, image: MetadataImage) -> Partitions:
    """The target, without topics that the member has dropped: they are asked back at once. Rules A8.6 and C5.7."""
    target = group.target_of(member.member_id)
    if target == member.assigned.keys() and not member.revoking:
        return target
    topics = image.ids_of(group.topics_of(member))
    return frozenset(one for one in target if one[0] in topics)


def join_with(
    member: ConsumerGroupMember, epoch: int, target: Partitions, claimed: Partitions, *, owners: Owners
) -> ConsumerGroupMember:
    """After a JoinGroup with these claims. What it claims and is to lose it must give up first; what it does not claim
    and is to lose is free. The same object if nothing follows.

    Whatever generation the claims are of: after a lost answer a client still has what it had, at its old generation.
    Rules C4.1 and C4.2.
    """
    had = {**member.assigned, **member.revoking}
    keep = {one: at for one, at in had.items() if one in target and (one in member.assigned or one in claimed)}
    give = {one: at for one, at in had.items() if one not in target and one in claimed}
    if give:
        return _moved(member, member.member_epoch, MemberState.UNREVOKED_PARTITIONS, (keep, give))
    free = member._replace(assigned=keep, revoking=NOTHING)
    taken = _with_free(free, epoch, target, owners)
    return _moved(member, epoch, taken.state, (taken.assigned, NOTHING))


def take_free(member: ConsumerGroupMember, target: Partitions, owners: Owners) -> ConsumerGroupMember:
    """What has become free by now, unless the member has something to give up. Rules A8.9 and C4.12."""
    if member.revoking:
        return member
    taken = _with_free(member, member.member_epoch, target, owners)
    return _moved(member, member.member_epoch, taken.state, (taken.assigned, NOTHING))


def _with_free(member: ConsumerGroupMember, epoch: int, target: Partitions, owners: Owners) -> ConsumerGroupMember:
    """What the member itself has given up is nobody's."""
    want = target.difference(member.assigned)
    add = {one: epoch for one in want if owners.get(one, member.member_id) == member.member_id}
    state = MemberState.UNRELEASED_PARTITIONS if len(add) < len(want) else MemberState.STABLE
    return member._replace(assigned={**member.assigned, **add}, state=state)


def _moved(
    member: ConsumerGroupMember, epoch: int, state: MemberState, partitions: tuple[Assigned, Assigned]
) -> ConsumerGroupMember:
    assigned, revoking = partitions
    now = (epoch, state, assigned, revoking)
    if now == (member.member_epoch, member.state, member.assigned, member.revoking):
        return member
    return member._replace(
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=assigned,
        revoking=revoking,
    )
