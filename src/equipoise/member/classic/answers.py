"""The meaning of each error for a member of a classic group, as one table for each API: rules 9.8 of
docs/rules/members.md.

The tables follow AbstractCoordinator.JoinGroupResponseHandler, AbstractCoordinator.SyncGroupResponseHandler and
AbstractCoordinator.HeartbeatResponseHandler. An error without a row is unexpected, and poll() raises it.
"""

from __future__ import annotations

from equipoise.member.verdicts import ErrorTable, Verdict
from equipoise.wire.errors import ErrorCode

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
_OF_THE_GROUP = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: Verdict.COORDINATOR_GONE,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.RESET_MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
}
JOIN_GROUP = ErrorTable(
    "JoinGroup", {**_OF_THE_GROUP, ErrorCode.MEMBER_ID_REQUIRED: Verdict.ADOPT_MEMBER_ID}, _REMEDIES
)
# The Java consumer lets COORDINATOR_LOAD_IN_PROGRESS of a SyncGroup out of poll(). It passes by itself, so we wait.
SYNC_GROUP = ErrorTable(
    "SyncGroup", {**_OF_THE_GROUP, ErrorCode.ILLEGAL_GENERATION: Verdict.RESET_GENERATION}, _REMEDIES
)
HEARTBEAT = ErrorTable(
    "Heartbeat",
    {
        **_OF_THE_GROUP,
        ErrorCode.ILLEGAL_GENERATION: Verdict.RESET_GENERATION,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.RETRY,
    },
    _REMEDIES,
)
