"""docs/rules/ is true: its files, functions and tests exist, and every rule that is cited stands in a table.

sources.md has every class and method of Kafka that docstrings, comments and the tables name, and no other.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "docs" / "rules" / "sources.md"
TABLES = sorted(set((ROOT / "docs" / "rules").glob("*.md")) - {SOURCES})
HEAD = "| rule | what holds | from | ours | shown by |"
CITING = {  # the folders whose rules a table has
    "transactional-producers": ["src/equipoise/client/transactions", "tests/client/transactions"],
    "classic-groups": ["src/equipoise/coordinator", "tests/spec"],
    "consumer-subscriptions": ["src/equipoise/coordinator/consumer/regex", "tests/regex"],
    "members": ["src/equipoise/member", "tests/member"],
    "consumer-groups": ["src/equipoise/coordinator", "tests/consumer_groups"],
    "consumer-guests": ["tests/consumer_guests"],
    "incremental": ["src/equipoise/coordinator", "tests/incremental"],
    "transactions": [
        "src/equipoise/coordinator/transactions",
        "src/equipoise/broker/transactions",
        "src/equipoise/broker/handlers",
        "tests/transactions",
    ],
    "consumer-members": ["src/equipoise/member/consumer", "tests/member/consumer"],
    "transactions-log": ["src/equipoise/log", "src/equipoise/coordinator/offsets"],
}
CONSUMER_GROUPS = re.compile(r"[A-Z]\d+\.\d+")  # the numbers of `consumer` groups, which have their own table
ELSEWHERE = {  # numbers that another table has, in folders that two tables share
    "classic-groups": CONSUMER_GROUPS,
    "incremental": re.compile(r"(?!C).*"),
    "consumer-groups": re.compile(r"A1[56]\.\d+|A14\.9|C\d+\.\d+"),  # of classic members, in their own table
}
NUMBER = r"[A-Z0-9]+(?:\.[0-9]+)+"
SOURCE = re.compile(rf"KIP-\d+|an addition|rule {NUMBER}|[A-Z]\w+(?:\.\w+)*")


class Rule(NamedTuple):
    table: str
    number: str
    text: str
    source: str
    ours: list[str]  # file under src/equipoise and function, with a colon
    tests: list[str]  # file and function, with two colons


def load(path: Path) -> list[Rule]:
    """The rules of one document: the rows of all tables with our head."""
    rules, inside = list[Rule](), False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == HEAD:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            number, text, source, ours, tests = (cell.strip() for cell in line.strip("|").split(" | "))
            rules.append(Rule(path.stem, number, text, source, _quoted(ours), _quoted(tests)))
    return rules


def _quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def sources_of(rule: Rule) -> list[str]:
    return re.split(r"[,;] ", rule.source)


RULES = [rule for path in TABLES for rule in load(path)]


@cache
def names(path: Path) -> frozenset[str]:
    """What a file defines, methods with their class; names of constants too."""
    return frozenset(_defined(parsed(path).body, ""))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _defined(node.body, f"{prefix}{node.name}.")
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


def is_defined(path: Path, name: str) -> bool:
    return path.is_file() and name in names(path)


def test_there_are_tables() -> None:
    assert {path.stem for path in TABLES} <= CITING.keys()
    assert "classic-groups" in {rule.table for rule in RULES}


def test_every_number_stands_once() -> None:
    counts = Counter(rule.number for rule in RULES)
    assert [number for number, count in counts.items() if count > 1] == []
    assert [number for number in counts if not re.fullmatch(NUMBER, number)] == []


def gaps(rule: Rule) -> Iterator[str]:
    """What a row of the table lacks, or names in vain."""
    if not rule.text.endswith("."):
        yield "it is no sentence"
    yield from (f"{one} is no source" for one in sources_of(rule) if not SOURCE.fullmatch(one))
    if not rule.ours or not rule.tests:
        yield "it has no place, or no test"
    for place in rule.ours:
        file, _, name = place.partition(":")
        if not is_defined(ROOT / "src" / "equipoise" / file, name):
            yield f"there is no {place}"
    for place in rule.tests:
        file, _, name = place.partition("::")
        if not is_defined(ROOT / file, name):
            yield f"there is no {place}"


def test_a_rule_has_its_source_its_place_and_its_test() -> None:
    assert len(RULES) > 500
    assert [(rule.number, gap) for rule in RULES for gap in gaps(rule)] == []


def test_the_check_sees_gaps() -> None:
    sound = RULES[0]
    assert list(gaps(sound)) == []
    assert list(gaps(sound._replace(text="no stop", ours=["nowhere.py:nothing"], tests=[]))) == [
        "it is no sentence",
        "it has no place, or no test",
        "there is no nowhere.py:nothing",
    ]


# -- citations

IN_TEXT = re.compile(rf"\b[Rr]ules? ({NUMBER}(?:(?:,| and| to) {NUMBER})*)")
IN_NAME = re.compile(r"\btest_(?:(\d+)_(\d+)(?:_(\d+))?|a(\d+))(?=_)")
OF_MEMBERS = re.compile(r"\btest_b(\d+)_(\d+)_")
HEADLINE = re.compile(rf"^# -- ({NUMBER})\b", re.MULTILINE)


def cited(path: Path) -> Iterator[str]:
    """By the words "rule" and "rules", by a headline, or by the name of a test or of its file."""
    text = path.read_text(encoding="utf-8")
    for match in IN_TEXT.finditer(text):
        yield from re.findall(NUMBER, match[1])
    yield from HEADLINE.findall(text)
    yield from (f"B{section}.{number}" for section, number in OF_MEMBERS.findall(text))
    for major, minor, part, pitfall in IN_NAME.findall(f"{path.name}\n{text}"):
        if pitfall:
            yield f"A.{int(pitfall)}"
        else:
            yield f"{major}.{minor}.{part}" if part else f"{major}.{minor}"


def citations(table: str) -> Iterator[tuple[str, str]]:
    for folder in CITING[table]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number in cited(path):
                yield number, str(path.relative_to(ROOT))


@pytest.mark.parametrize("table", [path.stem for path in TABLES])
def test_every_rule_that_is_cited_is_in_the_table(table: str) -> None:
    numbers = {rule.number for rule in RULES}
    others = ELSEWHERE.get(table, re.compile(r"(?!)"))
    found = sorted({(number, path) for number, path in citations(table) if not others.fullmatch(number)})
    assert found
    assert [(number, path) for number, path in found if number not in numbers] == []


# -- the classes and methods of Kafka

SOURCES_HEAD = "| class | package | methods |"
DOTTED = re.compile(r"(?<![\w./])[A-Z]\w*(?:\.[A-Za-z]\w*)+")
WORD = re.compile(r"(?<![\w./])[A-Z]\w*(?![\w.]*\w)")
FILES = (".md", ".py", ".json")


class Source(NamedTuple):
    version: str  # the heading above the table
    package: str
    name: str
    methods: list[str]

    @property
    def members(self) -> list[str]:
        return [f"{self.name}.{method}" for method in self.methods]


def load_sources() -> Iterator[Source]:
    version = ""
    for line in SOURCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            version = line.removeprefix("## ")
        elif line.startswith("| ") and line != SOURCES_HEAD:
            name, package, methods = (cell.strip() for cell in line.strip("|").split("|"))
            yield Source(version, package.strip("`"), name, methods.split(", ") if methods else [])


def prose(path: Path) -> Iterator[str]:
    """The docstrings and comments of a file."""
    text = path.read_text(encoding="utf-8")
    if any(names_class(rest) for rest in re.findall("#.*", text)):  # others need not be cut into tokens
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    yield from docstrings(parsed(path))


def names_class(text: str) -> bool:
    """Whether it could name a method, or a class that sources.md has."""
    return DOTTED.search(text) is not None or not classes().isdisjoint(WORD.findall(text))


@cache
def classes() -> frozenset[str]:
    return frozenset(source.name for source in load_sources())


def docstrings(node: ast.AST) -> Iterator[str]:
    """Those of the node, and of all definitions inside. No expression holds one."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node, clean=False) or ""
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.expr):
            yield from docstrings(inner)


MODULES = sorted((ROOT / "src").rglob("*.py"))


def in_tables() -> Iterator[str]:
    for rule in RULES:
        yield from (one for one in sources_of(rule) if re.match(r"[A-Z](?!IP-)", one))


@cache
def ours() -> frozenset[str]:
    return frozenset(name for path in MODULES for name in names(path))


@cache
def named() -> frozenset[str]:
    """Every class, and every class with a method, that src/ and the tables name; our own too."""
    found = set(in_tables())
    for path in MODULES:
        for text in prose(path):
            found.update(DOTTED.findall(text), WORD.findall(text))
    return frozenset(one for one in found if not one.endswith(FILES))


def test_every_method_that_is_named_stands_in_sources() -> None:
    """Read the source, then enter the method in docs/rules/sources.md."""
    known = {one for source in load_sources() for one in (source.name, *source.members)}
    assert sorted(one for one in named() if "." in one and one not in known | ours()) == []
    assert sorted(set(in_tables()) - known) == []


def test_sources_has_no_name_that_nothing_uses() -> None:
    listed = [one for source in load_sources() for one in (source.members or [source.name])]
    assert [one for one in listed if one not in named()] == []
    assert [one for one, count in Counter(listed).items() if count > 1] == []
