"""JSON schemas of what `--json` prints, made from the dataclasses of the views; and a check of values against them."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any

from equipoise.client.admin_transactions import OpenTransaction, ProducerDescription, TransactionListing
from equipoise.console.commands.groups.reset import Change
from equipoise.coordinator.reasons import Cause
from equipoise.simulate.plan import Planned, PlanSettings
from equipoise.views import model
from equipoise.views.model import BrokerView, Episode, GroupView, Guess, Problem, RebalanceView

Schema = dict[str, Any]
_PLAIN = {int: "integer", str: "string", bool: "boolean", float: "number"}


def of_type(kind: Any) -> Schema:
    """The schema of one type of the model."""
    if kind is model.Ms:
        return {"type": "string", "format": "date-time"}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [of_type(one) for one in arguments]}
    if kind is types.NoneType:
        return {"type": "null"}
    if origin is tuple:
        return _tuple(arguments)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value if isinstance(one.value, str) else one.name.lower() for one in kind]}
    return _object(kind)


def _tuple(arguments: tuple[Any, ...]) -> Schema:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", "items": of_type(arguments[0])}
    return {"type": "array", "prefixItems": [of_type(one) for one in arguments]}


def _object(kind: Any) -> Schema:
    hints = typing.get_type_hints(kind)
    names = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    rows = {name: of_type(hints[name]) for name in names}
    if kind is RebalanceView:
        null = {"type": "null"}
        rows |= {"cause": {"anyOf": [_object(Cause), null]}, "guess": {"anyOf": [_object(Guess), null]}}
        rows["duration_ms"] = {"anyOf": [{"type": "integer"}, null]}
    return _of_rows(rows)


def _of_rows(rows: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    properties = rows | (optional or {})
    return {"type": "object", "properties": properties, "required": sorted(rows), "additionalProperties": False}


def _list(rows: Schema) -> Schema:
    return {"type": "array", "items": rows}


def _with(schema: Schema, **rows: Schema) -> Schema:
    return _of_rows(schema["properties"] | rows)


_TEXT, _TIME = {"type": "string"}, {"type": "string", "format": "date-time"}
_ANY_TEXT, _ANY_TIME = {"anyOf": [_TEXT, {"type": "null"}]}, {"anyOf": [_TIME, {"type": "null"}]}
_HEAD: Schema = {"cluster_id": _ANY_TEXT, "at": _TIME, "source": of_type(model.Source)}
_WORDS = _list(_TEXT)
_NULL, _NUMBER = {"type": "null"}, {"type": "integer"}
_NUMBERS: Schema = {"type": "object", "additionalProperties": _NUMBER}
_ANY_NUMBER: Schema = {"anyOf": [_NUMBER, _NULL]}
_SHORT_HEAD: Schema = {"cluster_id": _ANY_TEXT, "at": _TIME}
_ERROR = _of_rows({"code": _TEXT, "message": _TEXT, "advice": _ANY_TEXT})


def all_schemas() -> dict[str, Schema]:
    """By the name of the schema."""
    found: dict[str, Schema] = {
        "groups": {**_HEAD, "problems": _list(_object(Problem)), "groups": _list(_object(GroupView))},
        "rebalances": {
            **_HEAD,
            "group_id": _TEXT,
            "seen_since": _ANY_TIME,
            "rebalances": _list(_with(_object(RebalanceView), words=_WORDS)),
            "episodes": _list(_with(_object(Episode), words=_TEXT)),
            "advice": _list(_of_rows({"setting": _TEXT, "text": _TEXT})),
        },
        "cluster": {
            **_HEAD,
            "unknown": _WORDS,
            "features": _NUMBERS,
            "brokers": _list(_object(BrokerView)),
            "groups": {"type": "integer"},
            "problems": _list(_object(Problem)),
        },
    }
    found |= _changes() | _others()
    named = {name: _of_rows({"schema": {"const": f"equipoise.{name}/1"}, **rows}) for name, rows in found.items()}
    named |= {"error": _of_rows({"error": _ERROR}), "events": _events()}
    first = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {name: first | {"title": f"equipoise.{name}/1"} | rows for name, rows in named.items()}


def _changes() -> dict[str, Schema]:
    """Of commands that change something."""
    error = {"anyOf": [_of_rows({"code": _TEXT, "message": _TEXT}), _NULL]}
    change = _object(Change)["properties"] | {"read_again": _NUMBER, "skipped": _NUMBER}
    result: Schema = {"name": _TEXT, "error": error, "partitions": _ANY_NUMBER, "deleted_records": _ANY_NUMBER}
    return {
        "changes": {**_SHORT_HEAD, "changes": _list(_of_rows(result))},
        "reset": {**_SHORT_HEAD, "group_id": _TEXT, "changes": _list(_of_rows(change))},
    }


def _others() -> dict[str, Schema]:
    check_of_one = {"group_id": _TEXT, "is_well": {"type": "boolean"}, "wrong": _WORDS}
    partition = {name: _list(_NUMBER) for name in ("replica_nodes", "isr_nodes")}
    partition |= {"partition": _NUMBER, "leader_id": _NUMBER, "log_start": _ANY_NUMBER, "log_end": _ANY_NUMBER}
    configs: Schema = {"anyOf": [{"type": "object", "additionalProperties": _TEXT}, _NULL]}
    topic = {"name": _TEXT, "topic_id": _TEXT, "is_internal": {"type": "boolean"}, "configs": configs}
    acl = ("resourceType", "name", "patternType", "principal", "host", "operation", "permissionType")
    return {
        "checks": {**_SHORT_HEAD, "groups": _list(_of_rows(check_of_one))},
        "topics": {**_SHORT_HEAD, "topics": _list(_of_rows(topic | {"partitions": _list(_of_rows(partition))}))},
        "users": {
            **_SHORT_HEAD,
            "users": _list(
                _of_rows({"name": _TEXT, "iterations": {"type": "object", "additionalProperties": _NUMBER}})
            ),
        },
        "transactions": {**_SHORT_HEAD, **_transactions()},
        "produced": {**_SHORT_HEAD, "topic": _TEXT, "records": _NUMBER},
        "acls": {"acls": _list(_of_rows(dict.fromkeys(acl, _TEXT)))},
        "plan": {"scenario": _TEXT, "settings": _object(PlanSettings), "strategies": _list(_object(Planned))},
        "simulated": {
            **dict.fromkeys(("first_seed", "runs", "steps"), _NUMBER),
            "broken": {"anyOf": [_of_rows({"seed": _NUMBER, "rule": _TEXT, "script": _TEXT}), _NULL]},
        },
    }


def _transactions() -> dict[str, Schema]:
    place = _of_rows({"topic": _TEXT, "partition": _NUMBER})
    described = _object(TransactionListing)["properties"] | dict.fromkeys(
        ("producer_epoch", "transaction_timeout_ms", "transaction_start_time_ms"), _NUMBER
    )
    return {
        "transactions": _list(_object(TransactionListing)),
        "described": _list(_of_rows(described | {"partitions": _list(place)})),
        "producers": _list(_object(ProducerDescription)),
        "open": _list(_of_rows(_object(OpenTransaction)["properties"] | {"topic": _TEXT, "partition": _NUMBER})),
    }


def _events() -> Schema:
    """Lines of `groups watch`, `groups history --follow` and `consume`: an object each, of one of these types."""
    state = {"group_id": _TEXT, "state": _ANY_TEXT, "members": _NUMBER}
    header: Schema = {"type": "array", "prefixItems": [_TEXT, _ANY_TEXT]}
    record: Schema = {"topic": _TEXT, "partition": _NUMBER, "offset": _NUMBER, "key": _ANY_TEXT}
    record |= {"timestamp": {"anyOf": [_TIME, _NUMBER, _NULL]}, "value": _ANY_TEXT, "headers": _list(header)}
    base64 = {"key_base64": _TEXT, "value_base64": _TEXT, "headers_base64": _list(header)}
    rebalance = _object(RebalanceView)["properties"] | {"words": _WORDS}
    rows = {"state": (state, {}), "record": (record, base64), "rebalance": (rebalance, {})}
    return {"anyOf": [_of_rows({"type": {"const": name}, **one}, more) for name, (one, more) in rows.items()]}


def check(value: Any, schema: Schema, path: str = "$") -> None:
    """AssertionError says where the value is another than the schema has it."""
    if "anyOf" in schema:
        assert any(_fits(value, one) for one in schema["anyOf"]), f"{path}: {value!r}"
        return
    if "const" in schema:
        assert value == schema["const"], path
        return
    if "enum" in schema:
        assert value in schema["enum"], f"{path}: {value!r}"
        return
    match schema["type"]:
        case "object":
            assert isinstance(value, dict), path
            if "properties" not in schema:
                for name, one in value.items():
                    check(one, schema["additionalProperties"], f"{path}.{name}")
                return
            assert set(schema["required"]) <= set(value) <= set(schema["properties"]), f"{path}: {sorted(value)}"
            for name, one in value.items():
                check(one, schema["properties"][name], f"{path}.{name}")
        case "array":
            assert isinstance(value, list), path
            rows = schema.get("prefixItems") or [schema["items"]] * len(value)
            assert len(rows) == len(value), path
            for number, (one, row) in enumerate(zip(value, rows, strict=True)):
                check(one, row, f"{path}[{number}]")
        case kind:
            is_kind = {
                "string": isinstance(value, str),
                "integer": isinstance(value, int) and not isinstance(value, bool),
                "number": isinstance(value, int | float) and not isinstance(value, bool),
                "boolean": isinstance(value, bool),
                "null": value is None,
            }[kind]
            assert is_kind, f"{path}: {value!r} is no {kind}"


def _fits(value: Any, schema: Schema) -> bool:
    try:
        check(value, schema)
    except AssertionError:
        return False
    return True
