"""Compiles tables to functions: for each message class and version, a decoder and an encoder of straight-line Python.

Fast: one `Struct` call reads a run of fixed-size fields and the length byte after it. `object.__new__` makes objects,
which are filled slot by slot. Encoders append pieces to a list, so that record data is never copied.

Safe: a position only moves forward. A count is never larger than the bytes that are left, nor than the caller's budget
of array elements and tagged fields (one byte on the wire can be a hundred in memory). A string is never longer than
Kafka's. A message must end exactly at the end of its bytes, except in the one table that says otherwise.

When a function fails, a slower twin is compiled from the same table and run once. It tracks its position, and names the
field in the error.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.wire.primitives import Fault, long_string, long_uvarint, skip_tags, uvarint, write_uvarint
from equipoise.wire.schema import Encoded, Field, Message, Struct, WireType

Decoder = Callable[[bytes | bytearray, int, int], Any]
Encoder = Callable[[Any, list[Any]], None]

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_DECODE_FAULTS = (Fault, struct.error, IndexError, UnicodeDecodeError)
_ENCODE_FAULTS = (struct.error, AttributeError, TypeError, UnicodeEncodeError)
_BOUND_COUNT = [
    "if n > end - p: raise Fault(p + n, end)",
    "left -= n",
    "if left < 0: raise Fault(-left, 0, 'elements too many')",
]
_NULL, _NULL_IN_TAG = -1, 0  # what stands for a struct that is null; 1 stands before one that is not
LONGEST_MESSAGE = 1000  # characters; it may quote a name as long as a string can be, and must still be one
_SHORT_UVARINTS = [bytes((n,)) for n in range(128)]


@cache
def decoder(cls: type[Message], version: int, exact: bool = True) -> Decoder:
    """`decode(buf, pos, budget)` returns the message that fills `buf` from `pos` on, or raises ProtocolError.

    `budget` bounds the elements of all its arrays together. Without `exact`, bytes after the message are ignored.
    """
    _check_version(cls, version)
    decoding = _Decoding(cls, version)
    decoding.end_test = "!=" if exact and not cls.ignore_rest else ">"
    return decoding.function()


@cache
def encoder(cls: type[Message], version: int) -> Encoder:
    """`encode(message, pieces)`: appends the message's bytes to `pieces`."""
    _check_version(cls, version)
    return _Encoding(cls, version).function()


def encode_rows(cls: type[Message], version: int, rows: Sequence[Struct]) -> Encoded:
    """Encodes elements of an array in a message `cls` in advance, for rows that are sent again and again."""
    pieces: list[Any] = []
    if rows:
        encode = _row_encoder(cls, version, type(rows[0]))
        for row in rows:
            encode(row, pieces)
    return Encoded(len(rows), b"".join(pieces))


def join_rows(portions: Sequence[Encoded]) -> Encoded:
    """Elements that were encoded one portion after the other."""
    return Encoded(sum(one.elements for one in portions), b"".join([one.data for one in portions]))


@cache
def _row_encoder(cls: type[Message], version: int, of: type[Struct]) -> Encoder:
    return _Encoding(cls, version, root=of).function()


