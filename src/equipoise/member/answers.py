"""What each error in an answer means to a member: the table of spec section 9.8, as data.

What is not listed here is unexpected, and goes to the application as it is.
"""

from __future__ import annotations

from enum import Enum, auto

from equipoise.wire.errors import ErrorCode


class Verdict(Enum):
    RETRY = auto()  # the same again, after a pause
    COORDINATOR_GONE = auto()  # look for it, then again
    REJOIN = auto()  # join again at once, as the one it is
    RESET_GENERATION = auto()  # join again at once, with its member id and without its generation
    RESET_MEMBER = auto()  # join again at once, as nobody
    ADOPT_MEMBER_ID = auto()  # it has been given an id: join again at once with it
    FENCED = auto()  # another has its instance id: out for good
    FAIL = auto()  # the application has to know; the next poll tries again


JOIN_GROUP = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: Verdict.COORDINATOR_GONE,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.RESET_MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.ADOPT_MEMBER_ID,
}
SYNC_GROUP = {
    # The Java consumer lets this one out of poll(). It passes by itself, so we wait for that.
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: Verdict.COORDINATOR_GONE,
    ErrorCode.ILLEGAL_GENERATION: Verdict.RESET_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.RESET_MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
}
HEARTBEAT = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: Verdict.COORDINATOR_GONE,
    ErrorCode.ILLEGAL_GENERATION: Verdict.RESET_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.RESET_MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.FENCED,
}
FIND_COORDINATOR = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.RETRY,
    ErrorCode.NOT_COORDINATOR: Verdict.RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.RETRY,
}


def error_of(number: int) -> ErrorCode:
    """A newer broker may know errors that we have no name for."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def remedy(error: ErrorCode, api: str) -> str:
    """For errors that end in the application."""
    return f"{api} was answered {error.name}{_REMEDIES.get(error, '')}"


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
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ": this principal may not read the group",
    ErrorCode.UNSUPPORTED_VERSION: ": the broker is too old for group.instance.id; unset it",
}
