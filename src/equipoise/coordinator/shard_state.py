"""The state of a shard: groups, offsets, timers, and writes under way. The rules of all requests share it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import ClassVar

from equipoise.coordinator.classic.group import ClassicGroupMember, Group
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.consumer.group import ConsumerGroup, Presence
from equipoise.coordinator.consumer.member import ConsumerGroupMember, short_id
from equipoise.coordinator.consumer.settings import GroupSettings, broker_settings
from equipoise.coordinator.metadata import EMPTY_IMAGE, MetadataImage
from equipoise.coordinator.offsets.committed import CommittedOffsets
from equipoise.coordinator.step import Write
from equipoise.coordinator.timers import TimerKey, Timers
from equipoise.coordinator.wall_time import WallTime
from equipoise.wire.errors import ErrorCode


class Status(Enum):
    """The life of a shard, in this order."""

    LOADING = auto()
    ACTIVE = auto()
    CLOSED = auto()


# Every request asks for these: a name of the module is found in a third of the time of a member of an enum.
_LOADING, _ACTIVE, _NONE = Status.LOADING, Status.ACTIVE, ErrorCode.NONE


def unchanged(now: int) -> WallTime:
    """The wall time where it is all the time there is."""
    return WallTime(now)


class StateIsData:
    """What a copy keeps, or a shard that was pickled: the functions that it was given are not among it."""

    saved: ClassVar[tuple[str, ...]]  # names of attributes

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.saved}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


class ShardState(StateIsData):
    """`new_id` makes the random part of member ids; it is the only thing that is not decided here.

    `now` never jumps, and all deadlines are counted in it. What is written down must mean something after a restart:
    `wall_time` tells the wall time of a `now`. Expiry of offsets compares wall times, as in Kafka.

    The state is data. A copy, or a shard that was pickled, lacks these two functions until `attach`.
    """

    saved = (
        *("config", "own_settings", "status", "groups", "consumer_groups", "image", "new_topics_version", "offsets"),
        *("timers", "unwritten", "unwritten_groups", "last_early_write", "voided"),
    )
    computes_beside = False  # whether the runner computes large targets apart from its loop: `targets` of a step
    requested_targets = 0
    is_prepared = True  # False while the runner loads what targets of mixed subscriptions need: they wait for it

    def __init__(
        self, config: GroupConfig, new_id: Callable[[], str], wall_time: Callable[[int], WallTime] = unchanged
    ) -> None:
        self.config = config
        self.status = Status.LOADING
        self.groups: dict[str, Group] = {}  # classic ones; a name is here or in `consumer_groups`
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self.own_settings: Mapping[str, GroupSettings] = {}  # of groups that do not have the broker's
        self.image: MetadataImage = EMPTY_IMAGE
        self.new_topics_version = 0  # of the last image with topics that the one before did not have. Rule A13.7
        self.offsets = CommittedOffsets()
        self.timers: Timers[TimerKey] = Timers()
        # -- writes that have taken effect and are not yet durable, see `changes.py`
        self.unwritten: deque[Write] = deque()
        self.unwritten_groups: dict[str, int] = {}  # writes by group
        self.last_early_write = 0
        self.voided: dict[int, ErrorCode] = {}  # writes by number that fail because an earlier one has failed
        self._broker_settings = broker_settings(config)
        self.attach(new_id, wall_time)

    def attach(self, new_id: Callable[[], str], wall_time: Callable[[int], WallTime] = unchanged) -> None:
        """Gives the shard the two functions that are not state."""
        self._new_id = new_id
        self.wall_time = wall_time

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self._broker_settings = broker_settings(self.config)

    @property
    def unavailable(self) -> ErrorCode:
        """The error of a shard that is not active; NONE of one that is. Rule 5.4."""
        if self.status is _ACTIVE:
            return _NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.status is _LOADING else ErrorCode.NOT_COORDINATOR

    def find(self, group_id: str) -> Group | ConsumerGroup | None:
        """The group of that name, of either kind. Rule A23.1."""
        return self.groups.get(group_id) or self.consumer_groups.get(group_id)

    def all_groups(self) -> Iterator[Group | ConsumerGroup]:
        """The groups of both kinds."""
        yield from self.groups.values()
        yield from self.consumer_groups.values()

    def install(self, group_id: str, group: Group | ConsumerGroup | None) -> None:
        """The group of that name is this one now; None: there is none any more."""
        self.groups.pop(group_id, None)
        self.consumer_groups.pop(group_id, None)
        if isinstance(group, Group):
            self.groups[group_id] = group
        elif group is not None:
            self.consumer_groups[group_id] = group

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings of a `consumer` group: its own, or the broker's. Rule A19.3."""
        return self.own_settings.get(group_id) or self._broker_settings

    def find_member(self, group_id: str, member_id: str) -> ClassicGroupMember | None:
        """The member, if group and member exist."""
        group = self.groups.get(group_id)
        return group.members.get(member_id) if group is not None else None

    def find_incremental_member(self, group_id: str, member_id: str) -> ConsumerGroupMember | None:
        """The member, if there is such an incremental group."""
        group = self.consumer_groups.get(group_id)
        return group.members.get(member_id) if group is not None and group.incremental is not None else None

    def presence_of(self, group_id: str, member_id: str) -> Presence | None:
        """What the log does not have of a member of a `consumer` group; None: there is no such member."""
        group = self.consumer_groups.get(group_id)
        return group.presence_of(member_id) if group is not None and member_id in group.members else None

    def is_held(self, group_id: str, member_id: str) -> bool:
        """Whether a heartbeat of the member waits."""
        if (classic := self.groups.get(group_id)) is not None:
            return member_id in classic.parked.heartbeats
        group = self.consumer_groups.get(group_id)
        return group is not None and (
            member_id in group.held or (group.incremental is not None and member_id in group.incremental.heartbeats)
        )

    def find_noted(self, group_id: str, member_id: str) -> ClassicGroupMember | Presence | None:
        """What the runner keeps its notes with, of a member of either kind of group; None: there is no such member."""
        group = self.groups.get(group_id)
        return group.members.get(member_id) if group is not None else self.presence_of(group_id, member_id)

    def create_group(self, group_id: str, now: int) -> Group:
        """An Empty group at generation 0. Rule 1.2."""
        group = self.groups[group_id] = Group(group_id, self.wall_time(now))
        return group

    def new_id(self) -> str:
        """The id of a member of a `consumer` group: nothing but a random part, short."""
        return short_id(self._new_id())

    def new_member_id(self, prefix: str) -> str:
        """A prefix that people can read, and a random part. Rule 2.2.13."""
        return f"{prefix}-{self._new_id()}"
