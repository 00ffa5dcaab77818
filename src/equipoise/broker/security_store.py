"""Keeps the security state durable: appends records to `__security`, waits, applies them, answers.

Changes run one after the other: each is decided on the state that the one before has left. A change that is answered
survives a crash; a change that the disk refuses is not applied.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from equipoise.broker.topics.topics import SECURITY_TOPIC, Partition
from equipoise.random_uuid import random_uuid
from equipoise.security.acls import Acl
from equipoise.security.state import SecurityState, acl_record
from equipoise.wire.errors import ErrorCode, KafkaError, ProtocolError, UsageError
from equipoise.wire.records.batch import iter_headers, read_header
from equipoise.wire.records.build import build_pairs
from equipoise.wire.records.read import read_pairs
from equipoise.wire.schema import Message
from equipoise.wire.security_records import SecurityRecord, decode_record, encode_record

if TYPE_CHECKING:
    from equipoise.broker.first_users import FirstUser
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

log = logging.getLogger(__name__)

Decide = Callable[[SecurityState], Sequence[SecurityRecord]]
Done = Callable[[KafkaError | None], None]
_LOAD_BYTES = 1 << 20


class SecurityStore:
    """The security state of one broker, and the queue of changes to it."""

    def __init__(self, server: Server) -> None:
        self.state = SecurityState()
        self.on_change: Callable[[], None] = lambda: None  # called when `state` has changed
        self._server = server
        self._changes: deque[tuple[Decide, Done]] = deque()  # the first one is under way
        self._is_running = False

    def load(self) -> None:
        """Before any client is served. A broker that cannot read all of its rules does not start without them."""
        topic = self._server.topics.get_hidden(SECURITY_TOPIC)
        if topic is None:
            return
        source = topic.partitions[0].log
        try:
            if source.offline is not None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, source.offline)
            offset = source.log_start_offset
            while offset < source.log_end_offset:
                offset = self._load_from(source.read(offset, _LOAD_BYTES, source.log_end_offset))
            self.on_change()
        except (KafkaError, ProtocolError, ValueError, OSError) as error:
            raise UsageError(
                f"{source.name} could not be read, and without its users and access rules the broker does not start: "
                f"{error}"
            ) from None

    def _load_from(self, views: Sequence[memoryview]) -> int:
        """Applies what is there, and returns the offset behind it."""
        if not views:
            raise ProtocolError("it ends before its end offset")
        for view in views:
            for pos, header in iter_headers(view):
                for key, value in read_pairs(view, pos, header):
                    self.state.apply(decode_record(key or b"", value))
                behind = header.last_offset + 1
        return behind

    # -- changes

    def change(self, decide: Decide, done: Done) -> None:
        """Writes and applies the records that `decide` makes of the state; `done` gets None, or the error that has kept
        it from that. What `decide` raises as KafkaError goes to `done`."""
        self._changes.append((decide, done))
        if not self._is_running:
            self._run()

    def answer(self, call: Call, decide: Decide, reply: Callable[[KafkaError | None], Message]) -> None:
        """The same for a request, which is answered with what `reply` makes of the outcome."""

        def done(error: KafkaError | None) -> None:
            try:
                response = reply(error)
            except Exception:  # noqa: BLE001  the changes behind this one have their turn
                call.connection.fail()
            else:
                call.reply(response)

        self.change(decide, done)

    async def add_users(self, users: Sequence[FirstUser]) -> None:
        """At the start of the broker, before clients are served. A credential that is there stays as it is: its
        password may have been changed since."""
        missing = [one for one in users if one.mechanism not in self.state.users.get(one.name, {})]
        records = [one.record() for one in missing]
        await self._change_now(lambda state: records)

    async def add_acls(self, acls: Sequence[Acl]) -> None:
        """Likewise. One that is there already stays."""
        await self._change_now(lambda state: new_acl_records(state, acls))

    async def _change_now(self, decide: Decide) -> None:
        outcome: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        self.change(decide, outcome.set_result)
        if (error := await outcome) is not None:
            raise error

    def _run(self) -> None:
        """Begins changes until one has to wait for the disk."""
        self._is_running = True
        while self._changes and self._begin(*self._changes[0]):
            self._changes.popleft()
        self._is_running = bool(self._changes)

    def _begin(self, decide: Decide, done: Done) -> bool:
        """Whether it has ended already."""
        try:
            records = decide(self.state)
            partition, last_offset = self._append(records) if records else (None, 0)
        except KafkaError as error:
            done(error)
            return True
        except Exception:
            log.exception("a change of the security state failed")
            done(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return True
        if partition is None or partition.is_durable(last_offset):
            self._end(records, done)
            return True
        partition.when_settled(last_offset, lambda: self._settled(partition, last_offset, records, done))
        return False

    def _append(self, records: Sequence[SecurityRecord]) -> tuple[Partition, int]:
        """All records of a change in one batch: after a crash all of them are there, or none."""
        partition = self._partition()
        stamp = self._server.clock.wall_time()
        data = memoryview(build_pairs([encode_record(one) for one in records], stamp))
        appended = self._server.append(partition, data, [(0, read_header(data))], stamp, keyed=True)
        return partition, appended.last_offset

    def _partition(self) -> Partition:
        topics = self._server.topics
        topic = topics.get_hidden(SECURITY_TOPIC) or topics.create_internal(
            SECURITY_TOPIC, 1, {"cleanup.policy": "compact", "compression.type": "producer"}
        )
        return topic.partitions[0]

    def _settled(self, partition: Partition, last_offset: int, records: Sequence[SecurityRecord], done: Done) -> None:
        self._changes.popleft()
        if partition.is_durable(last_offset):
            self._end(records, done)
        else:
            done(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, partition.log.offline or ""))
        self._run()

    def _end(self, records: Sequence[SecurityRecord], done: Done) -> None:
        for record in records:
            self.state.apply(record)
        if records:
            self.on_change()
        done(None)


def new_acl_records(state: SecurityState, acls: Iterable[Acl]) -> list[SecurityRecord]:
    """Of those that are not there yet."""
    return [acl_record(random_uuid(), acl) for acl in dict.fromkeys(acls) if acl not in state.authorizer]
