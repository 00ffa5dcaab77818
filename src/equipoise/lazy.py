"""Lazy imports: a package imports a name at its first use.

`import equipoise` loads neither numpy nor a broker. A pytest plugin and a Spark worker import it in every process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def importer(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's `__getattr__` (PEP 562). `homes` maps each name to the module that defines it."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load


@contextmanager
def without_collection() -> Iterator[None]:
    """For imports of many modules: they make objects and no garbage, which the collector would look through again and
    again, for a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
