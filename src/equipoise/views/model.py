"""The model that every renderer shows: groups, members, lag, rebalances.

Every figure knows its source. What cannot be known is None, never 0. A `Cause` is the coordinator's word; a `Guess` is
concluded from who was there before and after. They are two types, so that no renderer passes a guess off as a fact.

Times are `Ms`: milliseconds since 1970. Spans end in `_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

from equipoise.coordinator.journal import Wait
from equipoise.coordinator.reasons import Cause, Who
from equipoise.wire.errors import ErrorCode

Ms = NewType("Ms", int)


class Source(Enum):
    """Where a view comes from."""

    JOURNAL = "journal"  # `__rebalances` of our broker
    OFFSETS_TOPIC = "offsets_topic"  # group metadata records of `__consumer_offsets`
    POLLING = "polling"  # questions alone: neither topic can be read


class GroupType(Enum):
    """The protocol of a group."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    OTHER = "other"  # share and streams groups


class Problem(NamedTuple):
    """What could not be had, and the broker's error. A problem belongs to a cell, never to a page."""

    what: str  # of which topic, partition, group or broker
    code: ErrorCode
    message: str


class Move(NamedTuple):
    """A partition that has another owner than before."""

    topic: str
    partition: int
    before: str | None
    owner: str


class Dark(NamedTuple):
    """How long a partition had no working owner."""

    topic: str
    partition: int
    dark_ms: int


class Phases(NamedTuple):
    """The phases of a rebalance. None: it was not reached, or is not known."""

    detect_ms: int | None
    join_ms: int | None
    assign_ms: int | None
    sync_ms: int | None


class GuessKind(Enum):
    """What can be concluded from the members of two generations."""

    MEMBER_JOINED = "member_joined"
    MEMBER_GONE = "member_gone"  # left or died: no record says which
    MEMBER_RESTARTED = "member_restarted"
    MEMBERS_CHANGED = "members_changed"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    MEMBER_REJOINED = "member_rejoined"
    NEVER_SETTLED = "never_settled"
    TOPICS_CHANGED = "topics_changed"  # of a `consumer` group
    UNKNOWN = "unknown"


class Guess(NamedTuple):
    """A cause that was concluded, and the member it is about."""

    kind: GuessKind
    who: Who | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceView:
    """One rebalance. `key` names it within its group: its generation, `7.2` if an overtaken one shares it."""

    key: str
    group_id: str
    old_generation: int | None
    generation: int | None
    started: Ms | None
    ended: Ms | None
    cause: Cause | Guess
    phases: Phases | None
    members: int
    protocol: str | None
    waited_for: Who | None = None
    waited_ms: int | None = None
    arrivals: tuple[tuple[str, int], ...] = ()  # member id and ms after the start, the slowest last
    unsynced: tuple[str, ...] | None = None  # had not asked for their assignment when it was there; None: not known
    synced: tuple[tuple[str, int], ...] = ()  # of these, who has asked since, and when
    moved: tuple[Move, ...]
    kept: int
    revoked: tuple[tuple[str, int], ...]
    dark: tuple[Dark, ...] | None  # None: not known
    overtaken: bool = False
    cut: int = 0  # partitions that are not listed
    # -- of a target epoch of a `consumer` group only
    is_target: bool = False
    further_causes: tuple[Cause | Guess, ...] = ()
    called: tuple[tuple[str, int], ...] = ()  # member id and ms after the start
    done: tuple[tuple[str, int], ...] = ()  # when their partitions were last changed
    waits: tuple[Wait, ...] = ()
    source: Source

    @property
    def duration_ms(self) -> int | None:
        """From its cause to its end."""
        return None if self.started is None or self.ended is None else self.ended - self.started

    @property
    def at(self) -> Ms:
        """Its end or, while it runs, its start."""
        return self.ended if self.ended is not None else self.started or Ms(0)


