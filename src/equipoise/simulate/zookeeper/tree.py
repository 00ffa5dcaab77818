"""A ZooKeeper in memory: nodes with versions, sessions and their ephemeral nodes, transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from equipoise.zookeeper.protocol.nodes import (
    NODE_EXISTS,
    CheckVersion,
    CreateNode,
    DeleteNode,
    Operation,
    SetNode,
    Stat,
    Transacted,
    Znode,
)


@dataclass
class _Entry:
    data: bytes
    created: int
    owner: int
    version: int = 0


class Tree:
    """`changed` is called with the path of every node that is made, written or deleted."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Entry] = {"": _Entry(b"", 0, 0)}
        self._changes = 0
        self._sessions = 0
        self.changed: Callable[[str], None] = lambda _path: None

    # -- sessions

    def new_session(self) -> int:
        """A number that no other session has."""
        self._sessions += 1
        return self._sessions

    def end_session(self, session: int) -> None:
        """Its ephemeral nodes go."""
        for path in [path for path, entry in self._nodes.items() if entry.owner == session]:
            self.delete(path)

    # -- reads

    def get(self, path: str) -> Znode | None:
        """A node; None: there is none."""
        entry = self._nodes.get(path)
        return None if entry is None else Znode(entry.data, Stat(entry.version, entry.created, entry.owner))

    def children(self, path: str) -> tuple[str, ...]:
        """The names below a node, sorted."""
        start = f"{path}/"
        below = (name.removeprefix(start) for name in self._nodes if name.startswith(start))
        return tuple(sorted(name for name in below if "/" not in name))

    # -- writes

    def ensure_path(self, path: str) -> None:
        """Makes the node and all above it."""
        if path not in self._nodes:
            self.ensure_path(path.rpartition("/")[0])
            self.create(path, b"")

    def create(self, path: str, data: bytes, session: int = 0) -> bool:
        """With all above it. False: it is there."""
        if path in self._nodes:
            return False
        self.ensure_path(path.rpartition("/")[0])
        self._changes += 1
        self._nodes[path] = _Entry(data, self._changes, session)
        self.changed(path)
        return True

    def set(self, path: str, data: bytes) -> bool:
        """False: there is no such node."""
        entry = self._nodes.get(path)
        if entry is None:
            return False
        entry.data, entry.version = data, entry.version + 1
        self.changed(path)
        return True

    def delete(self, path: str) -> None:
        """A node that is not there stays so."""
        if self._nodes.pop(path, None) is not None:
            self.changed(path)

    def transact(self, operations: Iterable[Operation], session: int) -> Transacted:
        """All operations, or none."""
        wanted = list(operations)
        for operation in wanted:  # none of ours depends on another of the same transaction
            if failure := self._failure(operation):
                return Transacted(failure=failure)
        versions = []
        for operation in wanted:
            match operation:
                case CreateNode(path, data, is_ephemeral):
                    self.create(path, data, session if is_ephemeral else 0)
                case SetNode(path, data):
                    self.set(path, data)
                    versions.append(self._nodes[path].version)
                case DeleteNode(path):
                    self.delete(path)
        return Transacted(tuple(versions))

    def _failure(self, operation: Operation) -> str:
        entry = self._nodes.get(operation.path)
        if isinstance(operation, CreateNode):
            is_orphan = operation.path.rpartition("/")[0] not in self._nodes
            return NODE_EXISTS if entry is not None else "NoNodeError" if is_orphan else ""
        if entry is None:
            return "NoNodeError"
        is_other = isinstance(operation, CheckVersion) and entry.version != operation.version
        return "BadVersionError" if is_other else ""
