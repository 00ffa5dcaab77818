"""Faults on demand: what a test does to the requests of clients, and to their answers.

A fault is a value: which requests it is for, and what happens to them. `Control` keeps the faults that are in force,
the newest first, and a request meets the first that fits. Routes are wrapped when the first fault is set: a broker
without faults has no cost of it. An answer is delayed or lost in the one place where answers leave, `Call.reply`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from equipoise.broker.handlers import HANDLERS
from equipoise.broker.handlers.groups import caller_of
from equipoise.coordinator.classic.replies import join_error
from equipoise.coordinator.offsets.commit import commit_response
from equipoise.wire.apis import APIS
from equipoise.wire.apis.k10_find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest
from equipoise.wire.errors import ErrorCode, UsageError
from equipoise.wire.schema import Message

if TYPE_CHECKING:
    from equipoise.broker.handlers import Route
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server

_GROUP = 0  # a key type of FindCoordinator
_HEARTBEATS = frozenset({"Heartbeat", "ConsumerGroupHeartbeat"})
_NAMES = {handler.api.name for handler in HANDLERS.values()}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which requests: of APIs by their names, of a group, of a member by its member id, client id or group.instance.id.
    What is empty or None fits all. `times`: so many requests; None: all, until the fault is ended."""

    apis: Sequence[str] = ()
    group: str | None = None
    who: str | None = None
    times: int | None = None

    def __post_init__(self) -> None:
        for api in self.apis:
            if api not in _NAMES:
                raise UsageError(f"no API {api!r} is served: {', '.join(sorted(_NAMES))}")
        if self.times is not None:
            _check_count("times", self.times, 1)

    def fits(self, route: Route, request: Any, call: Call) -> bool:
        """Whether it is for this request."""
        if self.apis and route.api_name not in self.apis:
            return False
        if self.group is not None and self.group not in _groups_of(request):
            return False
        return self.who is None or self.who in _names_of(request, call)


def error_code(given: ErrorCode | str | int) -> ErrorCode:
    """An error, also by its name or its number on the wire."""
    try:
        return ErrorCode[given] if isinstance(given, str) else ErrorCode(given)
    except (KeyError, ValueError):
        raise UsageError(f"Kafka has no error {given!r}; NOT_COORDINATOR is one") from None


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is {value!r}: give an integer of {least} or more")


def _groups_of(request: Any) -> set[str | None]:
    """The groups that a request names: most name one, some several, and FindCoordinator calls them keys."""
    if isinstance(request, FindCoordinatorRequest):
        return {request.key, *request.coordinator_keys} if request.key_type == _GROUP else set()
    rows = (getattr(request, name, ()) for name in ("groups", "groups_names", "group_ids"))
    return {getattr(request, "group_id", None), *(getattr(row, "group_id", row) for row in chain.from_iterable(rows))}


def _names_of(request: Any, call: Call) -> set[str | None]:
    """By which a request's sender can be named, or the members that it takes out of their group."""
    names: set[str | None] = {call.client_id}
    for row in (request, *(request.members if isinstance(request, LeaveGroupRequest) else ())):
        names |= {getattr(row, name, None) for name in ("member_id", "group_instance_id", "instance_id")}
    return names - {None, ""}


@dataclass(frozen=True, kw_only=True)
class Delay(Fault):
    """The request is served at once, and its answer leaves so many milliseconds later."""

    ms: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_count("ms", self.ms, 0)


@dataclass(frozen=True, kw_only=True)
class Lose(Fault):
    """The request is served, and its answer never leaves: the connection ends instead."""


@dataclass(frozen=True, kw_only=True)
class Fail(Fault):
    """The request is not served, and answered with this error."""

    error: ErrorCode

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "error", error_code(self.error))  # else the answer could not be encoded
        others = [api for api in self.apis if api not in _REFUSALS]
        if others or not self.apis:
            what = f"{others[0]} cannot be failed" if others else "say which APIs are to fail"
            raise UsageError(f"{what}: {', '.join(sorted(_REFUSALS))} can")


@dataclass(frozen=True, kw_only=True)
class Cut(Fault):
    """The request is not served, and its connection ends; so does the next one."""


