"""Requests of every API and version, drawn from their tables, that ask for as much as fits into a hundred kilobytes.

One array of a request is filled as far as it goes with elements as small as they can be, whose names are of topics and
groups that there are (each once, or one again and again) or that there are not. Beside these: long strings, tagged
fields that nobody knows, and the same with some bytes damaged.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from equipoise.broker.handlers import HANDLERS
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import encode_request_header
from equipoise.wire.primitives import write_uvarint
from equipoise.wire.schema import Field, Message, Struct
from tests.broker.calls import batch_of
from tests.broker.rawclient import sized

LARGEST = 100_000  # bytes of a request
_ELEMENTS = 65_000
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
NAMES = ("one again and again", "all there are", "none there are")

# Numbers that make a request do something; any other field has 0, 1 or -1.
_NUMBERS: dict[str, Sequence[int]] = {
    "max_wait_ms": (0, 100),
    "timeout_ms": (0, 1000),
    "session_timeout_ms": (10_000,),
    "rebalance_timeout_ms": (10_000,),
    "resource_type": (2, 4, 32),
    "num_partitions": (1, 1, 1, 100, 10_000),
    "count": (2, 1001, 5000),
    "replication_factor": (1, -1),
    "max_bytes": (1 << 20,),
    "partition_max_bytes": (1, 1 << 20),
    "response_partition_limit": (2000, 2**31 - 1),
    "timestamp": (-1, -2, -3, 0, 1),
    "acks": (-1, 1),
    "session_epoch": (0, -1),
    "fetch_offset": (0, 1),
    "key_type": (0,),
    "current_leader_epoch": (-1, 0),
    "leader_epoch": (-1, 0),
    "generation_id_or_member_epoch": (-1,),
    "generation_id": (-1, 1),
    "AclCreation.resource_type": (2, 3),
    "resource_pattern_type": (3, 4),
    "AclCreation.operation": (2, 3, 4, 8),
    "AclCreation.permission_type": (2, 3),
    "resource_type_filter": (1, 2),
    "pattern_type_filter": (1, 2, 3),
    "operation": (1, 3),
    "permission_type": (1, 3),
    "match_type": (0, 1, 2),
    "mechanism": (1,),
    "iterations": (4096,),
}


# Strings with a vocabulary of their own: without it a request is refused before it does any work.
_WORDS: dict[str, Sequence[str]] = {
    "ComponentData.entity_type": ("user", "client-id", "ip"),
    "EntityData.entity_type": ("user",),
    "OpData.key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage"),
    "SaslHandshakeRequest.mechanism": ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "NONE"),
    "host": ("*",),
}
_USERS = ("AclCreation.principal", "EntityData.entity_name", "UserName.name", "ComponentData.match")
_OF_USERS = ("ScramCredentialDeletion.", "ScramCredentialUpsertion.")
_FILTERS = ("resource_name_filter", "principal_filter", "host_filter")


class World(NamedTuple):
    """What there is on the broker."""

    topics: Sequence[str]
    topic_ids: Sequence[bytes]
    partitions: int  # of the largest topic
    groups: Sequence[str]
    users: Sequence[str] = ()


class Attack(NamedTuple):
    key: int
    version: int
    what: str
    frame: bytes

    def __str__(self) -> str:
        return f"{APIS[self.key].name} v{self.version}, {self.what}, {len(self.frame)} bytes"


def short_name(number: int) -> str:
    name = _LETTERS[number % 62]
    while number := number // 62:
        name += _LETTERS[number % 62]
    return name


class Drawing:
    """Draws one request after the other, the same ones for the same seed."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = random.Random(seed)
        self._names = NAMES[0]
        self._number = 0
        self._owner = ""  # the struct that a value is drawn for

    def all_of(self, key: int, version: int) -> Iterator[Attack]:
        """Every array of the API with every kind of names; and the rest."""
        request = APIS[key].request
        for path in [(), *array_paths(request, version)]:
            for names in NAMES if path else NAMES[:1]:
                yield self.wide(key, version, path, names)
        yield from self.others(key, version)

    def some_of(self, key: int, version: int) -> Iterator[Attack]:
        """Every array once."""
        for draw in self._some(key, version):
            yield draw()

    def one_of(self, key: int, version: int) -> Attack:
        """Any of those."""
        return self._random.choice(self._some(key, version))()

    def others(self, key: int, version: int) -> Iterator[Attack]:
        for draw in self._others(key, version):
            yield draw()

    # What is not wanted is not drawn: that takes longer than to answer it.

    def _some(self, key: int, version: int) -> list[Callable[[], Attack]]:
        paths = array_paths(APIS[key].request, version) or [()]
        wide = [partial(self.wide, key, version, path, self._random.choice(NAMES)) for path in paths]
        return [*wide, self._random.choice(self._others(key, version))]

    def _others(self, key: int, version: int) -> list[Callable[[], Attack]]:
        paths = array_paths(APIS[key].request, version)
        path = self._random.choice(paths) if paths else ()
        tagged = [partial(self.tagged, key, version)] if version in APIS[key].request.flexible else []
        return [
            partial(self.long, key, version),
            *tagged,
            lambda: self.damaged(self.wide(key, version, path, NAMES[0])),
        ]

    # -- kinds of requests

    def wide(self, key: int, version: int, path: tuple[str, ...], names: str) -> Attack:
        self._names = names
        request, fields = self._struct(APIS[key].request, version), path
        target: Any = request
        while len(fields) > 1:
            (element,) = self._elements(target, fields[0], version, 1)
            setattr(target, fields[0], [element])
            target, fields = element, fields[1:]
        if fields:
            self._fill(request, target, fields[0], version)
        return Attack(key, version, f"{'.'.join(path) or 'small'} ({names})", self._frame(request, version))

    def long(self, key: int, version: int) -> Attack:
        """Strings and bytes as long as they can be, one element in each array."""
        request = self._struct(APIS[key].request, version)
        self._lengthen(request, version)
        return Attack(key, version, "long strings", self._frame(request, version))

    def tagged(self, key: int, version: int) -> Attack:
        head = encode_request_header(key, version, 1, "attack")
        body = self._struct(APIS[key].request, version).encode(version)
        count = (LARGEST - len(body)) // 4
        tags = b"".join(write_uvarint(number + 1000) + b"\0" for number in range(count))
        return Attack(key, version, "unknown tags", sized(head + body[:-1] + write_uvarint(count) + tags))

    def damaged(self, attack: Attack) -> Attack:
        body = bytearray(attack.frame)
        for _ in range(self._random.randint(1, 8)):
            at = self._random.randrange(14, len(body))
            body[at : at + 4] = self._random.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x80\1"])
        return attack._replace(what=attack.what + ", damaged", frame=sized(bytes(body[4:])))

    def _frame(self, request: Message, version: int) -> bytes:
        return sized(encode_request_header(request.api_key, version, 1, "attack") + request.encode(version))

    # -- values

    def _fill(self, request: Message, target: Any, name: str, version: int) -> None:
        setattr(target, name, [])
        empty = len(request.encode(version))
        elements = self._elements(target, name, version, 200)
        setattr(target, name, elements)
        each = max((len(request.encode(version)) - empty) / 200, 0.5)
        count = min(int((LARGEST - 100 - empty) / each), _ELEMENTS)
        elements = self._elements(target, name, version, count)
        setattr(target, name, elements)
        while (size := len(request.encode(version))) >= LARGEST - 100:  # later names are longer
            del elements[int(len(elements) * 0.98 * (LARGEST - 100) / size) :]

    def _elements(self, target: Any, name: str, version: int, count: int) -> list[Any]:
        self._number = 0
        self._owner = type(target).__name__
        return [self._value(type(target).fields[name].type[0], name, version) for _ in range(count)]

    def _struct(self, cls: type[Struct], version: int) -> Any:
        values = {}
        for name, row in cls.fields.items():
            self._owner = cls.__name__
            values[name] = self._field(name, row, version) if version in row.versions else row.default
        return cls(**values)

    def _field(self, name: str, row: Field, version: int) -> Any:
        if row.tag is not None:
            return row.default
        if isinstance(row.type, list):
            return []
        return self._value(row.type, name, version)

    def _value(self, type: Any, name: str, version: int) -> Any:
        self._number += 1
        if type == "string":
            return self._name(name)
        if type == "uuid":
            return self._topic_id()
        if type == "bytes":
            return bytes(32) if name == "salted_password" else b""
        if type == "records":
            return bytes(batch_of(b"x"))
        if type == "bool":
            return self._random.random() < 0.8
        if not isinstance(type, str):
            return self._struct(type, version)
        return self._int(name)

    def _int(self, name: str) -> int:
        if name in ("partition", "partition_index", "index", "partitions", "partition_indexes"):
            if self._names == NAMES[0]:
                return 0
            return self._number % self._world.partitions if self._names == NAMES[1] else self._number % 30_000 + 2000
        numbers = _NUMBERS.get(f"{self._owner}.{name}") or _NUMBERS.get(name, (0, 1, -1))
        return self._random.choice(numbers)

    def _name(self, field: str) -> str | None:
        qualified = f"{self._owner}.{field}"
        if field in _FILTERS and self._names == NAMES[0]:
            return None
        if words := _WORDS.get(qualified) or _WORDS.get(field):
            return words[self._number % len(words)]
        if qualified in _USERS or qualified.startswith(_OF_USERS):
            return self._user("User:" if field == "principal" else "")
        if "metadata" in field or field in ("transactional_id", "group_instance_id", "rack_id", "reason"):
            return ""
        there = self._world.groups if "group" in field or "key" in field else self._world.topics
        if self._names == NAMES[0]:
            return there[0]
        if self._names == NAMES[1]:
            return there[self._number % len(there)]
        return short_name(self._number)

    def _user(self, kind: str) -> str:
        if self._names == NAMES[2]:
            return kind + short_name(self._number)
        users = self._world.users or ("alice",)
        return kind + (users[0] if self._names == NAMES[0] else users[self._number % len(users)])

    def _topic_id(self) -> bytes:
        ids = self._world.topic_ids
        if self._names == NAMES[2]:
            return self._number.to_bytes(16, "big")
        return ids[0] if self._names == NAMES[0] else ids[self._number % len(ids)]

    def _lengthen(self, value: Any, version: int, left: int = LARGEST - 1000) -> None:
        for name, row in value.fields.items():
            if version not in row.versions or row.tag is not None:
                continue
            if row.type == "string":
                setattr(value, name, "x" * min(32_767, left // 3))
            elif row.type == "bytes":
                setattr(value, name, self._random.randbytes(left // 3))
            elif isinstance(row.type, list):
                elements = self._elements(value, name, version, 1)
                for element in elements:
                    if isinstance(element, Struct):
                        self._lengthen(element, version, left // 3)
                setattr(value, name, elements)


def array_paths(cls: type[Struct], version: int) -> list[tuple[str, ...]]:
    """Each array of a table by the names that lead to it."""
    paths: list[tuple[str, ...]] = []
    for name, row in cls.fields.items():
        if isinstance(row.type, list) and version in row.versions and row.tag is None:
            paths.append((name,))
            if not isinstance(row.type[0], str):
                paths += [(name, *rest) for rest in array_paths(row.type[0], version)]
    return paths


def served_versions() -> Iterator[tuple[int, int]]:
    for key, handler in HANDLERS.items():
        for version in range(handler.versions.first, handler.versions.last + 1):
            yield key, version
