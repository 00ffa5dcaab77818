"""The inputs of the coordinator beside a request, and its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from equipoise.coordinator.events import Event, MemberFenced
from equipoise.coordinator.outcomes import Answered, Outcome
from equipoise.coordinator.reasons import Who
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Early
    from equipoise.coordinator.consumer.assignment.target import TargetRequest


class Caller(NamedTuple):
    """The sender of a request. `token` is opaque here and comes back with the reply."""

    token: Any
    version: int
    client_id: str = ""
    client_host: str = ""  # as Java prints addresses: "/10.0.0.1"

    def who(self, member_id: str, group_instance_id: str | None) -> Who:
        """The sender as events name it."""
        return Who(member_id, self.client_id, self.client_host, group_instance_id)


class Producer(NamedTuple):
    """The producer of a transaction."""

    producer_id: int
    producer_epoch: int


class Write(NamedTuple):
    """Records to append in one batch. Give this to `Shard.settle_write` when they are durable, or have failed.

    `producer`: they belong to its transaction, and have a batch of their own.

    `early`: the records have taken effect already, and are undone if they fail (`changes.py`). Such a write may be
    without records: its outcome then waits for the writes before it.

    `encoded`: the records as they are written, where they were made as bytes at once.

    `is_atomic`: False where more records than one batch may hold go into several, in this order; else they are refused.
    """

    records: list[CoordinatorRecord]
    outcome: Outcome | None = None
    early: Early | None = None
    producer: Producer | None = None
    is_atomic: bool = True
    encoded: list[tuple[bytes, bytes]] | None = None


class Resolve(NamedTuple):
    """Asks the runner which topics match regular expressions. `Shard.regexes_resolved` takes the answer. Topics that
    the caller may not describe are left out of it."""

    group_id: str
    regexes: tuple[str, ...]
    version: int  # of the image to look at
    begun_at: int
    caller: Caller


R = TypeVar("R")


class BaseStep(Generic[R]):
    """One input on its way through a coordinator, of groups or of transactions: when it came in, and what comes out."""

    __slots__ = ("now", "replies", "writes")

    def __init__(self, now: int) -> None:
        self.now = now
        self.replies: list[tuple[Caller, R]] = []
        self.writes: list[Write] = []

    def reply(self, caller: Caller, response: R) -> None:
        """Answers a request."""
        self.replies.append((caller, response))

    def write(self, records: list[CoordinatorRecord], outcome: Outcome | None = None) -> None:
        """Writes records; `outcome` says what follows."""
        self.writes.append(Write(records, outcome))


class Step(BaseStep[Message]):
    """A step of a shard of groups. Replies are sent now, records are written, events are noted, in this order."""

    __slots__ = ("events", "needs_preparation", "resolutions", "targets")

    def __init__(self, now: int) -> None:
        self.now = now
        self.replies: list[tuple[Caller, Message]] = []
        self.writes: list[Write] = []
        self.events: list[Event] = []
        self.resolutions: Sequence[Resolve] = ()
        self.targets: Sequence[TargetRequest] = ()  # to be computed beside, if the runner has said that it can
        self.needs_preparation = False  # a target waits for it, or soon may (rule A12.14)

    def note(self, event: Event) -> None:
        """Notes an event."""
        self.events.append(event)

    def resolve(self, asked: Resolve) -> None:
        """Asks for the topics of regular expressions."""
        self.resolutions = (*self.resolutions, asked)

    def compute(self, wanted: TargetRequest) -> None:
        """Asks for a target."""
        self.targets = (*self.targets, wanted)

    def note_fenced(self, error: ErrorCode, group_id: str, who: Who, request: str) -> None:
        """Among refused requests, those of a past incarnation of a static member are worth an event."""
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.events.append(MemberFenced(group_id, self.now, who, request))

    def reply_when_written(self, caller: Caller, response: Message) -> None:
        """A request that made records is answered when they are durable; one that made none, now."""
        if not self.writes:
            self.reply(caller, response)
            return
        write = self.writes.pop()
        assert write.outcome is None
        self.write(write.records, Answered(caller, response))


# A failed write of ours as a client sees it; every other error goes out as it is.
_WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def write_error(error: ErrorCode) -> ErrorCode:
    """Clients know errors of coordinators, not of logs. Rule 0.2. Kafka: CoordinatorOperationExceptionHelper."""
    return _WRITE_ERRORS.get(error, error)
