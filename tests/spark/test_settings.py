"""Which Python Spark's processes have; and the lines of docs/spark.md, in an environment that is not activated."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.spark.pipeline import py_files
from equipoise.spark.settings import ONE_MACHINE, TUNED, share_python, tuned
from proving.spark_classes import quick_options
from tests.client.writing import produce
from tests.spark.conftest import create

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
SPARK = "/nowhere/spark"
VARIABLES = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set here is put back."""
    for name in ("PATH", *VARIABLES):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    for name in VARIABLES:
        monkeypatch.delenv(name)


class Builder:
    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self._options: dict[str, str] = {}  # as PySpark's has it

    def config(self, name: str, value: str) -> Builder:
        self.options[name] = value
        return self


def test_tuned_names_this_python_where_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuned(Builder()).options == TUNED
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "./environment/bin/python")
    tuned(Builder())
    assert os.environ["PYSPARK_PYTHON"] == "./environment/bin/python"


def test_tuned_gives_a_local_master_the_installed_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Builder()
    builder._options["spark.master"] = "local[2]"
    tuned(builder)
    program = os.environ["PYSPARK_PYTHON"]
    assert Path(program).name == "python"
    archives = f"{SPARK}/python/lib/pyspark.zip:{SPARK}/python/lib/py4j-0.10.9.9-src.zip:{SPARK}/jars/spark-core_2.jar"
    monkeypatch.setenv("PYTHONPATH", f"{archives}:/a b/mine.zip:/opt/of mine")
    asked = "import sys, pyspark; print(sys.executable, pyspark.__file__, *sys.path, sep='\\n')"
    found = subprocess.run([program, "-c", asked], capture_output=True, text=True, check=True).stdout.splitlines()
    assert is_one_machine(program)
    assert found[0] == sys.executable
    assert ".zip" not in found[1]
    assert not {one for one in found[2:] if SPARK in one}
    assert [one for one in found[2:] if "mine" in one] == ["/a b/mine.zip", "/opt/of mine"]  # after the driver's own


def is_one_machine(program: str) -> bool:
    asked = [program, "-c", f"import os; print(os.environ.get('{ONE_MACHINE}'))"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "1\n"


def names() -> list[str]:
    return [os.environ[name] for name in VARIABLES]


def test_one_path_everywhere(tmp_path: Path) -> None:
    assert share_python(tmp_path, None) == {}
    assert names() == [sys.executable] * 2
    assert share_python(tmp_path, "/bin/sh") == {}  # it is here, too
    assert names() == ["/bin/sh"] * 2


def test_a_python_that_only_executors_have(tmp_path: Path) -> None:
    settings = share_python(tmp_path, "./environment/bin/python3.11")
    assert settings == {"spark.executorEnv.PATH": "./environment/bin:/usr/local/bin:/usr/bin:/bin"}
    assert names() == ["python3.11"] * 2
    found = subprocess.run(["python3.11", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    assert found.stdout.strip() == sys.executable
    assert not is_one_machine("python3.11")
    assert share_python(tmp_path, "/nowhere/bin/python", "/opt") == {"spark.executorEnv.PATH": "/nowhere/bin:/opt"}
    assert share_python(tmp_path, "python4") == {}
    assert names() == ["python4"] * 2


def test_modules_that_are_only_here_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sent_shop" / "deep").mkdir(parents=True)
    for file in ("sent_shop/__init__.py", "sent_shop/deep/orders.py", "sent_beside.py", "sent_unused.py"):
        (tmp_path / file).write_text("")
    (tmp_path / "sent_shop" / "deep" / "orders.py").write_text("import sent_beside")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("sent_shop.deep.orders")
    sent: list[list[str]] = []
    context = types.SimpleNamespace(addPyFile=lambda file: sent.append(zipfile.ZipFile(file).namelist()))
    session = types.SimpleNamespace(sparkContext=context)
    with py_files.with_py_files(session, "sent_shop.deep.orders:totals"):
        assert sent == [["sent_beside.py", "sent_shop/__init__.py", "sent_shop/deep/orders.py"]]
    with py_files.with_py_files(session, "pytest.any:function"):  # installed: executors have their own
        assert len(sent) == 1


@pytest.mark.timeout(600)
def test_the_documents_lines_in_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    lines = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
    environment = {name: value for name, value in os.environ.items() if name not in (*VARIABLES, "PYTHONPATH")}
    environment["PYSPARK_SUBMIT_ARGS"] = f"--conf 'spark.driver.extraJavaOptions={quick_options()}' pyspark-shell"
    here = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if one != here)
    with Broker() as broker:
        create(broker.bootstrap_servers, "orders", 1)
        lines = lines.replace("127.0.0.1:9092", broker.bootstrap_servers)
        lines += "\nquery.processAllAvailable()\nprint('ready', flush=True)\ninput()\nquery.processAllAvailable()\n"
        lines += "print(spark.read.parquet('out').count(), 'rows')\nquery.stop()\n"
        (tmp_path / "job.py").write_text(lines)
        with subprocess.Popen(
            [sys.executable, "job.py"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            said = process.stdout.readline()
            if said == "ready\n":
                produce(broker, "orders", 7, partitions=1)
            out, errors = process.communicate("\n", timeout=300)
    assert (said, out) == ("ready\n", "7 rows\n"), errors
