"""The meaning of each error for a member, as one table for each API: rules 9.8 of docs/rules/members.md.

The tables follow AbstractCoordinator.JoinGroupResponseHandler, AbstractCoordinator.SyncGroupResponseHandler,
AbstractCoordinator.HeartbeatResponseHandler and AbstractCoordinator.FindCoordinatorResponseHandler. An error without a
row is unexpected, and poll() raises it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from equipoise.member.config import MemberConfig
from equipoise.security.acls import AclOperation
from equipoise.security.denials import authorization_error, on_group
from equipoise.wire.errors import ErrorCode, KafkaError


class Verdict(Enum):
    """What the member does about an error."""

    RETRY = auto()  # sends the same request again, after a pause
    COORDINATOR_GONE = auto()  # looks for the coordinator, then sends the request again
    REJOIN = auto()  # joins again at once, with its member id and generation
    RESET_GENERATION = auto()  # joins again at once, with its member id and without its generation
    RESET_MEMBER = auto()  # joins again at once, without member id
    ADOPT_MEMBER_ID = auto()  # joins again at once, with the member id of the answer
    FENCED = auto()  # stops for good: another process has its group.instance.id
    FAIL = auto()  # poll() raises the error; the next poll tries again


class ErrorTable:
    """The verdicts on the errors of one API."""

    def __init__(self, api: str, verdicts: Mapping[ErrorCode, Verdict]) -> None:
        self.api = api
        self._verdicts = dict(verdicts)

    def verdict(self, error: ErrorCode) -> Verdict:
        """What the member does about this error."""
        return self._verdicts.get(error, Verdict.FAIL)

    def failure(self, error: ErrorCode, config: MemberConfig) -> KafkaError:
        """The exception for the application. Of a group, members need READ, which includes DESCRIBE."""
        if error is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            what = f"group {config.group_id!r} cannot be joined: {self.api} was denied"
            return authorization_error(
                error, what, on_group(AclOperation.READ, config.group_id), principal=config.principal
            )
        return KafkaError(error, f"{self.api} was answered {error.name}{_REMEDIES.get(error, '')}")


_OF_THE_GROUP = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: Verdict.COORDINATOR_GONE,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.RESET_MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
}
JOIN_GROUP = ErrorTable("JoinGroup", {**_OF_THE_GROUP, ErrorCode.MEMBER_ID_REQUIRED: Verdict.ADOPT_MEMBER_ID})
# The Java consumer lets COORDINATOR_LOAD_IN_PROGRESS of a SyncGroup out of poll(). It passes by itself, so we wait.
SYNC_GROUP = ErrorTable("SyncGroup", {**_OF_THE_GROUP, ErrorCode.ILLEGAL_GENERATION: Verdict.RESET_GENERATION})
HEARTBEAT = ErrorTable(
    "Heartbeat",
    {
        **_OF_THE_GROUP,
        ErrorCode.ILLEGAL_GENERATION: Verdict.RESET_GENERATION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.RETRY,
    },
)
FIND_COORDINATOR = ErrorTable(
    "FindCoordinator",
    dict.fromkeys(
        (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.REQUEST_TIMED_OUT,
        ),
        Verdict.RETRY,
    ),
)
_REMEDIES = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        ": the members of this group have no assignor in common with partition.assignment.strategy; "
        "give them one, or use another group.id"
    ),
    ErrorCode.INVALID_GROUP_ID: ": group.id is not one a group can have",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        ": session.timeout.ms is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: ": the group is full; see the broker's group.max.size",
    ErrorCode.UNSUPPORTED_VERSION: ": the broker is too old for group.instance.id; unset it",
}
