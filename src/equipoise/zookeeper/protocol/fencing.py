"""Ownership with fencing tokens: claims, releases and offsets as transactions that check the epochs of partitions.

An owner node is no token: a new one of another consumer has version 0 again. Each partition therefore has a permanent
node, its epoch. A claim writes it, and the resulting version is the token. Each write of an offset and each release
checks the token in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from equipoise.member.partitions import TopicPartition
from equipoise.zookeeper.protocol.assignment import Decision
from equipoise.zookeeper.protocol.errors import ZooKeeperError
from equipoise.zookeeper.protocol.group import GroupNodes
from equipoise.zookeeper.protocol.nodes import (
    NODE_EXISTS,
    CheckVersion,
    CreateMissing,
    CreateNode,
    DeleteNode,
    EnsurePath,
    Exists,
    Operation,
    SetNode,
    Transacted,
    Transaction,
)
from equipoise.zookeeper.protocol.steps import Steps
from equipoise.zookeeper.protocol.views import Offsets, PartitionTopicInfo

_AT_ONCE = 500  # partitions in one transaction: three operations each, far below ZooKeeper's 1 MiB for a request


class ClaimOutcome(NamedTuple):
    """All of it, with tokens; or nothing, because of an owner node that is in the way."""

    tokens: dict[TopicPartition, int] | None
    blocker: str = ""  # empty: it was gone again when it was looked for


class FencedNodes:
    """The owner and epoch nodes of one group, written in transactions alone."""

    def __init__(self, group: GroupNodes) -> None:
        self._group = group
        self._paths = group.paths
        self._ready: set[str] = set()  # nodes that stay, and are known to be there

    # -- claiming

    def claim(self, consumer_id: str, take: Decision) -> Steps[ClaimOutcome]:
        """In one transaction, and only while the consumer is registered: after its session it claims nothing."""
        yield from self._prepare(take)
        operations: list[Operation] = [CheckVersion(self._paths.registration(consumer_id), 0)]
        for partition, thread in sorted(take.items()):
            operations.append(CreateNode(self._paths.owner(partition), thread.encode(), is_ephemeral=True))
            operations.append(SetNode(self._paths.epoch(partition), consumer_id.encode()))
        done = yield from Transaction(tuple(operations))
        if not done.failure:
            return ClaimOutcome(dict(zip(sorted(take), done.versions, strict=True)))
        if done.failure != NODE_EXISTS:
            self._ready.clear()  # they may have been deleted
            raise ZooKeeperError(f"the claim of {consumer_id} was refused: {done.failure}")
        owned = yield from self._group.owner_sessions(take)
        return ClaimOutcome(None, self._paths.owner(min(owned)) if owned else "")

    def _prepare(self, take: Decision) -> Steps[None]:
        """The nodes above the owners, and the epochs: a transaction makes no parents."""
        for topic in {partition.topic for partition in take}:
            yield from self._ensure(f"{self._paths.owners}/{topic}")
            yield from self._ensure(f"{self._paths.epochs}/{topic}")
        missing = {self._paths.epoch(partition) for partition in take} - self._ready
        yield from CreateMissing(tuple(sorted(missing)))
        self._ready |= missing

    def _ensure(self, path: str) -> Steps[None]:
        if path not in self._ready:
            yield from EnsurePath(path)
            self._ready.add(path)

    # -- writing

    def write(
        self, infos: Sequence[PartitionTopicInfo], offsets: Offsets, *, is_release: bool
    ) -> Steps[set[TopicPartition]]:
        """Offsets, and the end of ownership with them. Those that were not written, because they are others' by now."""
        lost: set[TopicPartition] = set()
        rest = iter(infos)
        while several := list(islice(rest, _AT_ONCE)):
            done = yield from self._write_all(several, offsets, is_release)
            if done.failure:
                lost |= yield from self._write_each(several, offsets, is_release)
        return lost

    def _write_each(
        self, infos: Iterable[PartitionTopicInfo], offsets: Offsets, is_release: bool
    ) -> Steps[set[TopicPartition]]:
        lost = set()
        for info in infos:
            self._ready.discard(self._paths.offset(info.partition))
            done = yield from self._write_all([info], offsets, is_release)
            if done.failure:
                lost.add(info.partition)
        return lost

    def _write_all(self, infos: Iterable[PartitionTopicInfo], offsets: Offsets, is_release: bool) -> Steps[Transacted]:
        operations: list[Operation] = []
        for info in infos:
            operations.append(CheckVersion(self._paths.epoch(info.partition), info.token))
            if info.partition in offsets:
                operations.append((yield from self._offset(info.partition, offsets[info.partition])))
            if is_release:
                operations.append(DeleteNode(self._paths.owner(info.partition)))
        return (yield from Transaction(tuple(operations)))

    def _offset(self, partition: TopicPartition, offset: int) -> Steps[CreateNode | SetNode]:
        path, data = self._paths.offset(partition), str(offset).encode()
        if path not in self._ready:
            (stat,) = yield from Exists((path,))
            if stat is None:
                yield from self._ensure(f"{self._paths.offsets}/{partition.topic}")
                return CreateNode(path, data, is_ephemeral=False)
            self._ready.add(path)
        return SetNode(path, data)

    def held(self, infos: Sequence[PartitionTopicInfo]) -> Steps[set[TopicPartition]]:
        """Those whose tokens are still the newest: a look, which is out of date at once."""
        stats = yield from Exists(tuple(self._paths.epoch(info.partition) for info in infos))
        pairs = zip(infos, stats, strict=True)
        return {info.partition for info, stat in pairs if stat is not None and stat.version == info.token}