@dataclass(frozen=True, kw_only=True)
class Unheard(Fault):
    """Heartbeats are answered as if all were well, and count for nothing: the session runs on as if none came."""


class Standing:
    """A fault that is in force. `hits`: requests that have met it. As a context manager it ends with the block."""

    def __init__(self, fault: Fault, end: Callable[[Standing], None]) -> None:
        self.fault = fault
        self.hits = 0
        self.number = 0  # by which it is called from outside
        self._end = end

    @property
    def is_spent(self) -> bool:
        """Whether it has met as many requests as it is for."""
        return self.fault.times is not None and self.hits >= self.fault.times

    def end(self) -> None:
        """From now on all is as it was."""
        self._end(self)

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Control:
    """The faults of one server. On its loop only."""

    def __init__(self) -> None:
        self._standing: list[Standing] = []
        self._last = 0

    @property
    def standing(self) -> tuple[Standing, ...]:
        """Those in force, the newest first."""
        return tuple(self._standing)

    def set(self, standing: Standing) -> None:
        """The fault is in force, before all others."""
        self._last += 1
        standing.number = self._last
        self._standing.insert(0, standing)

    def end(self, standing: Standing) -> None:
        """It is no longer."""
        if standing in self._standing:
            self._standing.remove(standing)

    def wrap(self, route: Route) -> None:
        """From now on the requests of this route may meet a fault."""
        handle = route.handle

        def handle_or_fail(server: Server, request: Any, call: Call) -> Message | bytes | None:
            standing = self._find(route, request, call)
            return handle(server, request, call) if standing is None else _meet(standing.fault, handle, request, call)

        route.handle = handle_or_fail

    def _find(self, route: Route, request: Any, call: Call) -> Standing | None:
        for standing in self._standing:
            if standing.fault.fits(route, request, call):
                standing.hits += 1
                if standing.is_spent:
                    self._standing.remove(standing)
                return standing
        return None


def _meet(fault: Fault, handle: Callable[..., Message | bytes | None], request: Any, call: Call) -> Any:
    """What happens to a request. None: the answer comes later, or never."""
    connection, name = call.connection, call.route.api_name
    match fault:
        case Fail(error=error):
            return _REFUSALS[name](request, call, error)
        case Unheard() if name in _HEARTBEATS:
            return _well(request, call)
        case Cut():
            connection.abort()
            return None
        case Delay(ms=ms):
            call.on_reply = lambda response: connection.server.clock.call_later(ms, lambda: call.reply(response))
        case Lose():
            call.on_reply = lambda response: connection.abort()
    response = handle(connection.server, request, call)
    if response is not None and call.on_reply is not None:
        call.reply(response)
        return None
    return response


def _well(request: Any, call: Call) -> Message:
    """The answer to a heartbeat that changes nothing."""
    response = APIS[call.route.api_key].response
    if call.route.api_name == "Heartbeat":
        return response(error_code=ErrorCode.NONE)
    core = call.connection.server.group_coordinator.shard_of(request.group_id).core
    interval_ms = core.settings_of(request.group_id).heartbeat_interval_ms
    return response(
        error_code=ErrorCode.NONE,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        heartbeat_interval_ms=interval_ms,
    )


# -- answers with an error, by API


def _plain(request: Any, call: Call, error: ErrorCode) -> Message:
    return APIS[call.route.api_key].response(error_code=error)


def _find_coordinator(request: Any, call: Call, error: ErrorCode) -> Message:
    nowhere: dict[str, Any] = {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": error.name}
    if call.version < _FIRST_BATCHED:
        return FindCoordinatorResponse(**nowhere)
    return FindCoordinatorResponse(coordinators=[Coordinator(key=key, **nowhere) for key in request.coordinator_keys])


_FIRST_BATCHED = 4
_REFUSALS: dict[str, Callable[[Any, Call, ErrorCode], Message]] = {
    "JoinGroup": lambda request, call, error: join_error(caller_of(call), error, request.member_id),
    "SyncGroup": _plain,
    "Heartbeat": _plain,
    "LeaveGroup": _plain,
    "ConsumerGroupHeartbeat": _plain,
    "OffsetCommit": lambda request, call, error: commit_response(request, error),
    "FindCoordinator": _find_coordinator,
}
