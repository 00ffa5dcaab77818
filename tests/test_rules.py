"""docs/rules/ is true: its files, functions and tests exist, and every rule that is cited stands in a table."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
TABLES = sorted((ROOT / "docs" / "rules").glob("*.md"))
HEAD = "| rule | what holds | from | ours | shown by |"
CITING = {  # the folders whose rules a table has
    "classic-groups": ["src/equipoise/coordinator", "tests/spec"],
    "members": ["src/equipoise/member", "tests/member"],
}
NUMBER = r"[A-Z0-9]+(?:\.[0-9]+)+"
SOURCE = re.compile(rf"KIP-\d+|[A-Z]\w+(?:\.[a-z]\w+)?|an addition|rule {NUMBER}")


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


RULES = [rule for path in TABLES for rule in load(path)]


@cache
def names(path: Path) -> frozenset[str]:
    """What a file defines, methods with their class; names of constants too."""
    return frozenset(_defined(ast.parse(path.read_text(encoding="utf-8")).body, ""))


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


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.number)
def test_a_rule_has_its_source_its_place_and_its_test(rule: Rule) -> None:
    assert rule.text.endswith(".")
    assert SOURCE.search(rule.source), f"rule {rule.number}: from nowhere"
    assert rule.ours
    assert rule.tests
    for place in rule.ours:
        file, _, name = place.partition(":")
        assert is_defined(ROOT / "src" / "equipoise" / file, name), f"rule {rule.number}: there is no {place}"
    for place in rule.tests:
        file, _, name = place.partition("::")
        assert is_defined(ROOT / file, name), f"rule {rule.number}: there is no {place}"


# -- citations

IN_TEXT = re.compile(rf"\b[Rr]ules? ({NUMBER}(?:(?:,| and| to) {NUMBER})*)")
IN_NAME = re.compile(r"\btest_(?:(\d+)_(\d+)(?:_(\d+))?|a(\d+))(?=_)")
HEADLINE = re.compile(rf"^# -- ({NUMBER})\b", re.MULTILINE)


def cited(path: Path) -> Iterator[str]:
    """By the words "rule" and "rules", by a headline, or by the name of a test or of its file."""
    text = path.read_text(encoding="utf-8")
    for match in IN_TEXT.finditer(text):
        yield from re.findall(NUMBER, match[1])
    yield from HEADLINE.findall(text)
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
    found = sorted(set(citations(table)))
    assert found
    assert [(number, path) for number, path in found if number not in numbers] == []
