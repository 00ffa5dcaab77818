"""An incremental group becomes a classic one: what the log does not have goes along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinator.classic.group import Group
from equipoise.coordinator.classic.states import State
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.events import StateChanged
from equipoise.coordinator.incremental.data import Turn
from equipoise.coordinator.incremental.syncs import refuse_all
from equipoise.coordinator.reasons import Cause
from equipoise.coordinator.step import Step
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard


def hand_back(shard: Shard, group: ConsumerGroup, classic: Group, step: Step) -> None:
    """Who waits is told to rejoin. Ids that were given out are still good, and the journal goes on. Rule C2.7."""
    assert group.incremental is not None
    for member_id in list(group.members):
        refuse_all(Turn(shard, group, step), member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    classic.pending_members = set(group.incremental.pending_members)
    classic.journal, classic.losses = group.journal, group.losses
    for member in classic.members.values():
        presence = group.presence_of(member.member_id)
        member.longest_silence_ms, member.lost_at = presence.longest_silence_ms, presence.lost_at


def note_empty(classic: Group, cause: Cause | None, step: Step) -> None:
    """The last members have gone: that is a rebalance too, which ends at once. Rule C1.3."""
    if cause is not None:
        classic.journal.begin(cause, classic.generation_id - 1, step.now)
        classic.journal.completed_empty(classic.generation_id, step.now)
        step.note(StateChanged(classic.group_id, step.now, State.STABLE, State.EMPTY, classic.generation_id, cause))
