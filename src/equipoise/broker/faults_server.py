"""Faults over the wire: a loopback HTTP endpoint of `equipoise serve --faults`, for tests in any language.

    POST /faults     {"do": "delay", "apis": ["OffsetCommit"], "ms": 500, "group": "billing", "times": 3}
    GET /faults      those in force
    DELETE /faults   ends them all; DELETE /faults/3 the one of that number
    GET /brokers     the brokers of the process, and what each leads

Brokers are killed and moved to by POST, too: {"do": "kill-broker", "broker": 2}.

A page in a browser must not reach it: the host must be this machine's, and no request with an Origin is served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from equipoise.broker import group_actions
from equipoise.broker.cluster import actions
from equipoise.broker.control import Cut, Delay, Fail, Fault, Lose, Standing, Unheard, error_code
from equipoise.http_server import Page, Request, is_loopback, names_this_machine, parse_listen
from equipoise.wire.errors import KafkaError, UsageError

if TYPE_CHECKING:
    from equipoise.broker.cluster.node import Node
    from equipoise.broker.server import Server

PATH, BROKERS_PATH = "/faults", "/brokers"
_FAULTS: dict[str, type[Fault]] = {"delay": Delay, "lose": Lose, "fail": Fail, "cut-client": Cut, "unheard": Unheard}
_AT_ONCE: dict[str, Callable[[Server, str, str], None]] = {"kick": group_actions.kick, "expire": group_actions.expire}
_ON_MEMBERS: dict[str, Callable[[Server, str, str], Fault]] = {
    "pause-heartbeats": group_actions.pause_heartbeats,
    "fence": group_actions.fence,
    "cut": group_actions.cut,
}
_ON_BROKERS: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
    "kill-broker": actions.kill,
    "stop-broker": actions.stop,
    "start-broker": actions.start,
    "cut-broker": actions.cut,
    "heal-broker": actions.heal,
    "move-leader": actions.move_leader,
    "move-coordinator": actions.move_coordinator,
    "elect-leaders": actions.elect_preferred,
    "elect-unclean": actions.elect_unclean,
}
DEEDS = (*_AT_ONCE, "rebalance", *_ON_MEMBERS, *_FAULTS, *_ON_BROKERS)


def check_address(listen: str) -> tuple[str, int]:
    """Host and port. UsageError: others could reach it."""
    host, port = parse_listen(listen, "127.0.0.1:9083")
    if not is_loopback(host):
        raise UsageError(f"{listen} can be reached from other machines: faults are set from this one, on 127.0.0.1")
    return host, port


class Faults:
    """The endpoint of one server, on its loop."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def respond(self, request: Request) -> Page:
        """The answer to one request; what was wrong with it is a sentence."""
        if not names_this_machine(request) or "origin" in request.headers:
            return Page(403, b"faults are not for browsers\n")
        path, _, number = request.path[1:].partition("/")
        if request.path == BROKERS_PATH and request.method == "GET":
            return _page([_broker_row(self._server, one) for one in self._server.cluster.nodes.values()])
        if path != PATH[1:]:
            return Page(404, b"there is /faults, and /brokers\n")
        try:
            match request.method:
                case "GET":
                    return _page([_row(one) for one in group_actions.control_of(self._server).standing])
                case "DELETE":
                    return _page({"ended": self._end(number)})
                case "POST":
                    return _page(await self._do(_decoded(request.body)))
        except UsageError as error:
            return Page(400, f"{error}\n".encode())
        except KafkaError as error:  # the disk has refused what the brokers are to remember
            return Page(503, f"{error}\n".encode())
        return Page(405, b"only GET, POST and DELETE\n")

    async def _do(self, wanted: dict[str, Any]) -> dict[str, Any]:
        deed = str(wanted.pop("do", None))
        if deed in _ON_BROKERS:
            found = await _ON_BROKERS[deed](self._server, **_named(_ON_BROKERS[deed], wanted))
            return {"done": deed} if found is None else {"done": deed, "end_offset": found}
        if deed in _AT_ONCE or deed == "rebalance":
            named = _strings(wanted, ("group",) if deed == "rebalance" else ("group", "who"))
            act: Callable[..., None] = _AT_ONCE.get(deed, group_actions.rebalance)
            act(self._server, *named)
            return {"done": deed}
        return _row(group_actions.stand(self._server, self._fault(deed, wanted), self._remove))

    def _fault(self, deed: str, wanted: dict[str, Any]) -> Fault:
        if deed in _ON_MEMBERS:
            return _ON_MEMBERS[deed](self._server, *_strings(wanted, ("group", "who")))
        if deed in _FAULTS:
            return _make(_FAULTS[deed], wanted)
        raise UsageError(f"cannot do {deed!r}: {', '.join(DEEDS)}")

    def _end(self, number: str) -> int:
        ended = [one for one in group_actions.control_of(self._server).standing if number in ("", str(one.number))]
        if number and not ended:
            raise UsageError(f"no fault {number} is in force")
        for one in ended:
            one.end()
        return len(ended)

    def _remove(self, standing: Standing) -> None:
        group_actions.control_of(self._server).end(standing)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError('send a JSON object, for instance {"do": "kick", "group": "billing", "who": "client-3"}')
    return found


