"""Carries out the steps of the protocol on kazoo, and returns the outcome or failure of each action."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.retry import KazooRetry

from equipoise.zookeeper.protocol.errors import ZooKeeperError
from equipoise.zookeeper.protocol.nodes import (
    CheckVersion,
    Create,
    CreateMissing,
    CreateNode,
    Delete,
    DeleteNode,
    EnsurePath,
    Exists,
    GetChildren,
    GetData,
    Operation,
    SessionId,
    SetData,
    SetNode,
    Stat,
    Transacted,
    Transaction,
    Znode,
)
from equipoise.zookeeper.protocol.steps import Action, Ended, Steps, advance
from equipoise.zookeeper.session import session_id

T = TypeVar("T")
Performers = Mapping[type[Action[Any]], Callable[[Any], Any]]


class KazooRunner:
    """`more`: actions besides those on nodes, and how they are done.

    `tries_for_ever` is how the client of that time treated every operation: repeated after a lost connection and after
    a lost session too, one after another, until `is_closing`. Without it an operation fails, and its policy decides;
    and several reads are under way together.
    """

    def __init__(
        self,
        client: KazooClient,
        more: Performers | None = None,
        *,
        tries_for_ever: bool = False,
        is_closing: Callable[[], bool] | None = None,
    ) -> None:
        self._client = client
        self._tries_for_ever = tries_for_ever
        self._retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5, interrupt=is_closing)
        self._performers: Performers = {
            GetChildren: self._get_children,
            GetData: self._get_data,
            Exists: self._exists,
            SessionId: lambda _: session_id(self._client),
            Create: self._create,
            CreateMissing: self._create_missing,
            EnsurePath: lambda action: self._client.ensure_path(action.path),
            SetData: self._set_data,
            Delete: self._delete,
            Transaction: self._transact,
            **(more or {}),
        }

    # -- steps

    def run(self, steps: Steps[T]) -> T:
        """To their end. What was not done because the client is closed ends them at once."""
        go_on: Callable[[], Action[Any]] = partial(next, steps)
        while not isinstance(action := advance(go_on), Ended):
            go_on = self._carry_out(steps, action)
        outcome: T = action.outcome
        return outcome

    def _carry_out(self, steps: Steps[T], action: Action[Any]) -> Callable[[], Action[Any]]:
        try:
            return partial(steps.send, self._performers[type(action)](action))
        except ConnectionClosedError:
            steps.close()
            raise
        except KazooException as error:
            failure = ZooKeeperError(f"{error!r}")
            failure.__cause__ = error
            return partial(steps.throw, failure)
        except Exception as error:  # noqa: BLE001  a listener may raise anything; the policy knows what follows
            return partial(steps.throw, error)

    # -- reads

    def _get_children(self, action: GetChildren) -> tuple[str, ...]:
        try:
            return tuple(self._call(self._client.get_children, action.path))
        except NoNodeError:
            return ()

    def _get_data(self, action: GetData) -> tuple[Znode | None, ...]:
        found = self._read_all(self._client.get, self._client.get_async, action.paths)
        return tuple(None if one is None else Znode(bytes(one[0]), _stat(one[1])) for one in found)

    def _exists(self, action: Exists) -> tuple[Stat | None, ...]:
        found = self._read_all(self._client.exists, self._client.exists_async, action.paths)
        return tuple(None if one is None else _stat(one) for one in found)

    def _read_all(
        self, read: Callable[[str], Any], begin: Callable[[str], Any], paths: Iterable[str]
    ) -> list[Any | None]:
        if self._tries_for_ever:
            return [_or_none(partial(self._call, read, path)) for path in paths]
        return [_or_none(answer.get) for answer in [begin(path) for path in paths]]

    # -- writes

    def _create(self, action: Create) -> bool:
        options = {"ephemeral": action.is_ephemeral, "makepath": True}
        try:
            self._call(self._client.create, action.path, action.data, **options)
            return True
        except NodeExistsError:
            return False

    def _create_missing(self, action: CreateMissing) -> None:
        for answer in [self._client.create_async(path) for path in action.paths]:
            with contextlib.suppress(NodeExistsError):
                answer.get()

    def _set_data(self, action: SetData) -> bool:
        return _or_none(partial(self._call, self._client.set, action.path, action.data)) is not None

    def _delete(self, action: Delete) -> None:
        _or_none(partial(self._call, self._client.delete, action.path))

    def _call(self, operation: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        if not self._tries_for_ever:
            return operation(*arguments, **more)
        return self._retry.copy()(operation, *arguments, **more)

    def _transact(self, action: Transaction) -> Transacted:
        transaction = self._client.transaction()
        for operation in action.operations:
            _add(transaction, operation)
        results = list(transaction.commit())
        culprit = _culprit(results)
        if culprit is not None:
            return Transacted(failure=type(culprit).__name__)
        return Transacted(tuple(result.version for result in results if hasattr(result, "version")))


def _add(transaction: Any, operation: Operation) -> None:
    match operation:
        case CheckVersion(path, version):
            transaction.check(path, version)
        case CreateNode(path, data, is_ephemeral):
            transaction.create(path, data, ephemeral=is_ephemeral)
        case SetNode(path, data):
            transaction.set_data(path, data)
        case DeleteNode(path):
            transaction.delete(path)


def _culprit(results: Iterable[Any]) -> Exception | None:
    """The reason why a transaction was not done: commit() returns exceptions, and raises none."""
    failures = [result for result in results if isinstance(result, Exception)]
    reasons = [failure for failure in failures if not isinstance(failure, RolledBackError | RuntimeInconsistency)]
    return next(iter([*reasons, *failures]), None)


def _or_none(read: Callable[[], Any]) -> Any | None:
    try:
        return read()
    except NoNodeError:
        return None


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeralOwner, stat.ctime, stat.mtime)
