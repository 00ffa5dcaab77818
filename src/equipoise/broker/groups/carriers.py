"""Carriers: the connections that carry the requests of members, so that the coordinator learns of a member that has
none left (`group.lost.connection.grace.ms`).

A member counts as cut off when the last connection that ever carried a request of it has ended, and not by our doing.
Where many connections end within a second, more than half of those that carry members, nobody is reported, and the
coordinator spares those it has just heard of: that is a network or a proxy, not a crash.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from equipoise.broker.groups.held_heartbeats import HeartbeatIntervals, intervals_of
from equipoise.coordinator.classic.lost_connections import LOSS_WINDOW_MS

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupCoordinator
    from equipoise.coordinator.classic.group import ClassicGroupMember
    from equipoise.coordinator.consumer.group import Presence

_FEW = 3  # connections that end together are no sign of anything
_ROOM = 64  # members that one connection has carried; beyond it those that are gone are forgotten


class Carried:
    """The members that one connection carries. `last` is the one of its last request: mostly it is the only one."""

    __slots__ = ("_room", "by_us", "last", "members")

    def __init__(self) -> None:
        self.by_us = False  # whether we have ended the connection: that says nothing about the client
        self.last: ClassicGroupMember | Presence | None = None
        self.members: dict[tuple[str, str], HeartbeatIntervals] = {}
        self._room = _ROOM

    def note(self, member: ClassicGroupMember | Presence, carriers: Carriers) -> None:
        """The connection has brought a request of this member."""
        self.last = member
        key, notes = (member.timer.group_id, member.timer.member_id), intervals_of(member)
        if self.members.get(key) is notes:
            return
        if not self.members:
            carriers.count += 1
        self.members[key] = notes
        notes.connections += 1
        if len(self.members) > self._room:
            self._forget_gone(carriers)

    def _forget_gone(self, carriers: Carriers) -> None:
        self.members = {key: notes for key, notes in self.members.items() if carriers.knows(key, notes)}
        self._room = max(_ROOM, 2 * len(self.members))


class Carriers:
    """All connections of the broker that carry members, and those that have ended lately."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self.count = 0
        self._ended: deque[int] = deque()
        self._sparing_until = 0

    def knows(self, key: tuple[str, str], notes: HeartbeatIntervals) -> bool:
        """Whether this is still a member."""
        member = self._coordinator.shard_of(key[0]).core.find_noted(*key)
        return member is not None and member.notes is notes

    def ended(self, carried: Carried, now: int) -> None:
        """A connection has ended."""
        if not carried.members:
            return
        self.count -= 1
        cut_off = []
        for key, notes in carried.members.items():
            notes.connections -= 1
            if not notes.connections and not carried.by_us and self.knows(key, notes):
                cut_off.append(key)
        carried.members = {}
        if cut_off and not self._are_many(now):
            for group_id, member_id in cut_off:
                shard = self._coordinator.shard_of(group_id)
                shard.run(shard.core.connection_lost(group_id, member_id, now))

    def _are_many(self, now: int) -> bool:
        """Whether more than half of the connections have ended within the window. Rule 7.9.1."""
        ended = self._ended
        while ended and ended[0] <= now - LOSS_WINDOW_MS:
            ended.popleft()
        ended.append(now)
        if len(ended) >= _FEW and len(ended) > self.count:
            if now >= self._sparing_until:
                for shard in self._coordinator.shards:
                    shard.run(shard.core.spare_lost(now - LOSS_WINDOW_MS, now))
            self._sparing_until = now + LOSS_WINDOW_MS
        return now < self._sparing_until
