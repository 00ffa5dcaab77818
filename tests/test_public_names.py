"""What `import equipoise` gives: the names for users, each imported when first used."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module
from inspect import isclass
from types import ModuleType

import pytest

import equipoise
from equipoise import errors
from equipoise.wire.errors import EquipoiseError

NOT_FOR_USERS = ("broker", "console", "coordinator", "log", "__main__")
# Users meet them as others.
INTERNAL = {
    "ExpandsTooFarError",
    "FrameSizeError",
    "JavaUnavailable",
    "RefusedError",
    "RefusedTokenError",
    "SaslServerError",
    "ScramMessageError",
    "Stopped",
    "TooMuchError",
}


def test_every_name_can_be_had() -> None:
    for name in equipoise.__all__:
        assert getattr(equipoise, name) is not None
    assert equipoise.Consumer is import_module("equipoise.client.consumer.consumer").Consumer
    assert equipoise.errors.CommitFailedError is import_module("equipoise.member.errors").CommitFailedError
    assert equipoise.__version__[0].isdigit()


def test_the_import_loads_nothing_heavy() -> None:
    heavy = ["numpy", "pyarrow", "pyspark", "asyncio", "equipoise.broker", "equipoise.client", "equipoise.wire"]
    script = f"import sys, equipoise; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", [equipoise, errors])
def test_a_name_that_is_not_there(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        module.Nonsense  # noqa: B018


def test_errors_has_every_exception_of_ours() -> None:
    defined = {
        value.__name__
        for module in pkgutil.walk_packages(equipoise.__path__, "equipoise.")
        if module.name.split(".")[1] not in NOT_FOR_USERS
        for value in vars(import_module(module.name)).values()
        if isclass(value) and issubclass(value, EquipoiseError) and value.__module__ == module.name
        if not value.__name__.startswith("_")
    }
    assert defined - INTERNAL <= set(dir(errors))
    for name in dir(errors):
        assert getattr(errors, name).__name__ == name
