"""Repeated commits: a member commits the same partitions again and again, with other offsets and without metadata.

The broker recognises such a commit by its bytes: all but the correlation id, the offsets and their epochs are those of
the last one. It is not decoded, its topics are known, and its answer is made already. The group decides on it as on any
other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from struct import Struct
from typing import TYPE_CHECKING

from equipoise.broker.handlers.groups import caller_of, note_carrier
from equipoise.coordinator.offsets.commit import commit_response, known_commit
from equipoise.wire.apis.headers import encode_request_header
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest
from equipoise.wire.errors import ErrorCode

if TYPE_CHECKING:
    from equipoise.broker.handlers import Route
    from equipoise.broker.net.connection import Call, Connection
    from equipoise.broker.topics.topics import Topic
    from equipoise.wire.schema import Message

_FIRST_WITH_EPOCHS = 6  # the version from which on offset and leader epoch stand side by side
_LARGEST = 1024  # bytes of a request that is remembered: some 20 KB of memory
_TRIES = 3
_OFFSET_AND_EPOCH = re.compile(rb"\xff{12}")


class RepeatedCommits:
    """What a connection remembers of its last commit."""

    __slots__ = ("_last_size", "_tries", "known")

    def __init__(self) -> None:
        self.known: RepeatedCommit | None = None  # the last commit, if the next may be like it
        self._last_size = 0
        self._tries = _TRIES  # until it is clear that the connection's commits differ

    def served(self, call: Call, request: OffsetCommitRequest, topics: Sequence[Topic]) -> None:
        """A commit of existing partitions was decoded. If it is as long as the one before, the next may be like it."""
        if self.known is not None and self.known.is_proved:
            self._tries = _TRIES
        self.known = None
        last_size, self._last_size = self._last_size, call.size
        if call.size == last_size <= _LARGEST and self._tries and _may_repeat(call, request):
            self._tries -= 1
            made = RepeatedCommit(call, request, topics)
            self.known = made if made.size == call.size else None  # or the client writes it in another way


def note_commit(call: Call, request: OffsetCommitRequest, topics: Sequence[Topic]) -> None:
    """A commit of existing partitions was decoded: its connection may bring more like it."""
    connection = call.connection
    if connection.repeated_commits is None:
        connection.repeated_commits = RepeatedCommits()
    connection.repeated_commits.served(call, request, topics)


def _may_repeat(call: Call, request: OffsetCommitRequest) -> bool:
    """Whoever has access rules, counts requests or disturbs them sees all of them decoded."""
    server = call.connection.server
    is_watched = server.metrics is not None or server.control is not None or call.usage is not None
    has_metadata = any(row.committed_metadata for topic in request.topics for row in topic.partitions)
    return call.version >= _FIRST_WITH_EPOCHS and server.allows_all and not is_watched and not has_metadata


class RepeatedCommit:
    """A commit by its bytes, and what is known of every commit that is like it."""

    __slots__ = ("_client_id", "_fixed", "_head", "_known", "_layout", "_route", "_topics", "is_proved")

    def __init__(self, call: Call, request: OffsetCommitRequest, topics: Sequence[Topic]) -> None:
        self.is_proved = False  # another commit was like it
        self._client_id, self._route, self._topics = call.client_id, call.route, topics
        answer = _encoded(call.route, commit_response(request, ErrorCode.NONE))
        self._known = known_commit(request, {topic.name: topic.topic_id for topic in topics}, answer)
        head, gaps = _head_and_gaps(call, request)
        self._layout = Struct(">4si" + "qi".join(f"{len(gap)}s" for gap in gaps))
        self._head, self._fixed = head[:4], tuple(gaps)

    @property
    def size(self) -> int:
        """Bytes of each such request."""
        return self._layout.size

    def serve(self, connection: Connection, frame: bytes | bytearray, now: int) -> Call | None:
        """Serves a commit like this one. None: it is another request, or a topic is gone."""
        if len(frame) != self._layout.size:
            return None
        found = self._layout.unpack(frame)
        if found[2::3] != self._fixed or found[0] != self._head:
            return None
        server, group_id = connection.server, self._known.request.group_id
        for topic in self._topics:
            if server.topics.get(topic.name) is not topic:
                return None
        self.is_proved = True
        call = connection.begin_call(self._route, found[1], self._client_id, len(frame), now=now)
        shard = server.group_coordinator.shard_for(call, group_id)
        caller = caller_of(call)
        member = shard.core.find_committing(self._known)
        if member is not None:
            note_carrier(server, call, member)
            shard.join_commits(member, self._known, zip(found[3::3], found[4::3], strict=True), caller=caller, now=now)
        else:
            note_carrier(server, call, shard.core.find_noted(group_id, self._known.request.member_id))
            shard.run(shard.core.commit_again(self._known, found[3::3], found[4::3], caller, now=now))
        return call


def _encoded(route: Route, response: Message) -> bytes:
    pieces: list[bytes] = []
    route.encode(response, pieces)
    return b"".join(pieces)


def _head_and_gaps(call: Call, request: OffsetCommitRequest) -> tuple[bytes, list[bytes]]:
    """The header of the request, and the bytes around its offsets behind the correlation id, as most clients write
    them. Where the offsets are is seen by writing all of them as 0, and as -1."""
    head = encode_request_header(call.route.api_key, call.version, 0, call.client_id)
    zeros, ones = (_with_offsets(request, number).encode(call.version) for number in (0, -1))
    differing = (int.from_bytes(zeros, "big") ^ int.from_bytes(ones, "big")).to_bytes(len(zeros), "big")
    places = [match.start() for match in _OFFSET_AND_EPOCH.finditer(differing)]
    starts, ends = [0, *(place + 12 for place in places)], [*places, len(zeros)]
    gaps = [zeros[start:end] for start, end in zip(starts, ends, strict=True)]
    return head, [head[8:] + gaps[0], *gaps[1:]]


def _with_offsets(request: OffsetCommitRequest, number: int) -> OffsetCommitRequest:
    made = deepcopy(request)
    for topic in made.topics:
        for row in topic.partitions:
            row.committed_offset = row.committed_leader_epoch = number
    return made
