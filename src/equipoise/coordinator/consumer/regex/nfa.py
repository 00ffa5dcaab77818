"""Programs: what a regular expression compiles to. A program is a list of nodes, a node's number its place in it.

Nodes name other nodes by distance. So programs are joined by joining lists, and repeated by repeating them. A thread
enters at the first node, and matches when it leaves behind the last.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, auto
from typing import NamedTuple

from equipoise.coordinator.consumer.regex.classes import folded


class Kind(IntEnum):
    """What a node does with a thread that reaches it."""

    CHARACTERS = auto()  # takes a character of the mask `first`, and goes to the next node
    SPLIT = auto()  # goes on at the distances `first` and `second`
    JUMP = auto()  # goes on at the distance `first`
    LOOK = auto()  # goes to the next node if the place is what `first` asks for


class Place(IntFlag):
    """Places between two characters. Topic names have no lines: the line begins and ends with the name."""

    BEGIN = auto()
    END = auto()
    BOUNDARY = auto()  # between a word character and another
    NO_BOUNDARY = auto()


class Node(NamedTuple):
    """One node of a program."""

    kind: Kind
    first: int
    second: int = 0


Program = list[Node]


def characters(mask: int, *, fold: bool = False) -> Program:
    """One character of a class."""
    return [Node(Kind.CHARACTERS, folded(mask) if fold else mask)]


def look(place: Place) -> Program:
    """No character; the place must be of this kind."""
    return [Node(Kind.LOOK, place)]


def alternate(programs: list[Program]) -> Program:
    """One of several programs. Single characters become one class: alternatives of them cost nothing."""
    if len(programs) == 1:
        return programs[0]
    if all(len(program) == 1 and program[0].kind is Kind.CHARACTERS for program in programs):
        union = 0
        for program in programs:
            union |= program[0].first
        return characters(union)
    rest = sum(len(program) + 2 for program in programs[:-1]) + len(programs[-1])
    found: Program = []
    for program in programs[:-1]:
        rest -= len(program) + 2
        found += [Node(Kind.SPLIT, 1, len(program) + 2), *program, Node(Kind.JUMP, rest + 1)]
    return found + programs[-1]


def star(program: Program) -> Program:
    """The program any number of times."""
    return [Node(Kind.SPLIT, 1, len(program) + 2), *program, Node(Kind.JUMP, -len(program) - 1)]


def plus(program: Program) -> Program:
    """The program once or more."""
    return [*program, Node(Kind.SPLIT, -len(program), 1)]


def optional(program: Program) -> Program:
    """The program once or not at all."""
    return [Node(Kind.SPLIT, 1, len(program) + 1), *program]


def repeat(program: Program, least: int, most: int | None) -> Program:
    """The program `least` to `most` times; None: without a bound."""
    if most is not None:
        return program * least + optional(program) * (most - least)
    return program * (least - 1) + plus(program) if least else star(program)


def repeated_size(program: Program, least: int, most: int | None) -> int:
    """How many nodes `repeat` makes. A pattern of 20 characters can ask for billions."""
    if most is None:
        return len(program) * max(least, 1) + 2
    return len(program) * most + most - least
