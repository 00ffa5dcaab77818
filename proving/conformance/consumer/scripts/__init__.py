"""The scripts of `consumer` groups, by section of their specification. A file gives its own with `scripts()`."""

from __future__ import annotations

import importlib
import pkgutil

from proving.conformance.steps import Script


def all_scripts() -> list[Script]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith("a"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [script for module in modules for script in module.scripts()]
