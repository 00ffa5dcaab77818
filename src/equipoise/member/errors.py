"""The exceptions of a consumer. Each message says what happened, by how much, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from equipoise.member.config import MemberConfig
from equipoise.member.partitions import NOTHING, Owned, listed
from equipoise.wire.errors import ErrorCode, KafkaError


def error_of(number: int) -> ErrorCode:
    """The error of an answer. A newer broker may send errors without a name here."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class FencedInstanceIdError(KafkaError):
    """Another consumer has joined with the same group.instance.id. This consumer is out for good."""

    def __init__(self, group_instance_id: str | None) -> None:
        super().__init__(
            ErrorCode.FENCED_INSTANCE_ID,
            f"another consumer has joined with group.instance.id {group_instance_id!r}, and this one is out: "
            "give each running consumer an instance id of its own",
        )


class RebalanceInProgressError(KafkaError):
    """The commit met a rebalance. It can be tried again after the next poll()."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.REBALANCE_IN_PROGRESS,
            "the group is rebalancing and this member's partitions are not settled: call poll() to take part, "
            "then commit again what is still assigned",
        )


class CommitFailure(Enum):
    """The reason of a failed commit, as a value. `CommitFailedError` turns it into words."""

    POLL_OVERRUN = auto()  # max.poll.interval.ms has passed between two polls
    EXPELLED = auto()  # the coordinator does not know the member any more
    OLD_GENERATION = auto()  # the group has gone on without this member
    PARTITIONS_LOST = auto()  # a rebalance has given them to others
    STANDALONE = auto()  # no member at all, in a group that has members
    NOT_JOINED = auto()  # subscribed, but never polled
    REMOVED = auto()  # the coordinator of a consumer group does not know the member any more
    FENCED_EPOCH = auto()  # the coordinator of a consumer group has fenced the member's epoch
    STALE_EPOCH = auto()  # the coordinator refuses the epoch that it confirms
    LEFT = auto()  # unsubscribed or closed before the commit was through


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """A poll that came too late, or has not come yet."""

    late_ms: int  # since the deadline
    records: int  # that the last poll had returned


class CommitFailedError(KafkaError):
    """The commit was refused for good: the partitions belong, or may soon belong, to other members."""

    def __init__(
        self,
        failure: CommitFailure,
        config: MemberConfig,
        *,
        overrun: Overrun | None = None,
        partitions: Owned = NOTHING,
    ) -> None:
        self.failure = failure
        self.overrun = overrun
        self.partitions = partitions
        words = _WORDS[failure].format(
            group=config.group_id, session=config.session_timeout_ms, max_poll=config.max_poll_interval_ms
        )
        if overrun is not None:
            words = _describe(overrun, config)
        if partitions:
            words += f" Not committed: {listed(partitions)}."
        super().__init__(_CODES[failure], words)


_CODES = {
    CommitFailure.POLL_OVERRUN: ErrorCode.UNKNOWN_MEMBER_ID,
    CommitFailure.EXPELLED: ErrorCode.UNKNOWN_MEMBER_ID,
    CommitFailure.OLD_GENERATION: ErrorCode.ILLEGAL_GENERATION,
    CommitFailure.PARTITIONS_LOST: ErrorCode.ILLEGAL_GENERATION,
    CommitFailure.STANDALONE: ErrorCode.UNKNOWN_MEMBER_ID,
    CommitFailure.NOT_JOINED: ErrorCode.UNKNOWN_MEMBER_ID,
    CommitFailure.REMOVED: ErrorCode.UNKNOWN_MEMBER_ID,
    CommitFailure.FENCED_EPOCH: ErrorCode.FENCED_MEMBER_EPOCH,
    CommitFailure.STALE_EPOCH: ErrorCode.STALE_MEMBER_EPOCH,
    CommitFailure.LEFT: ErrorCode.UNKNOWN_MEMBER_ID,
}
_WORDS = {
    CommitFailure.EXPELLED: (
        "the coordinator has put this member out of group {group}: no heartbeat reached it for session.timeout.ms "
        "({session} ms), or an administrator removed it. Its partitions belong to others now. If pauses of the "
        "process or of the network are the cause, raise session.timeout.ms."
    ),
    CommitFailure.OLD_GENERATION: (
        "group {group} has rebalanced without this member, and its partitions may belong to others: call poll() to "
        "join again; it starts from the last commit that succeeded."
    ),
    CommitFailure.PARTITIONS_LOST: (
        "while the commit waited for the end of a rebalance of group {group}, partitions went to other members, "
        "which start from the last commit before. Commit in on_revoked to hand over without reading twice."
    ),
    CommitFailure.STANDALONE: (
        "group {group} has members, and this consumer is none of them: it used assign(), not subscribe(). A group's "
        "offsets are committed by its members alone. Use another group.id here, or subscribe()."
    ),
    CommitFailure.NOT_JOINED: "this consumer is not a member of group {group} yet: call poll() first, which joins.",
    CommitFailure.REMOVED: (
        "the coordinator has removed this member from group {group}: no heartbeat reached it for the broker's "
        "group.consumer.session.timeout.ms, or it did not give up partitions within max.poll.interval.ms "
        "({max_poll} ms), or an administrator removed it. Its partitions belong to others now; poll() joins again, and "
        "starts from the last commit that succeeded."
    ),
    CommitFailure.FENCED_EPOCH: (
        "the coordinator has fenced this member of group {group}, and its partitions may belong to others: poll() "
        "joins again, and starts from the last commit that succeeded."
    ),
    CommitFailure.STALE_EPOCH: (
        "group {group} has gone on, and this member's epoch does not cover the offsets any more: some of the "
        "partitions belong to others. Commit what is assigned, or in on_revoked."
    ),
    CommitFailure.LEFT: (
        "this consumer left group {group} in the middle of a rebalance, before the commit could be made: commit "
        "before close() or unsubscribe(), or in on_revoked."
    ),
    CommitFailure.POLL_OVERRUN: "",  # always with an overrun, which tells more
}


def _describe(overrun: Overrun, config: MemberConfig) -> str:
    in_hand = f"{overrun.records} record{'' if overrun.records == 1 else 's'} in hand"
    outcome = f"has left group {config.group_id}: its partitions belong to others now"
    if config.is_static:  # it may be back before its session ends, and have them again
        outcome = f"sends no more heartbeats: group {config.group_id} gives its partitions to others, if need be"
    return (
        f"poll() was not called for max.poll.interval.ms ({config.max_poll_interval_ms} ms): the deadline passed "
        f"{overrun.late_ms} ms ago with {in_hand}, and the member {outcome}. Remedies: do the work on a record faster; "
        f"raise max.poll.interval.ms (now {config.max_poll_interval_ms}); "
        f"lower max.poll.records (now {config.max_poll_records}); or hand records to more threads, pause(), and go on "
        "calling poll()."
    )
