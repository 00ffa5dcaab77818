"""OffsetCommit: which member may commit which offsets when, and the result of a commit: rules 9.7 of
docs/rules/members.md, rules B11.1 to B11.5 of docs/rules/consumer-members.md.

In Kafka: ConsumerCoordinator.sendOffsetCommitRequest and ConsumerCoordinator.OffsetCommitResponseHandler, for the
consumer protocol CommitRequestManager. A member epoch stands where a generation does.

One commit is in flight at a time, so that a repeated older commit cannot undo a newer one. A commit of a cooperative
member that meets a rebalance waits for its end, and continues with the partitions that the member still owns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import NamedTuple, Protocol

from equipoise.member.config import MemberConfig
from equipoise.member.errors import CommitFailedError, CommitFailure, RebalanceInProgressError, error_of
from equipoise.member.partitions import NOTHING, Owned, TopicPartition, listed
from equipoise.member.step import NEVER, Step
from equipoise.security.acls import AclOperation
from equipoise.security.denials import RESOURCE_OF, authorization_error, on_group, on_topic
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.schema import Message


class Committer(Protocol):
    """What commits need of a member, of whichever group protocol."""

    config: MemberConfig
    assignment: Owned

    @property
    def member_id(self) -> str:
        """As the coordinator knows it."""

    @property
    def generation_id(self) -> int:
        """The generation, or the member epoch, that commits carry; -1 outside the group."""

    @property
    def is_standalone(self) -> bool:
        """Whether the application has assigned partitions itself. Commits then carry no generation."""

    @property
    def is_stable(self) -> bool:
        """Whether the member is in a generation whose assignment it has."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether a JoinGroup or SyncGroup is on its way."""

    @property
    def is_cooperative(self) -> bool:
        """Whether the member keeps partitions through a rebalance (KIP-429)."""

    @property
    def is_finished(self) -> bool:
        """Whether the member is out for good."""

    def commit_failure(self, now: int) -> KafkaError:
        """Why a member in no generation cannot commit."""

    def want_join(self, reason: str) -> None:
        """Asks for a new join, because a refused commit shows that the group is rebalancing."""

    def put_out(self, because: CommitFailure, now: int) -> None:
        """A refused commit shows that the generation goes on without this member."""

    def fence(self, now: int) -> None:
        """A refused commit shows that the group.instance.id has a new owner."""

    def expedite_heartbeat(self) -> None:
        """A refused commit shows that the coordinator knows better: its next answer tells."""

    def lose_coordinator(self, now: int) -> None:
        """A failed commit shows that the coordinator has moved, or is gone."""

    def pause_ms(self, failures: int) -> int:
        """The pause after so many failures in a row."""


class OffsetAndMetadata(NamedTuple):
    """What is committed for a partition."""

    offset: int  # of the next record to read
    metadata: str = ""
    leader_epoch: int = -1


_OVER = -2  # no generation: what was given up is others' to commit, or is read from the committed offset on


class Commit:
    """One commit from the application's wish to its outcome."""

    def __init__(self, offsets: dict[TopicPartition, OffsetAndMetadata], deadline: int) -> None:
        self.offsets = offsets
        self.deadline = deadline
        self.is_done = False
        self.error: KafkaError | None = None
        self.on_done: Callable[[Commit], None] | None = None
        self.attempts = 0  # that failed, and are made again
        self.refused_with = ""  # the last of them, if the coordinator has answered
        self.generation_id = -1  # in which the application asked for it
        self.refused_in = -1  # the generation that was already over when it came to the coordinator
        self.revoked: dict[TopicPartition, int] = {}  # in which generation: in a later one others may have read on
        self.lost: Owned = NOTHING  # those of which that makes the commit void

    def finish(self, error: KafkaError | None) -> None:
        """The outcome; called once."""
        self.is_done, self.error = True, error
        if self.on_done is not None:
            self.on_done(self)


class CommitVerdict(Enum):
    """What becomes of a commit that was refused."""

    AGAIN = auto()  # sent again after a pause
    COORDINATOR_GONE = auto()  # sent again when the coordinator is found
    REBALANCING = auto()  # a classic group rebalances
    OLD_GENERATION = auto()  # a classic group has gone on without the member
    EXPELLED = auto()  # a classic group does not know the member
    INSTANCE_FENCED = auto()  # another process has the group.instance.id
    OTHER_EPOCH = auto()  # sent again with a newer member epoch, if there is one
    REMOVED = auto()  # the member is out of its group, as its next heartbeat shows


_PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: CommitVerdict.AGAIN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: CommitVerdict.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: CommitVerdict.COORDINATOR_GONE,
    ErrorCode.NOT_COORDINATOR: CommitVerdict.COORDINATOR_GONE,
    ErrorCode.REQUEST_TIMED_OUT: CommitVerdict.COORDINATOR_GONE,
}
CommitTable = Mapping[ErrorCode, CommitVerdict]
CLASSIC_COMMIT: CommitTable = {
    **_PASSING,
    ErrorCode.REBALANCE_IN_PROGRESS: CommitVerdict.REBALANCING,
    ErrorCode.ILLEGAL_GENERATION: CommitVerdict.OLD_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitVerdict.EXPELLED,
    ErrorCode.FENCED_INSTANCE_ID: CommitVerdict.INSTANCE_FENCED,
}
CONSUMER_COMMIT: CommitTable = {
    **_PASSING,
    ErrorCode.STALE_MEMBER_EPOCH: CommitVerdict.OTHER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID: CommitVerdict.REMOVED,
    ErrorCode.GROUP_ID_NOT_FOUND: CommitVerdict.REMOVED,
}


class Commits:
    """The commits of one member, in the order in which the application asked for them."""

    def __init__(self, member: Committer, verdicts: CommitTable = CLASSIC_COMMIT) -> None:
        self._member = member
        self._verdicts = verdicts
        self._queue: deque[Commit] = deque()  # the first of them may be under way
        self._request: OffsetCommitRequest | None = None
        self._retry_at = 0

    @property
    def are_waiting(self) -> bool:
        """Whether there are commits without outcome."""
        return bool(self._queue)

    @property
    def are_owed(self) -> bool:
        """Whether there are offsets of revoked partitions on their way. They are to be with the coordinator before the
        member joins, which lets others have the partitions; but if they cannot be, it joins without them."""
        return not self._retry_at and self._can_go() and any(commit.revoked for commit in self._queue)

    def revoke(self, partitions: Owned) -> None:
        """The member has given these up; in a later generation others may have read on."""
        for commit in self._queue:
            commit.revoked = (
                dict.fromkeys(partitions & commit.offsets.keys(), self._member.generation_id) | commit.revoked
            )

    def rejoined(self) -> None:
        """The member has joined again. Others may have what it had given up before, in the same generation too: an
        incremental group answers several joins with one."""
        for commit in self._queue:
            commit.revoked = dict.fromkeys(commit.revoked, _OVER)

    def begin_anew(self, partitions: Owned) -> None:
        """The member has got these, and reads them from the committed offset on. What it had given up of them before is
        out of date now, in the same generation too."""
        for commit in self._queue:
            commit.revoked |= dict.fromkeys(partitions & commit.revoked.keys(), _OVER)

    def add(self, commit: Commit, now: int) -> None:
        """Takes a commit, or refuses it at once where the coordinator would
        (ConsumerCoordinator.sendOffsetCommitRequest)."""
        if not commit.offsets:
            commit.finish(None)
        elif (refusal := self._refusal(now)) is not None:
            commit.finish(refusal)
        else:
            commit.generation_id = self._member.generation_id
            commit.revoked = dict.fromkeys(commit.offsets.keys() - self._member.assignment, commit.generation_id)
            self._queue.append(commit)

    def _refusal(self, now: int) -> KafkaError | None:
        """A consumer without a subscription may commit to a group without members. A member may in Stable; in a
        rebalance a cooperative one waits, since it keeps its partitions (KIP-429)."""
        member = self._member
        if member.is_finished:
            return member.commit_failure(now)
        if member.is_standalone or member.is_stable:
            return None
        if member.is_rebalancing:
            return None if member.is_cooperative and member.assignment else RebalanceInProgressError()
        return member.commit_failure(now)

    # -- to the coordinator

    def send(self, now: int, step: Step) -> None:
        """The first that waits, if it can go."""
        if now >= self._retry_at:
            self._retry_at = 0
        while self._request is None and not self._retry_at and self._can_go():
            if self._reduce(self._queue[0]):
                self._request = self._build(self._queue[0])
                step.send(self._request, self._member.config.request_timeout_ms)
            else:
                self._finish(None)

    def _can_go(self) -> bool:
        if not self._queue or self._member.is_standalone:
            return bool(self._queue)
        member = self._member
        return member.is_stable and self._queue[0].refused_in != member.generation_id

    def _reduce(self, commit: Commit) -> bool:
        """After a rebalance, takes out what went to others; whether anything is left. What a listener is being told
        of, the member still owns; what it has given up, nobody else has before it joins again."""
        now = self._member.generation_id
        if not self._member.is_standalone:
            held = self._member.assignment - commit.revoked.keys() | {
                one for one, generation in commit.revoked.items() if generation == now
            }
            commit.lost |= commit.offsets.keys() - held
            commit.offsets = {one: at for one, at in commit.offsets.items() if one in held}
            commit.revoked = {one: at for one, at in commit.revoked.items() if one in held}
        return bool(commit.offsets)

    def _build(self, commit: Commit) -> OffsetCommitRequest:
        """With member id and generation, so that the coordinator can refuse a member that was put out."""
        member = self._member
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), (offset, metadata, leader_epoch) in sorted(commit.offsets.items()):
            row = OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
            topics.setdefault(topic, []).append(row)
        request = OffsetCommitRequest(
            group_id=member.config.group_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        if not member.is_standalone:
            request.generation_id_or_member_epoch = member.generation_id
            request.member_id = member.member_id
            request.group_instance_id = member.config.group_instance_id
        return request

    # -- outcomes

    def answered(self, request: OffsetCommitRequest, response: OffsetCommitResponse, now: int) -> None:
        """ConsumerCoordinator.OffsetCommitResponseHandler."""
        if request is not self._request:
            return
        self._request = None
        errors = {
            TopicPartition(topic.name, row.partition_index): error_of(row.error_code)
            for topic in response.topics
            for row in topic.partitions
            if row.error_code != ErrorCode.NONE
        }
        if errors:
            self._refused(request, errors, now)
        else:
            self._finish(None)

    def _refused(self, request: OffsetCommitRequest, errors: Mapping[TopicPartition, ErrorCode], now: int) -> None:
        """Passing troubles are tried again until the deadline; what puts the member out or in doubt does so here as in
        a heartbeat; anything else is the application's."""
        member, error = self._member, _weightiest(errors.values())
        match self._verdicts.get(error):
            case CommitVerdict.AGAIN:
                self._queue[0].refused_with = _told(error, errors)
                self._pause(now)
            case CommitVerdict.COORDINATOR_GONE:
                self._queue[0].refused_with = ""
                member.lose_coordinator(now)
            case CommitVerdict.REBALANCING:
                if member.is_stable and self._is_of_now(request):
                    member.want_join("a commit was refused because the group is rebalancing")
                self._wait_for_rebalance(request)
            case CommitVerdict.OLD_GENERATION:
                self._out_of_date(request, CommitFailure.OLD_GENERATION, now)
            case CommitVerdict.EXPELLED:
                self._out_of_date(request, CommitFailure.EXPELLED, now)
            case CommitVerdict.INSTANCE_FENCED:
                member.fence(now)
            case CommitVerdict.OTHER_EPOCH:
                self._of_other_epoch(request)
            case CommitVerdict.REMOVED:
                self._removed(request)
            case _:
                self._finish(self._failure(error, _partitions_with(error, errors)))

    def _of_other_epoch(self, request: OffsetCommitRequest) -> None:
        """Rule B11.2. The coordinator's epoch for the member is another: the answer that says so is on its way, or was
        lost. The commit goes again with the epoch of that answer."""
        self._queue[0].refused_in = request.generation_id_or_member_epoch
        if self._is_of_now(request):
            self._member.expedite_heartbeat()

    def epoch_stays(self) -> None:
        """Rule B11.2. The coordinator has answered a heartbeat with the epoch that it had refused: it will refuse the
        commit again."""
        if self._request is None and self._queue and self._queue[0].refused_in == self._member.generation_id:
            self._finish(CommitFailedError(CommitFailure.STALE_EPOCH, self._member.config))

    def _removed(self, request: OffsetCommitRequest) -> None:
        """Rule B11.3. The next heartbeat finds out, and the member joins again."""
        is_standalone = request.generation_id_or_member_epoch < 0
        why = CommitFailure.STANDALONE if is_standalone else CommitFailure.REMOVED
        self._finish(CommitFailedError(why, self._member.config))
        if not is_standalone:
            self._member.expedite_heartbeat()

    def _failure(self, error: ErrorCode, partitions: list[TopicPartition]) -> KafkaError:
        """A commit needs READ on the group and on the topics (KafkaApis.handleOffsetCommitRequest)."""
        config, what = self._member.config, "the commit was refused"
        if error not in RESOURCE_OF:
            return KafkaError(error, f"{what}: {error.name} for {listed(partitions)}")
        topics = [on_topic(AclOperation.READ, one.topic) for one in partitions]
        actions = [on_group(AclOperation.READ, config.group_id), *topics]
        return authorization_error(error, f"{what} for {listed(partitions)}", *actions, principal=config.principal)

    def _out_of_date(self, request: OffsetCommitRequest, why: CommitFailure, now: int) -> None:
        """The answer may be of a generation that the member has left meanwhile; then it says nothing of this one."""
        member = self._member
        if request.generation_id_or_member_epoch < 0:
            self._finish(CommitFailedError(CommitFailure.STANDALONE, member.config))
        elif member.is_rebalancing or not self._is_of_now(request):
            self._wait_for_rebalance(request)
        else:
            member.put_out(why, now)

    def _is_of_now(self, request: OffsetCommitRequest) -> bool:
        return request.generation_id_or_member_epoch == self._member.generation_id

    def _wait_for_rebalance(self, request: OffsetCommitRequest) -> None:
        """The partitions of a cooperative member stay with it through a rebalance (KIP-429); an eager one has to give
        them up, and its application has to poll() before it commits."""
        if self._member.is_cooperative:
            self._queue[0].refused_in = request.generation_id_or_member_epoch
        else:
            self._finish(RebalanceInProgressError())

    def _finish(self, error: KafkaError | None) -> None:
        commit = self._queue.popleft()
        if error is None and commit.lost:
            error = CommitFailedError(CommitFailure.PARTITIONS_LOST, self._member.config, partitions=commit.lost)
        commit.finish(error)

    def failed(self, request: Message, now: int) -> bool:
        """No answer: tried again after a pause. Whether the request was a commit's."""
        if request is not self._request:
            return False
        self._request = None
        self._queue[0].refused_with = ""
        self._pause(now)
        return True

    def _pause(self, now: int) -> None:
        """Pauses double from attempt to attempt (KIP-580, ConsumerCoordinator.commitOffsetsSync)."""
        commit = self._queue[0]
        commit.attempts += 1
        self._retry_at = now + self._member.pause_ms(commit.attempts)

    def abandon(self, error: KafkaError) -> None:
        """The member is out of its generation: nothing of it can be committed any more."""
        self._request, self._retry_at = None, 0
        while self._queue:
            self._queue.popleft().finish(error)

    # -- time

    def next_deadline(self, *, can_send: bool) -> int:
        """The next deadline of a commit, or the end of a pause."""
        earliest = min((commit.deadline for commit in self._queue), default=NEVER)
        return min(earliest, self._retry_at) if self._retry_at and can_send else earliest

    def tick(self, now: int) -> None:
        """Commits whose time is up fail (KIP-266, default.api.timeout.ms)."""
        late = [commit for commit in self._queue if commit.deadline <= now]
        for commit in late:
            if commit is self._queue[0]:
                self._request = None
            self._queue.remove(commit)
            commit.finish(_too_late(self._member.config.default_api_timeout_ms, commit.refused_with))


def _weightiest(errors: Iterable[ErrorCode]) -> ErrorCode:
    """All partitions share an error of the group's. Forbidden topics are named only if nothing else is wrong
    (ConsumerCoordinator.OffsetCommitResponseHandler)."""
    found = list(errors)
    return next((error for error in found if error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED), found[0])


def _partitions_with(error: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> list[TopicPartition]:
    return [one for one, code in errors.items() if code is error]


def _told(error: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> str:
    """Why the coordinator has not committed so far."""
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"the cluster has no {listed(_partitions_with(error, errors))}."
    return f"the coordinator answers {error.name}."


def _too_late(limit_ms: int, refused_with: str) -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"the commit has had no success within default.api.timeout.ms ({limit_ms} ms): "
        f"{refused_with or 'is the coordinator reachable?'} Commit again, or raise the limit",
    )
