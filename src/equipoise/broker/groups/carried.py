"""What a connection knows of the members whose requests it carries: see `carriers.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.groups.held_heartbeats import HeartbeatIntervals, intervals_of

if TYPE_CHECKING:
    from equipoise.broker.groups.carriers import Carriers
    from equipoise.coordinator.classic.group import ClassicGroupMember
    from equipoise.coordinator.consumer.group import Presence

Key = tuple[str, str]  # of a member: its group, and its id
_ROOM = 64  # members that one connection has carried; beyond it those that are gone are forgotten


class Carried:
    """The members that one connection carries. `last` is the one of its last request: mostly it is the only one."""

    __slots__ = ("_room", "by_us", "last", "members")

    def __init__(self) -> None:
        self.by_us = False  # whether we have ended the connection: that says nothing about the client
        self.last: ClassicGroupMember | Presence | None = None
        self.members: dict[Key, HeartbeatIntervals] = {}
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
