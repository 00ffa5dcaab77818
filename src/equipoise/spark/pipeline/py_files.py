"""Sends a pipeline's own modules to executors that do not have them."""

from __future__ import annotations

import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


@contextmanager
def with_py_files(session: Any, function: str) -> Iterator[None]:
    """Sends the module of `function`, and the modules beside it that it imports, to executors without them. Each
    executor fetches the archive when it starts, and then finds the function by its module's name."""
    top = function.partition(":")[0].partition(".")[0]
    root = _root(sys.modules[top])
    if root is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="equipoise-modules-") as scratch:
        archive = Path(scratch, "equipoise_modules.zip")
        with zipfile.ZipFile(archive, "w") as packed:
            for file in sorted(_files_beside(root)):
                packed.write(file, file.relative_to(root))
        session.sparkContext.addPyFile(str(archive))
        yield


def _root(module: ModuleType) -> Path | None:
    """The directory in which a module was found; None if it is installed, as executors must have it too."""
    file = getattr(module, "__file__", None)
    place = Path(file).parent if file else Path(next(iter(module.__path__)))
    root = place.parent if hasattr(module, "__path__") and (not file or Path(file).name == "__init__.py") else place
    installed = {Path(one).resolve() for one in sysconfig.get_paths().values()}
    return None if root.resolve() in installed else root


def _files_beside(root: Path) -> set[Path]:
    found: set[Path] = set()
    tops = {name.partition(".")[0]: None for name in list(sys.modules)}
    for name in tops:
        module = sys.modules.get(name)
        if (
            module is None
            or name == "__main__"
            or not (getattr(module, "__file__", None) or hasattr(module, "__path__"))
        ):
            continue
        if _root(module) == root:
            found |= set((root / name).rglob("*.py")) if hasattr(module, "__path__") else {Path(module.__file__ or "")}
    return {file for file in found if file.suffix == ".py"}
