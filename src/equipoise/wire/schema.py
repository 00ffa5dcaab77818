"""Messages as tables: each class body is the schema of one request, response or nested struct.

A field names its wire type, the versions that carry it, the versions in which it may be null, and its tag
if it travels in the tagged section. The annotation beside it is what Python code sees. Nothing is parsed
here; `compiler` turns a class and a version into functions on first use.

    class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
        group_id: str = field("string")
        generation_id: int = field("int32")
        member_id: str = field("string")
        group_instance_id: str | None = field("string", "3+", nullable=True, default=None)

A table that extends another one has its rows first. `apis/common.py` has the rows that many tables begin with.

Wire types: bool, int8, int16, uint16, int32, uint32, int64, float64, uuid, string, bytes, records, a Struct
subclass, or a one-element list of any of these for an array.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform

WireType = Any  # a name above, a Struct subclass, or a list of one of them

Records = bytes | memoryview | list[memoryview]  # a list: batches in pieces, as they lie in a log

ZERO_UUID = bytes(16)
TRUSTED = 1 << 31  # a budget of array elements that no frame can use up
_ZEROS: dict[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": ZERO_UUID,
    "float64": 0.0,
}
_MISSING: Any = object()


class Encoded(NamedTuple):
    """Elements of an array that are already bytes (`compiler.encode_rows`). It stands in place of their list."""

    elements: int
    data: bytes


class VersionRange(NamedTuple):
    """Inclusive. Written "3-7", "4+" or "2"."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


NEVER = VersionRange(1, 0)
_OPEN_END = 32767


def version_range(text: str) -> VersionRange:
    """A range as tables write it: "3", "3-5", "3+"."""
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), _OPEN_END)
    first, _, last = text.partition("-")
    return VersionRange(int(first), int(last or first))


class Field(NamedTuple):
    """One row of a table."""

    type: WireType
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    default: Any
    required: bool


def field(
    type: WireType,
    versions: str = "0+",
    *,
    nullable: str | bool = False,
    tag: int | None = None,
    default: Any = _MISSING,
) -> Any:
    """A row of a table. Without `default` the keyword is required when the message is built."""
    carried = version_range(versions)
    null_versions = version_range(nullable) if isinstance(nullable, str) else (carried if nullable else NEVER)
    required = default is _MISSING
    return Field(type, carried, null_versions, tag, _zero(type) if required else default, required)


def _zero(type: WireType) -> Any:
    if isinstance(type, list):
        return []
    if isinstance(type, str):
        return _ZEROS.get(type, 0)
    return None


def _first_init(self: Struct, **values: Any) -> None:
    """The first call compiles what the class is then made with."""
    from equipoise.wire.compiler import compile_init

    cls = type(self)
    cls.__init__ = compile_init(cls)  # type: ignore[method-assign]
    cls.__init__(self, **values)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class _Table(type):
    """Turns a body of `field(...)` rows into a slotted class. `__init__` is compiled at its first call.

    A `shared` table has rows for others to extend, and no slots: two of them may then be bases of one table.
    """

    fields: dict[str, Field]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], *, shared: bool = False, **options: Any
    ) -> _Table:
        own = {key: value for key, value in body.items() if isinstance(value, Field)}
        rows = {key: value for base in bases if isinstance(base, _Table) for key, value in base.fields.items()} | own
        kept = {key: value for key, value in body.items() if key not in own}
        kept["__slots__"] = () if shared else tuple(rows)
        kept.setdefault("__init__", _first_init)  # its own: that of a base may be compiled already, without its rows
        cls = super().__new__(mcs, name, bases, kept, **options)
        cls.fields = rows
        return cls


class Struct(metaclass=_Table):
    """A nested group of fields. Equality and repr are by value. It has no behaviour."""

    fields: ClassVar[dict[str, Field]]

    def __init__(self, **values: Any) -> None:
        _first_init(self, **values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, n) == getattr(other, n) for n in self.fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"


class Message(Struct):
    """A request, a response, or any top-level structure with its own versions."""

    api_key: ClassVar[int]
    versions: ClassVar[VersionRange]
    flexible: ClassVar[VersionRange]
    ignore_rest: ClassVar[bool]  # bytes after the last field are no fault, because a client is known to send them

    def __init_subclass__(
        cls, *, versions: str, api_key: int = -1, flexible: str = "", ignore_rest: bool = False, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        cls.ignore_rest = ignore_rest
        cls.api_key = api_key
        cls.versions = version_range(versions)
        cls.flexible = version_range(flexible) if flexible else NEVER

    def encode(self, version: int) -> bytes:
        """The message's bytes in `version`, without any header."""
        from equipoise.wire.compiler import encoder

        pieces: list[Any] = []
        encoder(type(self), version)(self, pieces)
        return b"".join(pieces)

    @classmethod
    def decode(cls, buf: bytes | bytearray, version: int, pos: int = 0, budget: int = TRUSTED) -> Self:
        """Returns the message that fills `buf` from `pos` to its end. ProtocolError names the field."""
        from equipoise.wire.compiler import decoder

        message: Self = decoder(cls, version)(buf, pos, budget)
        return message