class PartitionLag(NamedTuple):
    """A group on one partition. `lag` is end − committed, never below 0, whatever the group's state."""

    topic: str
    partition: int
    committed: int | None
    log_end: int | None
    lag: int | None
    metadata: str | None = None
    log_start: int | None = None
    behind_ms: int | None = None  # the age of the oldest record that is not read
    member_id: str | None = None
    is_subscribed: bool = True  # False: no member asks for the topic any more; not in the sum
    problem: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[tuple[str, int], ...]
    topics: tuple[str, ...]
    lag: int | None
    joined_at: Ms | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    member_epoch: int | None = None
    # -- from a coordinator of ours only
    last_seen: Ms | None = None
    session_ends: Ms | None = None  # if nothing is heard of it until then
    awaiting: str | None = None  # what a rebalance waits for: "join", "sync" or "revocation"
    awaited_until: Ms | None = None

    @property
    def who(self) -> Who:
        """The member as it is named to people."""
        return Who(self.member_id, self.client_id, self.client_host, self.group_instance_id)


class HealthKind(Enum):
    """The rules of health, the worst first."""

    STUCK = "stuck"
    NOBODY_READS = "nobody_reads"
    STALLED = "stalled"
    BEHIND = "behind"
    RESTLESS = "restless"
    UNEVEN = "uneven"
    FINE = "fine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The first rule that speaks, with its figures. Which of them are set depends on the rule."""

    kind: HealthKind
    lag: int | None = None
    for_ms: int | None = None
    count: int | None = None  # of rebalances in the last hour
    culprit: Who | None = None
    culprit_count: int | None = None  # how often it did what most of its rebalances were for
    trigger: str | None = None  # of most of the culprit's rebalances
    dark_share: float | None = None  # of partition time in the last hour
    problem: Problem | None = None

    @property
    def needs_attention(self) -> bool:
        """Whether a person should look."""
        return self.kind is not HealthKind.FINE


class EpisodeKind(Enum):
    """What rebalances that belong together were."""

    POLL_OVERRUNS = "poll_overruns"
    ROLLING_RESTART = "rolling_restart"
    HOST_LOST = "host_lost"
    JOINED = "joined"
    LEFT = "left"
    LOST = "lost"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Rebalances that belong together, by their keys."""

    kind: EpisodeKind
    began: Ms
    ended: Ms
    rebalances: tuple[str, ...]
    members: int  # that came, went or were lost
    came: int = 0
    went: int = 0  # the lost ones too
    who: Who | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagView:
    """The lag of a group as a whole."""

    lag: int | None  # of the partitions whose lag is known; None: of none
    unknown: int = 0  # partitions without a known lag
    behind_ms: int | None = None
    is_at_least: bool = False  # the oldest unread record is older than what was seen
    clears_in_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group as it is now, and what it has been through."""

    group_id: str
    type: GroupType
    state: str | None
    protocol: str | None
    generation: int | None
    coordinator_id: int | None
    members: tuple[MemberView, ...]
    partitions: tuple[PartitionLag, ...]
    lag: LagView
    rebalances: tuple[RebalanceView, ...] = ()
    rebalances_last_hour: int | None = None
    episodes: tuple[Episode, ...] = ()
    health: Health
    source: Source
    as_of: Ms
    seen_since: Ms | None = None  # how far back its rebalances are known
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedPartition:
    """One partition of a topic: its leader, its replicas and, where a group reads it, its records."""

    partition: int
    leader_id: int | None  # None: it has none at the moment
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    log_start: int | None = None
    log_end: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic. Ends are asked for where a group reads it: what nobody reads has none here."""

    name: str
    is_internal: bool
    partitions: tuple[ReplicatedPartition, ...]
    size_bytes: int | None = None
    per_second: float | None = None  # records that come

    @property
    def records(self) -> int | None:
        """All that are there; None if one partition's are not known."""
        spans = [(one.log_start, one.log_end) for one in self.partitions]
        known = [end - start for start, end in spans if start is not None and end is not None]
        return sum(known) if len(known) == len(spans) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """One broker of the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_controller: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster: its brokers and groups."""

    cluster_id: str | None
    brokers: tuple[BrokerView, ...]
    groups: tuple[GroupView, ...]
    source: Source
    as_of: Ms
    unknown: tuple[str, ...] = field(default=())  # what this source cannot tell, as words.UNKNOWN names it
    problems: tuple[Problem, ...] = ()
