"""Carriers: the connections that carry the requests of members, so that the coordinator learns of a member that has
none left (`group.lost.connection.grace.ms`).

A member counts as cut off when the last connection that ever carried a request of it has ended, and not by our doing.
Where many connections end within a second, more than half of those that carry members, nobody is reported, and the
coordinator spares those it has just heard of: that is a network or a proxy, not a crash.

Who is cut off and alive connects again. The coordinator hears of that too, before the first request of the member.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from equipoise.broker.groups.carried import Carried, Key
from equipoise.coordinator.classic.lost_connections import LOSS_WINDOW_MS

if TYPE_CHECKING:
    from equipoise.broker.groups.coordinator import GroupCoordinator
    from equipoise.broker.groups.held_heartbeats import HeartbeatIntervals

Client = tuple[str, str]  # its id, and its host
_FEW = 3  # connections that end together are no sign of anything


class Carriers:
    """All connections of the broker that carry members, and those that have ended lately."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self.count = 0
        self._ended: deque[int] = deque()
        self._sparing_until = 0
        self.awaited: dict[Client, tuple[int, list[Key]]] = {}  # since when, and which members; the oldest first

    def knows(self, key: Key, notes: HeartbeatIntervals) -> bool:
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
            for key in cut_off:
                shard = self._coordinator.shard_of(key[0])
                self._await(key, now)
                shard.run(shard.core.connection_lost(*key, now))

    def _await(self, key: Key, now: int) -> None:
        """The client of a member of a `consumer` group may come again. After the grace it matters no more."""
        oldest = now - self._coordinator.config.group_lost_connection_grace_ms
        while self.awaited and next(iter(self.awaited.values()))[0] < oldest:
            del self.awaited[next(iter(self.awaited))]
        group = self._coordinator.shard_of(key[0]).core.consumer_groups.get(key[0])
        member = group.members.get(key[1]) if group is not None else None
        if member is not None:
            client = member.client_id, member.client_host
            _, keys = self.awaited.pop(client, (now, []))
            keys.append(key)
            self.awaited[client] = now, keys

    def came(self, client: Client, now: int) -> None:
        """A client has connected. Whether it is one that was cut off is a guess by its name. Rule 7.9.3."""
        if client in self.awaited:
            for key in self.awaited.pop(client)[1]:
                shard = self._coordinator.shard_of(key[0])
                shard.run(shard.core.client_came(*key, now))

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
