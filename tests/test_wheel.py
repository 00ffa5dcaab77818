"""The wheel in a bare virtual environment: what a user installs works without this tree."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
DEPENDENCIES = ("click", "cramjam", "crc32c", "numpy", "rich", "uvloop")
SCRIPT = """
import sys
from equipoise import Broker, Consumer, Producer

with Broker({"group.initial.rebalance.delay.ms": 0}, topics={"orders": 2}) as broker:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        producer.send("orders", b"value", key=b"key")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe(["orders"])
        record = next(iter(consumer))
print(record.value.decode(), [name for name in ("pyspark", "pyarrow", "pandas") if name in sys.modules])
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a virtual environment has the wheel and its base dependencies, in the versions that the others test."""
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run(*build, "--no-build-isolation", "--wheel-dir", home, ROOT, cwd=home)
    (wheel,) = home.glob("equipoise-*.whl")
    venv.create(home / "venv")
    pins = home / "pins.txt"
    pins.write_text("".join(f"{name}=={version(name)}\n" for name in DEPENDENCIES))
    # By the pip that is here, and without compiling what the tests do not import: half of the processor time.
    pip = [sys.executable, "-m", "pip", "--python", str(home / "venv/bin/python"), "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-compile", "--constraint", pins, wheel, cwd=home)
    return home


def test_it_holds_the_product_and_nothing_else(bare: Path) -> None:
    (wheel,) = bare.glob("equipoise-*.whl")
    names = [PurePosixPath(name) for name in ZipFile(wheel).namelist()]
    assert {name.parts[0].partition("-")[0] for name in names} == {"equipoise", "pyspark_equipoise"}
    code = [name for name in names if not name.parts[0].endswith(".dist-info")]
    assert {name.suffix or name.name for name in code} == {".py", ".typed", ".js", ".css", ".svg", ".txt"}
    assert {name.parent for name in code if name.suffix == ".txt"} == {PurePosixPath("equipoise/simulate/tour")}
    pages = {name.name for name in code if name.suffix in (".js", ".css", ".svg")}
    assert pages == {path.name for path in (ROOT / "src/equipoise/console/web/static").iterdir()}
    assert not {"proving", "bench", "tests"} & {part for name in names for part in name.parts}


def test_it_serves_writes_and_reads(bare: Path) -> None:
    assert run(bare / "venv/bin/python", "-c", SCRIPT, cwd=bare).split() == ["value", "[]"]


def test_the_command_is_there(bare: Path) -> None:
    shown = run(bare / "venv/bin/python", "-m", "equipoise", "--version", cwd=bare)
    assert shown.startswith("equipoise ")
    assert "serve" in run(bare / "venv/bin/python", "-m", "equipoise", "--help", cwd=bare)


def test_a_missing_extra_is_named(bare: Path) -> None:
    command = [str(bare / "venv/bin/python"), "-m", "equipoise", "console"]
    done = subprocess.run(command, cwd=bare, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'equipoise[console]'" in done.stderr
