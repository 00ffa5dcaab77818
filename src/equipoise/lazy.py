"""Lazy imports: a package imports a name at its first use.

`import equipoise` loads neither numpy nor a broker. A pytest plugin and a Spark worker import it in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importer(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's `__getattr__` (PEP 562). `homes` maps each name to the module that defines it."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return load