def compile_init(cls: type[Struct]) -> Callable[..., None]:
    """Compiles a keyword-only `__init__`. An array that is not given is a new list."""
    names: dict[str, Any] = {"missing": object()}
    parameters, body = [], []
    for name, row in cls.fields.items():
        value = name
        if row.required:
            parameters.append(name)
        elif row.default == []:
            parameters.append(f"{name}=missing")
            value = f"[] if {name} is missing else {name}"
        else:
            names[f"d_{name}"] = row.default
            parameters.append(f"{name}=d_{name}")
        body.append(f"    self.{name} = {value}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), names)
    init: Callable[..., None] = names["__init__"]
    return init


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.versions:
        raise UsageError(f"{cls.__name__} has versions {cls.versions}, not {version}")


class _Place(NamedTuple):
    """Where the value of a field stands in the compiled function and in the message."""

    name: str  # the expression that is read or set
    depth: int  # of the struct around it
    path: str  # for messages
    nullable: bool
    null: int = _NULL  # how a struct that is missing is written

    def item(self, name: str, depth: int) -> _Place:
        """An element of the array that stands here."""
        return _Place(name, depth, self.path + "[]", nullable=False)


class _Source(ABC):
    """Lines of a function under construction, and the run of fixed-size fields not yet written out."""

    def __init__(self, cls: type[Message], version: int, trace: bool = False, root: type[Struct] | None = None) -> None:
        self.cls = cls
        self.root = root or cls
        self.version = version
        self.flexible = version in cls.flexible
        self.trace = trace
        self.lines: list[str] = []
        self.indent = 2
        self.names: dict[str, Any] = {}
        self.run: list[tuple[str, str]] = []

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def carried(self, cls: type[Struct]) -> tuple[list[tuple[str, Field]], list[tuple[str, Field]]]:
        """The fields of `cls` in this version: those in order, and those in the tagged section."""
        here = [(name, row) for name, row in cls.fields.items() if self.version in row.versions]
        return [f for f in here if f[1].tag is None], [f for f in here if f[1].tag is not None]

    def place(self, row: Field, name: str, depth: int, path: str) -> _Place:
        return _Place(f"o{depth}.{name}", depth, _join(path, name), self.version in row.nullable)

    def value(self, type: WireType, place: _Place) -> None:
        """The lines for a value of any type."""
        if isinstance(type, list):
            self.array(type[0], place)
        elif type in _FORMATS:
            self.run.append((_FORMATS[type], place.name))
        elif isinstance(type, str):
            self.text(type, place.nullable, place.name)
        else:
            self.nested(type, place)

    @abstractmethod
    def array(self, of: WireType, place: _Place) -> None: ...

    @abstractmethod
    def text(self, type: str, nullable: bool, name: str) -> None: ...

    @abstractmethod
    def nested(self, of: type[Struct], place: _Place) -> None: ...

    def build(self, head: str, tail: list[str]) -> Any:
        name = f"{self.cls.__name__} v{self.version}"
        source = "\n".join([head, "    try:", *self.lines, *tail])
        exec(compile(source, f"<{name} {type(self).__name__[1:].lower()}>", "exec"), self.names)
        return self.names["function"]


class _Decoding(_Source):
    """Writes `function(buf, p, left)`. Locals: `end`, `n` (a length just read), `oD` and `aD` by depth."""

    end_test = "!="

    def function(self) -> Decoder:
        self.names |= {
            "new": object.__new__,
            "Fault": Fault,
            "faults": _DECODE_FAULTS,
            "explain": self.explain,
            "long_uvarint": long_uvarint,
            "long_string": long_string,
            "uvarint": uvarint,
            "skip_tags": skip_tags,
            "unpack_from": struct.unpack_from,
            "at": self.at,
        }
        if self.trace:
            self.where = ""
        self.struct(self.cls, 0, "")
        self.note("the end")
        self.emit(f"if p {self.end_test} end: raise Fault(p, end)")
        self.emit("return o0")
        tail = ["    except faults as fault:", "        raise explain(buf, start, budget, fault) from None"]
        head = "def function(buf, p, left):\n    start, budget, end = p, left, len(buf)"
        function: Decoder = self.build(head, tail)
        return function

    def explain(self, buf: bytes | bytearray, start: int, budget: int, fault: Exception) -> Exception:
        if self.trace:
            return fault
        twin, decode = _tracing_decoder(self.cls, self.version)
        what = _said(fault)
        try:
            decode(buf, start, budget)
        except _DECODE_FAULTS as found:  # kept beyond this line it would keep this frame, and so a stranger's bytes
            what = _said(found)
        return ProtocolError(f"{self.cls.__name__} v{self.version}: {twin.where}: {what}")

    def at(self, path: str, p: int, end: int) -> None:
        """Called by the tracing twin before each field: the previous field must not have overrun."""
        if p > end:
            raise Fault(p, end)
        self.where = path

    def struct(self, cls: type[Struct], depth: int, path: str) -> None:
        self.emit(f"o{depth} = new({self.constant(cls)})")
        ordered, tagged = self.carried(cls)
        carried = {name for name, _ in ordered}
        for name, row in cls.fields.items():
            if name not in carried:
                self.emit(f"o{depth}.{name} = {self.default(row)}")
        for name, row in ordered:
            self.field(row.type, self.place(row, name, depth, path))
        if self.flexible:
            self.note(_join(path, "tagged fields"))
            self.tags(tagged, depth, path)
        self.flush()

    def default(self, row: Field) -> str:
        return "[]" if row.default == [] else self.constant(row.default)

    def field(self, type: WireType, place: _Place) -> None:
        self.note(place.path)
        self.value(type, place)
        if self.trace:
            self.flush()

    def note(self, path: str) -> None:
        if self.trace:
            self.flush()
            self.emit(f"at({path!r}, p, end)")

    def text(self, type: str, nullable: bool, name: str) -> None:
        self.length("h" if type == "string" else "i")
        value = {"string": "buf[p:q].decode()", "bytes": "bytes(buf[p:q])", "records": "memoryview(buf)[p:q]"}[type]
        self.unless_null(nullable, name, [f"q = p + n; {name} = {value}; p = q"])

    def unless_null(self, nullable: bool, target: str, lines: list[str]) -> None:
        self.emit("if n < 0:")
        if nullable:
            self.emit("    if n != -1: raise Fault(n)")
            self.emit(f"    {target} = None")
            self.emit("else:")
            lines = ["    " + line for line in lines]
        else:
            self.emit("    raise Fault(n)")
        for line in lines:
            self.emit(line)

    def length(self, fixed: str) -> None:
        """Leaves the length in `n`, -1 for null."""
        self.run.append(("B" if self.flexible else fixed, "n"))
        self.flush()
        if self.flexible:
            self.emit(f"if n > 127: n, p = {'long_string' if fixed == 'h' else 'long_uvarint'}(buf, p, n)")
            self.emit("n -= 1")

    def array(self, of: WireType, place: _Place) -> None:
        target, depth, path, nullable, _ = place
        self.length("i")
        if isinstance(of, str) and of in _FORMATS and of != "uuid":
            code, size = _FORMATS[of], struct.calcsize(">" + _FORMATS[of])
            line = f"{target} = list(unpack_from(f'>{{n}}{code}', buf, p)); p += n * {size}"
            self.unless_null(nullable, target, [*_BOUND_COUNT, line])
            return
        self.unless_null(nullable, target, _BOUND_COUNT)
        self.indent += nullable
        self.emit(f"a{depth} = []; {target} = a{depth}")
        self.emit("for _ in range(n):")
        self.indent += 1
        if isinstance(of, str):
            self.field(of, place.item(f"i{depth}", depth))
            self.flush()
            self.emit(f"a{depth}.append(i{depth})")
        else:
            self.struct(of, depth + 1, path + "[]")
            self.emit(f"a{depth}.append(o{depth + 1})")
        self.indent -= 1 + nullable

    def nested(self, of: type[Struct], place: _Place) -> None:
        target, depth, path, nullable, null = place
        if nullable:
            self.run.append(("b", "n"))
            self.flush()
            self.emit(f"if n <= {null}:")
            self.emit(f"    {target} = None")
            self.emit("else:")
            self.indent += 1
        self.flush()
        self.struct(of, depth + 1, path)
        self.emit(f"{target} = o{depth + 1}")
        self.indent -= nullable

    def tags(self, tagged: list[tuple[str, Field]], depth: int, path: str) -> None:
        self.run.append(("B", "n"))
        self.flush()
        if not tagged:
            self.emit("if n: p, left = skip_tags(buf, p, n, left)")
            return
        self.emit("if n > 127: n, p = long_uvarint(buf, p, n)")
        self.emit("if n > end - p: raise Fault(p + n, end)")
        self.emit("left -= n")
        self.emit("if left < 0: raise Fault(-left, 0, 'tagged fields too many')")
        self.emit("for _ in range(n):")
        self.indent += 1
        self.emit(f"tag, p = uvarint(buf, p); n, p = uvarint(buf, p); stop{depth} = p + n")
        self.emit(f"if stop{depth} > end: raise Fault(stop{depth}, end)")
        for name, row in tagged:
            self.emit(f"if tag == {row.tag}:")
            self.indent += 1
            self.field(row.type, self.place(row, name, depth, path)._replace(null=_NULL_IN_TAG))
            self.flush()
            self.emit(f"if p != stop{depth}: raise Fault(p, stop{depth})")
            self.emit("continue")
            self.indent -= 1
        self.emit(f"p = stop{depth}")
        self.indent -= 1

    def flush(self) -> None:
        if not self.run:
            return
        form = ">" + "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run = []
        if form == ">B":
            self.emit(f"{targets} = buf[p]; p += 1")
            return
        fixed = struct.Struct(form)
        self.emit(f"{targets}, = {self.constant(fixed.unpack_from)}(buf, p); p += {fixed.size}")


def _said(fault: Exception) -> str:
    return str(fault) if isinstance(fault, Fault | UnicodeDecodeError) else "its bytes are missing"


@cache
def _tracing_decoder(cls: type[Message], version: int) -> tuple[_Decoding, Decoder]:
    """Cached: a peer that sends garbage again and again does not cause new compilations."""
    twin = _Decoding(cls, version, trace=True)
    return twin, twin.function()


class _Encoding(_Source):
    """Writes `function(o0, pieces)`. Locals: `w` adds a piece, `v` a value, `b` its bytes, `oD` by depth."""

    def function(self) -> Encoder:
        head = "def function(o0, pieces):\n    w = pieces.append"
        self.names |= {
            "faults": _ENCODE_FAULTS,
            "explain": self.explain,
            "short": _SHORT_UVARINTS,
            "write_uvarint": write_uvarint,
            "i16": struct.Struct(">h").pack,
            "i32": struct.Struct(">i").pack,
            "pack": struct.pack,
            "Encoded": Encoded,
            "at": self.at,
        }
        if self.trace:
            self.where = ""
        self.struct(self.root, 0, "")
        tail = ["    except faults as fault:", "        raise explain(o0, fault) from None"]
        function: Encoder = self.build(head, tail)
        return function

    def explain(self, message: Message, fault: Exception) -> Exception:
        if self.trace:
            return fault
        twin = _Encoding(self.cls, self.version, trace=True, root=self.root)
        what = str(fault)
        try:
            twin.function()(message, [])
        except _ENCODE_FAULTS as found:
            what = str(found)
        return UsageError(f"{self.cls.__name__} v{self.version}: {twin.where}: cannot be encoded: {what}")

    def at(self, path: str) -> None:
        self.where = path

    def struct(self, cls: type[Struct], depth: int, path: str) -> None:
        ordered, tagged = self.carried(cls)
        for name, row in ordered:
            self.field(row.type, self.place(row, name, depth, path))
        if self.flexible and tagged:
            self.tags(tagged, depth, path)
        elif self.flexible:
            self.run.append(("x", ""))
        self.flush()
        if not ordered and not self.flexible:
            self.emit("pass")

    def field(self, type: WireType, place: _Place) -> None:
        if self.trace:
            self.flush()
            self.emit(f"at({place.path!r})")
        self.value(type, place)

    def text(self, type: str, nullable: bool, name: str) -> None:
        self.flush()
        self.emit(f"v = {name}")
        self.unless_null(nullable, "h" if type == "string" else "i")
        if type == "records":
            self.records()
        else:
            cut = f"[:{LONGEST_MESSAGE}]" if name.endswith(".error_message") else ""
            self.emit(f"b = v{cut}.encode()" if type == "string" else "b = v")
            self.length("len(b)", "h" if type == "string" else "i")
            self.emit("w(b)")
        self.indent -= nullable

    def records(self) -> None:
        """Batches may come in several pieces, as the log stores them; none is copied."""
        self.emit("b = v if type(v) is list else (v,)")
        self.length("sum(map(len, b))", "i")
        self.emit("for v in b: w(v)")

    def unless_null(self, nullable: bool, fixed: str) -> None:
        """Writes the null of a string, bytes or array, and opens the branch for a value."""
        if nullable:
            null = self.constant(b"\0" if self.flexible else struct.pack(">" + fixed, -1))
            self.emit(f"if v is None: w({null})")
            self.emit("else:")
            self.indent += 1

    def length(self, of: str, fixed: str) -> None:
        if self.flexible:
            self.emit(f"n = {of} + 1")
            self.emit("w(short[n] if n < 128 else write_uvarint(n))")
        else:
            self.emit(f"w({'i16' if fixed == 'h' else 'i32'}({of}))")

    def array(self, of: WireType, place: _Place) -> None:
        source, depth, path, nullable, _ = place
        self.flush()
        self.emit(f"v = {source}")
        self.unless_null(nullable, "i")
        if not isinstance(of, str):
            self.emit("if type(v) is Encoded:")
            self.indent += 1
            self.length("v.elements", "i")
            self.emit("w(v.data); v = ()")
            self.indent -= 1
            self.emit("else:")
            self.indent += 1
        self.length("len(v)", "i")
        self.indent -= not isinstance(of, str)
        if isinstance(of, str) and of in _FORMATS and of != "uuid":
            self.emit(f"w(pack(f'>{{len(v)}}{_FORMATS[of]}', *v))")
        else:
            self.emit(f"for o{depth + 1} in v:")
            self.indent += 1
            if isinstance(of, str):
                self.field(of, place.item(f"o{depth + 1}", depth + 1))
                self.flush()
            else:
                self.struct(of, depth + 1, path + "[]")
            self.indent -= 1
        self.indent -= nullable

    def nested(self, of: type[Struct], place: _Place) -> None:
        source, depth, path, nullable, null = place
        self.flush()
        self.emit(f"o{depth + 1} = {source}")
        if nullable:
            self.emit(f"if o{depth + 1} is None: w({self.constant(bytes((null & 255,)))})")
            self.emit("else:")
            self.indent += 1
            self.run.append(("b", "1"))
        self.struct(of, depth + 1, path)
        self.indent -= nullable

    def tags(self, tagged: list[tuple[str, Field]], depth: int, path: str) -> None:
        """A tagged field with its default value is left out, as in Kafka."""
        self.flush()
        outer, inner = f"w{depth}", f"t{depth}"
        self.emit(f"{outer} = w; {inner} = []")
        for name, row in sorted(tagged, key=lambda item: item[1].tag or 0):
            self.emit(f"if o{depth}.{name} != {self.constant(row.default)}:")
            self.indent += 1
            self.emit(f"part{depth} = []; w = part{depth}.append")
            self.field(row.type, self.place(row, name, depth, path)._replace(null=_NULL_IN_TAG))
            self.flush()
            self.emit(f"b = b''.join(part{depth})")
            self.emit(f"{inner}.append(write_uvarint({row.tag}) + write_uvarint(len(b)) + b)")
            self.indent -= 1
        self.emit(f"w = {outer}; w(write_uvarint(len({inner})))")
        self.emit(f"for b in {inner}: w(b)")

    def flush(self) -> None:
        if not self.run:
            return
        form = ">" + "".join(code for code, _ in self.run)
        values = ", ".join(value for _, value in self.run if value)
        self.run = []
        if not values:
            self.emit(f"w({self.constant(struct.pack(form))})")
        else:
            self.emit(f"w({self.constant(struct.Struct(form).pack)}({values}))")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
