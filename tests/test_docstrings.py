"""Every public class, function and method of src/ says what it does. CONTRIBUTING.md has the policy."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise.wire.schema import Struct

SOURCE = Path(__file__).parents[1] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_public_code_has_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the file does not say what it is for"
    names = list(bare(tree.body))
    if names:
        module = importlib.import_module(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        )
        assert not [name for name in names if not is_excused(module, name)]


def test_the_check_sees_what_is_missing() -> None:
    tree = ast.parse('def f(): ...\nclass A:\n    "what it is"\n    def g(self): ...\n    def _h(self): ...')
    assert list(bare(tree.body)) == ["f", "A.g"]
