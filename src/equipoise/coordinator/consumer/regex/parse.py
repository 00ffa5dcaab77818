"""The syntax of RE2, from text to a program. Kafka compiles SubscribedTopicRegex with RE2/J, which has this syntax.

There is no look-around and no back-reference, because no machine of bounded size can decide them. Groups and lazy marks
change what a match captures, not whether a name matches: they are read and forgotten.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import NamedTuple

from equipoise.coordinator.consumer.regex import classes, nfa
from equipoise.coordinator.consumer.regex.classes import Alphabet
from equipoise.coordinator.consumer.regex.nfa import Place, Program
from equipoise.wire.errors import ErrorCode, KafkaError

MOST_REPEATS = 1_000
MOST_NODES = 10_000  # that repetition may make; alternatives and literals cost two for each character of the pattern
DEEPEST = 100  # parentheses inside each other; each level copies the nodes within
LONGEST_PATTERN = 32_767  # bytes: the pattern is part of the key of its record
MOST_OPERATORS = 10_000  # characters that may mean something else than themselves: each takes microseconds to read
_MOST_DIGITS = 8
_OF_TOPICS = Alphabet()
_HEX = "0123456789abcdefABCDEF"
_OCTAL = "01234567"
_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_LOOKS = {"A": Place.BEGIN, "b": Place.BOUNDARY, "B": Place.NO_BOUNDARY, "z": Place.END}
_PLAIN = re.compile("[A-Za-z0-9_-]+")
_PLAIN_NODES = {
    fold: {one: nfa.characters(classes.mask(one), fold=fold)[0] for one in map(chr, range(128)) if _PLAIN.match(one)}
    for fold in (False, True)
}
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class InvalidRegularExpression(KafkaError):
    """What is wrong with a pattern, and where: `position` counts its characters from 0."""

    def __init__(self, description: str, position: int, part: str = "") -> None:
        self.description = description
        self.position = position
        quoted = f": `{part[:80]}`" if part else ""
        super().__init__(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{description} at {position}{quoted}")


class _Group(NamedTuple):
    """An open parenthesis: where it stands, and what it interrupts."""

    position: int
    fold: bool
    alternatives: list[Program]
    items: list[Program]


def parse(pattern: str, alphabet: Alphabet = _OF_TOPICS) -> Program:
    """Returns the program of a pattern. Raises InvalidRegularExpression. Rules A14.10 and A14.11."""
    if len(pattern) > LONGEST_PATTERN or len(pattern.encode("utf-8", "replace")) > LONGEST_PATTERN:
        raise InvalidRegularExpression(f"longer than {LONGEST_PATTERN:,} bytes", LONGEST_PATTERN)
    if len(pattern) > MOST_OPERATORS and len(_PLAIN.sub("", pattern)) > MOST_OPERATORS:
        raise InvalidRegularExpression(f"more than {MOST_OPERATORS:,} characters outside a-z A-Z 0-9 _ -", 0)
    return _Parser(pattern, alphabet).parse()


class _Parser:
    """Reads a pattern from left to right, without recursion: the depth of a pattern is not that of Python's stack."""

    def __init__(self, pattern: str, alphabet: Alphabet) -> None:
        self._pattern = pattern
        self._alphabet = alphabet
        self._place = 0
        self._fold = False
        self._groups: list[_Group] = []
        self._alternatives: list[Program] = []
        self._items: list[Program] = []  # of the alternative that is being read
        self._names: set[str] = set()
        self._nodes = 0
        self._most_nodes = MOST_NODES + 4 * len(pattern)

    def parse(self) -> Program:
        """Reads the whole pattern."""
        repeated_at = -1
        while self._place < len(self._pattern):
            start = self._place
            if (plain := _PLAIN.match(self._pattern, start)) is not None:
                self._read_plain(plain[0])
                repeated_at = -1
                continue
            repeats = self._repeat_operator()
            if repeats is None:
                self._read_item()
                repeated_at = -1
                continue
            self._skip("?")  # lazy
            if repeated_at >= 0:
                raise self._error("invalid nested repetition operator", repeated_at)
            self._repeat(start, *repeats)
            repeated_at = start
        if self._groups:
            opened = self._groups[-1].position
            raise self._error("missing closing )", opened, self._pattern[opened:])
        return self._end_alternatives()

    # -- text

    def _error(self, description: str, start: int, part: str | None = None) -> InvalidRegularExpression:
        return InvalidRegularExpression(
            description, start, self._pattern[start : self._place] if part is None else part
        )

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._place)

    def _skip(self, text: str) -> bool:
        found = self._peek(text)
        self._place += len(text) * found
        return found

    def _next(self) -> str:
        """The next character; "" at the end."""
        found = self._pattern[self._place : self._place + 1]
        self._place += 1
        return found

    # -- items

    def _read_plain(self, text: str) -> None:
        """Most of a pattern is letters, which mean themselves. The last one may be repeated."""
        self._place += len(text)
        nodes = [_PLAIN_NODES[self._fold][character] for character in text]
        if len(nodes) > 1:
            self._add(nodes[:-1])
        self._add(nodes[-1:])

    def _read_item(self) -> None:
        start = self._place
        match character := self._next():
            case "(":
                self._open(start)
            case ")":
                self._close(start)
            case "|":
                self._alternatives.append(_concatenated(self._items))
                self._items = []
            case "^":
                self._add(nfa.look(Place.BEGIN))
            case "$":
                self._add(nfa.look(Place.END))
            case ".":
                self._add(nfa.characters(self._alphabet.all))
            case "[":
                self._add(nfa.characters(self._class(start)))
            case "\\":
                self._escape(start)
            case _:
                self._literal(ord(character))

    def _add(self, program: Program) -> None:
        self._items.append(program)
        self._count(len(program) + 2)

    def _count(self, nodes: int) -> None:
        """An upper bound of all nodes. What alternatives and loops add is in the two that each item may cost more."""
        self._nodes += nodes
        if self._nodes > self._most_nodes:
            raise self._error(f"repetition makes more than {MOST_NODES:,} nodes", 0, self._pattern)

    def _literal(self, point: int) -> None:
        self._add(nfa.characters(self._alphabet.between(point, point, fold=self._fold)))

    def _end_alternatives(self) -> Program:
        return nfa.alternate([*self._alternatives, _concatenated(self._items)])

    # -- groups

    def _open(self, start: int) -> None:
        fold = self._fold
        if self._peek("?P<") or self._peek("?<"):
            self._name(start)
        elif self._peek("?") and not self._flags(start):
            return
        if len(self._groups) == DEEPEST:
            raise self._error(f"more than {DEEPEST} groups inside each other", start)
        self._groups.append(_Group(start, fold, self._alternatives, self._items))
        self._alternatives, self._items = [], []

    def _name(self, start: int) -> None:
        begin = self._pattern.index("<", start) + 1
        end = self._pattern.find(">", begin)
        name = self._pattern[begin:end]
        if end < 0 or not name or not name.isascii() or not name.replace("_", "a").isalnum():
            raise self._error("invalid named capture", start, self._pattern[start : end + 1 if end >= 0 else None])
        if name in self._names:
            raise self._error("duplicate capture group name", begin, name)
        self._names.add(name)
        self._place = end + 1

    def _flags(self, start: int) -> bool:
        """Reads `(?flags)` or `(?flags:`; whether a group begins. Of all flags only `i` changes what names match."""
        self._skip("?")
        fold, on, seen = self._fold, True, False
        while character := self._next():
            if character in "imsU":
                fold, seen = (on if character == "i" else fold), True
            elif character == "-" and on:
                on, seen = False, False
            elif character in ":)" and (on or seen):
                self._fold = fold
                return character == ":"
            else:
                break
        raise self._error("invalid or unsupported Perl syntax", start)

    def _close(self, start: int) -> None:
        if not self._groups:
            raise self._error("unexpected )", start)
        program = self._end_alternatives()
        _, self._fold, self._alternatives, self._items = self._groups.pop()
        self._items.append(program)
        self._count(2)

    # -- repetition

    def _repeat_operator(self) -> tuple[int, int | None] | None:
        character = self._pattern[self._place]
        if character in _REPEATS:
            self._place += 1
            return _REPEATS[character]
        return self._counted() if character == "{" else None

    def _counted(self) -> tuple[int, int | None] | None:
        """`{n}`, `{n,}` or `{n,m}`; any other brace is a literal."""
        start = self._place
        self._skip("{")
        least = self._number()
        most: int | None = least
        if self._skip(","):
            most = None if self._peek("}") else self._number()
            if most is None and not self._peek("}"):
                least = None
        if least is None or not self._skip("}"):
            self._place = start
            return None
        if least > MOST_REPEATS or (most is not None and not least <= most <= MOST_REPEATS):
            raise self._error("invalid repeat count", start)
        return least, most

    def _number(self) -> int | None:
        start = self._place
        while self._place < len(self._pattern) and self._pattern[self._place] in "0123456789":
            self._place += 1
        digits = self._pattern[start : self._place]
        if not digits or (len(digits) > 1 and digits[0] == "0"):
            return None
        return int(digits) if len(digits) <= _MOST_DIGITS else MOST_REPEATS + 1

    def _repeat(self, start: int, least: int, most: int | None) -> None:
        if not self._items:
            raise self._error("missing argument to repetition operator", start)
        program = self._items[-1]
        if (least, most) not in _REPEATS.values():
            self._count(nfa.repeated_size(program, least, most))
        self._items[-1] = nfa.repeat(program, least, most)

    # -- escapes

    def _escape(self, start: int) -> None:
        character = self._pattern[self._place : self._place + 1]
        if character in _LOOKS:
            self._place += 1
            self._add(nfa.look(_LOOKS[character]))
        elif self._skip("Q"):
            end = self._pattern.find("\\E", self._place)
            text = self._pattern[self._place : end if end >= 0 else None]
            self._place += len(text) + 2
            for one in text:
                self._literal(ord(one))
        else:
            self._place = start
            found = self._escaped_class()
            self._add(nfa.characters(self._code_point() if found is None else found))

    def _code_point(self) -> int:
        """The class of one escaped character."""
        point = self._escaped_point()
        return self._alphabet.between(point, point, fold=self._fold)

    def _escaped_class(self) -> int | None:
        r"""`\d` and its like, or `\p{name}`; None: something else, which is not read."""
        kind = self._pattern[self._place + 1 : self._place + 2]
        if not self._peek("\\") or not kind:
            return None
        if kind.lower() in classes.PERL:
            self._place += 2
            return self._signed(classes.PERL[kind.lower()], kind.isupper())
        if kind in "pP" and self._place + 2 < len(self._pattern):
            return self._unicode_class(kind == "P")
        return None

    def _unicode_class(self, negated: bool) -> int:
        start = self._place
        self._place += 2
        name = self._next()
        if name == "{":
            end = self._pattern.find("}", self._place)
            if end < 0:
                raise self._error("invalid character class range", start, self._pattern[start:])
            name, self._place = self._pattern[self._place : end], end + 1
            if name.startswith("^"):
                name, negated = name[1:], not negated
        if name not in classes.UNICODE:
            raise self._error("invalid character class range", start)
        return self._signed(self._alphabet.all if name == "Any" else classes.UNICODE[name], negated)

    def _signed(self, found: int, negated: bool) -> int:
        if self._fold:
            found = classes.folded(found)
        return self._alphabet.all & ~found if negated else found

    def _escaped_point(self) -> int:
        """A character behind a backslash. Letters and digits without a meaning are errors: they may get one."""
        start = self._place
        self._skip("\\")
        character = self._next()
        if not character:
            raise self._error("trailing backslash at end of expression", start)
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "0" or (character in _OCTAL and self._pattern[self._place : self._place + 1] in tuple(_OCTAL)):
            return int(character + self._digits(_OCTAL, 2), 8)
        if character == "x":
            return self._hexadecimal(start)
        if character.isascii() and character.isalnum():
            raise self._error("invalid escape sequence", start)
        return ord(character)

    def _digits(self, allowed: str, most: int) -> str:
        start = self._place
        while self._place < min(start + most, len(self._pattern)) and self._pattern[self._place] in allowed:
            self._place += 1
        return self._pattern[start : self._place]

    def _hexadecimal(self, start: int) -> int:
        if self._skip("{"):
            digits = self._digits(_HEX, len(self._pattern))
            if self._skip("}") and digits and len(digits.lstrip("0")) <= 6 and int(digits, 16) <= 0x10FFFF:
                return int(digits, 16)
        elif len(digits := self._digits(_HEX, 2)) == 2:
            return int(digits, 16)
        raise self._error("invalid escape sequence", start)

    # -- classes in brackets

    def _class(self, start: int) -> int:
        negated = self._skip("^")
        found, first = 0, True
        while first or not self._peek("]"):
            first = False
            found |= self._class_item(start)
        self._skip("]")
        return self._alphabet.all & ~found if negated else found

    def _class_item(self, start: int) -> int:
        named = self._posix_class()
        if named is None:
            named = self._escaped_class()
        return self._range(start) if named is None else named

    def _posix_class(self) -> int | None:
        begin = self._place
        end = self._pattern.find(":]", begin) if self._peek("[:") else -1
        if end < 0:
            return None
        self._place = end + 2
        name = self._pattern[begin + 2 : end]
        negated = name.startswith("^")
        if name.removeprefix("^") not in classes.POSIX:
            raise self._error("invalid character class range", begin)
        return self._signed(classes.POSIX[name.removeprefix("^")], negated)

    def _range(self, start: int) -> int:
        begin = self._place
        low = high = self._class_point(start)
        if self._peek("-") and not self._peek("-]"):
            self._skip("-")
            high = self._class_point(start)
        if high < low:
            raise self._error("invalid character class range", begin)
        return self._alphabet.between(low, high, fold=self._fold)

    def _class_point(self, start: int) -> int:
        if self._place >= len(self._pattern):
            raise self._error("missing closing ]", start)
        return self._escaped_point() if self._peek("\\") else ord(self._next())


def _concatenated(items: list[Program]) -> Program:
    return items[0] if len(items) == 1 else list(chain.from_iterable(items))
