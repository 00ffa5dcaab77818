"""A crowd in one group: thousands of members on hundreds of connections, in a process of its own.

`python -m tests.attack.crowd ADDRESS MEMBERS CONNECTIONS` joins, syncs, beats, rejoins and leaves, all members at once
in each act, and ends with status 0 when every answer was as it should be.
"""

from __future__ import annotations

import selectors
import struct
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from equipoise.wire.apis.k11_join_group import JoinGroupResponse
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from equipoise.wire.schema import Message
from tests.broker.rawclient import RawClient, request_frame
from tests.spec.requests import join

GROUP = "crowd"
SELECT_S = 60.0
_CORRELATION_ID = 4
_ASSIGNMENT = b"a"  # of ten thousand members they must fit into one record, with a megabyte at most


class Crowd:
    def __init__(self, address: str, members: int, connections: int) -> None:
        self._clients = [RawClient(address) for _ in range(connections)]
        for client in self._clients:
            client._socket.setblocking(False)
        self._each = members // connections
        self._ids: list[list[str]] = []
        self._generation = 0

    def join(self) -> None:
        answers = self._all(lambda n, i: join(group=GROUP), 3, JoinGroupResponse)
        self._note(answers)

    def rejoin(self) -> None:
        answers = self._all(lambda n, i: join(self._ids[n][i], GROUP), 3, JoinGroupResponse)
        self._note(answers)

    def _note(self, answers: list[list[Any]]) -> None:
        self._ids = [[answer.member_id for answer in row] for row in answers]
        self._generation = answers[0][0].generation_id
        self._leader = answers[0][0].leader

    def sync(self) -> None:
        everybody = [one for row in self._ids for one in row]
        rows = [SyncGroupRequestAssignment(member_id=one, assignment=_ASSIGNMENT) for one in everybody]

        def request(n: int, i: int) -> Message:
            member_id = self._ids[n][i]
            return SyncGroupRequest(
                group_id=GROUP,
                generation_id=self._generation,
                member_id=member_id,
                assignments=rows if member_id == self._leader else [],
            )

        answers = self._all(request, 3, SyncGroupResponse)
        assert all(bytes(answer.assignment) == _ASSIGNMENT for row in answers for answer in row)

    def beat(self) -> None:
        def request(n: int, i: int) -> Message:
            return HeartbeatRequest(group_id=GROUP, generation_id=self._generation, member_id=self._ids[n][i])

        self._all(request, 0, HeartbeatResponse)

    def leave(self) -> None:
        self._all(lambda n, i: LeaveGroupRequest(group_id=GROUP, member_id=self._ids[n][i]), 2, LeaveGroupResponse)

    def _all(self, request: Callable[[int, int], Message], version: int, response: type[Message]) -> list[list[Any]]:
        """Sends a request for each member at once, and reads all answers."""
        frames = [
            bytearray(b"".join(request_frame(request(n, i), version) for i in range(self._each)))
            for n in range(len(self._clients))
        ]
        answers: list[list[Any]] = [
            [response.decode(body[_CORRELATION_ID:], version) for body in bodies] for bodies in self._exchange(frames)
        ]
        errors = Counter(answer.error_code for row in answers for answer in row)
        assert set(errors) == {0}, errors
        return answers

    def _exchange(self, frames: Sequence[bytearray]) -> list[list[bytes]]:
        bodies: list[list[bytes]] = [[] for _ in frames]
        received = [bytearray() for _ in frames]
        left = self._each * len(frames)
        with selectors.DefaultSelector() as selector:
            for n, client in enumerate(self._clients):
                selector.register(client._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, n)
            while left:
                ready = selector.select(SELECT_S)
                assert ready, f"{left} answers are missing"
                for key, events in ready:
                    n, socket = key.data, self._clients[key.data]._socket
                    if events & selectors.EVENT_WRITE:
                        del frames[n][: socket.send(frames[n])]
                        if not frames[n]:
                            selector.modify(socket, selectors.EVENT_READ, n)
                    if events & selectors.EVENT_READ:
                        data = socket.recv(1 << 20)
                        assert data, "the broker has closed a connection"
                        received[n] += data
                        left -= _cut(received[n], bodies[n])
        return bodies


def _cut(received: bytearray, bodies: list[bytes]) -> int:
    count = 0
    while len(received) >= 4:
        (size,) = struct.unpack_from(">i", received)
        if len(received) - 4 < size:
            break
        bodies.append(bytes(received[4 : 4 + size]))
        del received[: 4 + size]
        count += 1
    return count


def main() -> None:
    address, members, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    crowd = Crowd(address, members, connections)
    for act in (crowd.join, crowd.sync, crowd.beat, crowd.rejoin, crowd.leave):
        print(act.__name__, flush=True)
        act()


if __name__ == "__main__":
    main()
