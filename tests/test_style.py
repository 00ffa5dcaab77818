"""The rules of style in CONTRIBUTING.md that a linter does not check: docstrings, positional parameters, extras."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from equipoise.console import edge
from equipoise.console.demo import with_spark
from equipoise.wire.schema import Struct

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_POSITIONAL = 4
MANY_POSITIONAL = {  # functions that may have more
    "equipoise/security/acls.py": {"authorize", "_decide"},  # the five parts of one question, and the key of its answer
}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


# -- docstrings


def bare(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """The public definitions without a docstring, methods with their class."""
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None:
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from bare(node.body, f"{prefix}{node.name}.")


def is_excused(module: object, name: str) -> bool:
    """A table of the wire, or a method whose docstring stands in a base class."""
    owner, _, method = name.rpartition(".")
    if not owner:
        thing = getattr(module, name)
        return isinstance(thing, type) and issubclass(thing, Struct)
    return any(vars(base)[method].__doc__ for base in getattr(module, owner).__mro__[1:] if method in vars(base))


def undocumented(path: Path) -> Iterator[str]:
    """What of a file has no docstring; the file itself is its path."""
    tree = parsed(path)
    if not ast.get_docstring(tree):
        yield str(path)
    names = list(bare(tree.body))
    if names:
        module = importlib.import_module(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        )
        yield from (f"{module.__name__}.{name}" for name in names if not is_excused(module, name))


def test_public_code_has_docstrings() -> None:
    assert [name for path in FILES for name in undocumented(path)] == []


def test_the_check_sees_what_is_missing() -> None:
    tree = ast.parse('def f(): ...\nclass A:\n    "what it is"\n    def g(self): ...\n    def _h(self): ...')
    assert list(bare(tree.body)) == ["f", "A.g"]


# -- positional parameters


def with_many_positions(tree: ast.AST) -> Iterator[str]:
    """Functions with too many positional parameters to tell apart. click passes those of commands by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [one.arg for one in node.args.posonlyargs + node.args.args if one.arg not in ("self", "cls")]
            if len(names) <= MOST_POSITIONAL:
                continue
            if not any("command(" in ast.unparse(one) for one in node.decorator_list):
                yield node.name


def test_no_function_has_many_positional_parameters() -> None:
    found = {path.relative_to(SOURCE).as_posix(): set(with_many_positions(parsed(path))) for path in FILES}
    assert {path: names for path, names in found.items() if names} == MANY_POSITIONAL


def test_keywords_and_commands_do_not_count() -> None:
    assert list(with_many_positions(ast.parse("def f(a, b, c, d, e): ..."))) == ["f"]
    assert list(with_many_positions(ast.parse("def f(self, a, b, c, d, *, e): ..."))) == []
    assert list(with_many_positions(ast.parse("@click.command()\ndef f(a, b, c, d, e): ..."))) == []


# -- extras


def test_every_extra_that_a_message_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = [*FILES, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = {extra for names in re.findall(r"equipoise\[([\w, -]+)\]", text) for extra in re.split(", *", names)}
    assert "arrow" in named
    for names in (named, edge._EXTRAS.values(), with_spark._NEEDED.values()):
        assert set(names) <= project["optional-dependencies"].keys()