def _strings(wanted: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Just these, and all of them."""
    if set(wanted) != set(names) or not all(isinstance(wanted[name], str) for name in names):
        raise UsageError(f"give {' and '.join(names)} as strings, and nothing else")
    return [wanted[name] for name in names]


def _named(action: Callable[..., object], wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    """Just what it needs, of the right kinds: they come from outside."""
    needed = {name: kind for name, kind in action.__annotations__.items() if name not in ("server", "return")}
    kinds = {"int": int, "str": str}
    if set(wanted) != set(needed):
        raise UsageError(f"give {', '.join(needed) or 'nothing else'}" + (", and nothing else" if needed else ""))
    for name, kind in needed.items():
        if not isinstance(wanted[name], kinds[kind]) or isinstance(wanted[name], bool):
            raise UsageError(f"{name} is no {kind}: {wanted[name]!r}")
    return wanted


def _broker_row(server: Server, node: Node) -> dict[str, Any]:
    partitions = [one for topic in server.topics for one in topic.partitions if one.leader == node.node_id]
    return {
        "broker": node.node_id,
        "address": node.address,
        "rack": node.rack,
        "state": "cut off" if node.is_cut and node.is_up else "running" if node.is_up else "not running",
        "leads": [f"{one.topic.name}-{one.index}" for one in partitions if not one.topic.is_internal],
        "shards": sum(one.topic.is_internal for one in partitions),
    }


def _make(kind: type[Fault], wanted: dict[str, Any]) -> Fault:
    """Each value is checked: it comes from outside."""
    kinds = {"apis": list, "group": str, "who": str, "times": int, "ms": int, "error": str}
    known = {one.name for one in fields(kind)}
    for name, value in wanted.items():
        if name not in known:
            raise UsageError(f"{name!r} is not for this fault: {', '.join(sorted(known))}")
        if not isinstance(value, kinds[name]) or isinstance(value, bool):
            raise UsageError(f"{name} is no {kinds[name].__name__}: {value!r}")
        if isinstance(value, int) and value < 0:
            raise UsageError(f"{name} is negative: {value}")
    if not all(isinstance(one, str) for one in wanted.get("apis", ())):
        raise UsageError("apis is a list of names")
    if "error" in wanted:
        wanted["error"] = error_code(wanted["error"])
    try:
        return kind(**wanted)
    except TypeError:
        missing = ({"ms"} & known | {"error"} & known) - set(wanted)
        raise UsageError(f"give {', '.join(sorted(missing))} too") from None


def _row(standing: Standing) -> dict[str, Any]:
    fault = standing.fault
    values = {one.name: getattr(fault, one.name) for one in fields(fault)}
    if isinstance(fault, Fail):
        values["error"] = fault.error.name
    kind = next(name for name, one in _FAULTS.items() if type(fault) is one)
    given = {
        name: list(value) if name == "apis" else value for name, value in values.items() if value not in (None, ())
    }
    return {"number": standing.number, "do": kind, "hits": standing.hits, **given}


def _page(value: object) -> Page:
    return Page(200, json.dumps(value).encode() + b"\n", "application/json")
