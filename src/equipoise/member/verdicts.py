"""The meaning of errors for a member: verdicts, and tables of them. Each group protocol has its own tables.

The search for the coordinator is the same in both: rules 9.8 of docs/rules/members.md,
AbstractCoordinator.FindCoordinatorResponseHandler.
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
    FENCE = auto()  # out of the group: gives up its partitions, then joins again with its member id
    TELL = auto()  # poll() raises the error; the member stays in its state and sends the request again, after a pause
    RETRY_A_WHILE = auto()  # sends the request again, after a pause, a few times; then it is fatal
    FATAL = auto()  # stops for good: poll() raises the error every time


class ErrorTable:
    """The verdicts on the errors of one API."""

    def __init__(
        self,
        api: str,
        verdicts: Mapping[ErrorCode, Verdict],
        remedies: Mapping[ErrorCode, str],
        *,
        otherwise: Verdict = Verdict.FAIL,
    ) -> None:
        self.api = api
        self._verdicts = dict(verdicts)
        self._remedies = remedies
        self._otherwise = otherwise

    def verdict(self, error: ErrorCode) -> Verdict:
        """What the member does about this error."""
        return self._verdicts.get(error, self._otherwise)

    def failure(self, error: ErrorCode, config: MemberConfig, said: str | None = None) -> KafkaError:
        """The exception for the application, with what the broker said. Of a group, members need READ, which includes
        DESCRIBE."""
        if error is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            what = f"group {config.group_id!r} cannot be joined: {self.api} was denied"
            return authorization_error(
                error, what, on_group(AclOperation.READ, config.group_id), principal=config.principal
            )
        words = f" ({said})" if said else ""
        return KafkaError(error, f"{self.api} was answered {error.name}{words}{self._remedies.get(error, '')}")


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
    {ErrorCode.INVALID_GROUP_ID: ": group.id is not one a group can have"},
)
