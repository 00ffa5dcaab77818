"""Operations on nodes of ZooKeeper, as values: kazoo carries them out, or a tree in memory."""

from __future__ import annotations

from typing import NamedTuple

from equipoise.zookeeper.protocol.steps import Action


class Stat(NamedTuple):
    """Of a node: what ZooKeeper tells besides its data."""

    version: int  # of the data: 0 when created, one more with each write
    created: int  # czxid, the number of the change that made it: of two nodes the older has the smaller
    ephemeral_owner: int  # the session with which it ends; 0: with none
    created_ms: int = 0
    modified_ms: int = 0


class Znode(NamedTuple):
    """The contents of a node, and what ZooKeeper notes about it."""

    data: bytes
    stat: Stat


# -- reads: a missing node is None, or has no children


class GetChildren(Action[tuple[str, ...]]):
    """The names of the nodes below a path; none if there is no such node."""

    path: str


class GetData(Action[tuple[Znode | None, ...]]):
    """Several are asked for at once, and answered one after another: they are no common snapshot."""

    paths: tuple[str, ...]


class Exists(Action[tuple[Stat | None, ...]]):
    """What ZooKeeper notes about each of these nodes; None where there is none."""

    paths: tuple[str, ...]


class SessionId(Action[int]):
    """The id of the session; 0, which owns nothing, between two."""


# -- writes


class Create(Action[bool]):
    """With all nodes above it. False: it is there already."""

    path: str
    data: bytes
    is_ephemeral: bool = False


class CreateMissing(Action[None]):
    """Empty nodes that stay, where there are none yet. Those above them must be there."""

    paths: tuple[str, ...]


class EnsurePath(Action[None]):
    """Creates a lasting node, and those above it, unless they are there."""

    path: str


class SetData(Action[bool]):
    """Whatever its version. False: there is no such node."""

    path: str
    data: bytes


class Delete(Action[None]):
    """Its session is not compared. A missing node counts as deleted."""

    path: str


# -- several writes, of which all are done or none


class CheckVersion(NamedTuple):
    """Fails the transaction if the node has another version: another consumer has written it."""

    path: str
    version: int


class CreateNode(NamedTuple):
    """Fails the transaction if the node is there."""

    path: str
    data: bytes
    is_ephemeral: bool


class SetNode(NamedTuple):
    """Writes a node whatever its version, which it raises by one."""

    path: str
    data: bytes


class DeleteNode(NamedTuple):
    """Fails the transaction if the node is gone."""

    path: str


Operation = CheckVersion | CreateNode | SetNode | DeleteNode
NODE_EXISTS = "NodeExistsError"


class Transacted(NamedTuple):
    """`versions`: of the nodes that were set, in their order. `failure`: why nothing was done, by its name."""

    versions: tuple[int, ...] = ()
    failure: str = ""


class Transaction(Action[Transacted]):
    """All operations, or none: the outcome names the first that failed."""

    operations: tuple[Operation, ...]
