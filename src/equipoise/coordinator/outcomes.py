"""Outcomes: what follows when a write is durable or has failed, as values that `Shard.settle_write` acts on.

An outcome names groups and members by their ids, and holds the caller to answer. The state of a shard and its pending
writes can therefore be printed, compared, copied and saved together at any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.apis.k28_txn_offset_commit import TxnOffsetCommitRequest
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.coordinator.classic.group import Group, MemberTimeouts, Protocols
    from equipoise.coordinator.consumer.group import ConsumerGroup
    from equipoise.coordinator.offsets.commit import KnownCommit
    from equipoise.coordinator.step import Caller
    from equipoise.coordinator.transactions.step import TransitionWritten


class Answered(NamedTuple):
    """The response leaves when the records are durable; after a failed write the same response with the error alone."""

    caller: Caller
    response: Message


class GroupCreated(NamedTuple):
    """The first record of a group. The JoinGroup of `caller` made it."""

    group_id: str
    caller: Caller


class AssignmentWritten(NamedTuple):
    """The leader's assignment. A deleted group of the same name may have had the generation, but not the leader."""

    group_id: str
    generation_id: int
    leader: str | None


class Incarnation(NamedTuple):
    """A static member before its process was replaced."""

    member_id: str
    leader: str  # of the group
    protocols: Protocols
    timeouts: MemberTimeouts


class StaticMemberReplaced(NamedTuple):
    """A static member under its new id. `before` takes effect again if that cannot be written."""

    group_id: str
    member_id: str
    before: Incarnation
    caller: Caller


class OffsetsCommitted(NamedTuple):
    """An OffsetCommit, or a TxnOffsetCommit. `too_large` has the partitions whose metadata was refused."""

    request: OffsetCommitRequest | TxnOffsetCommitRequest
    too_large: frozenset[tuple[str, int]]
    caller: Caller


class GroupTombstoned(NamedTuple):
    """A group that the shard has let go of, by DeleteGroups of `caller` or because its last offset has expired."""

    group: Group | ConsumerGroup
    caller: Caller | None = None


OfAGroup = GroupCreated | AssignmentWritten | StaticMemberReplaced | GroupTombstoned


class CommitsWritten(NamedTuple):
    """Commits that came together. Each was like the one before it on its connection."""

    commits: list[tuple[Caller, KnownCommit]]


Outcome: TypeAlias = "Answered | OffsetsCommitted | CommitsWritten | OfAGroup | TransitionWritten"
