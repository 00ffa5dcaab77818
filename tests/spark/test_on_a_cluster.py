"""Which Python executors have, on a standalone cluster of real processes: the three usual ways, and modules that are
only here. Each run is one Spark application with executors of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import equipoise
from equipoise.broker import Broker
from proving.spark_classes import quick_options
from proving.spark_cluster import SparkCluster, spark_home
from tests.client.writing import produce
from tests.spark.conftest import create

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]  # it takes a minute, and no Kafka

COUNT = 40
SMALL = {
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",  # so one executor: a second would tell the same
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": quick_options(),
    "spark.executor.extraJavaOptions": quick_options(),
}
FUNCTION = """
from pyspark.sql.functions import udf
from warehouse import python

def told(orders):
    return orders.select("partition", "offset", udf(python)("value").alias("python"))
"""
BESIDE = """
import os
def python(value):
    return os.environ.get("PACKED", "plain")
"""
# An environment for executors: this one, under another name; and one that lacks Equipoise.
PYTHON = '#!/bin/sh\nPACKED=packed exec {python} "$@"\n'
WITHOUT = '#!/bin/sh\nPACKED=without PYTHONPATH=./environment/lib:$PYTHONPATH exec {python} "$@"\n'
HIDE = "import sys\nsys.path[:] = [one for one in sys.path if one != {source!r}]\n"
SOURCE = Path(equipoise.__file__).parent.parent


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(cores=1, memory="1g") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        create(broker.bootstrap_servers, "t", 2)
        produce(broker, "t", COUNT, partitions=2)
        yield broker


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With a pipeline's module, in a package, and one beside it."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "orders.py").write_text(FUNCTION)
    (tmp_path / "warehouse.py").write_text(BESIDE)
    return tmp_path


def pack(home: Path, program: str) -> None:
    """environment.tar.gz, as conda-pack or venv-pack would make it."""
    for name, text in {
        "bin/python": program.format(python=sys.executable),
        "lib/sitecustomize.py": HIDE.format(source=str(SOURCE)),
    }.items():
        file = home / "unpacked" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    with tarfile.open(home / "environment.tar.gz", "w:gz") as archive:
        archive.add(home / "unpacked", ".")


def bare_environment(**more: str) -> dict[str, str]:
    """Nothing that says where Python or its modules are."""
    names = "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV"
    return {name: value for name, value in os.environ.items() if name not in names} | more


def finish(command: list[str], home: Path, environment: Mapping[str, str]) -> None:
    ended = subprocess.run(
        command, cwd=home, env=dict(environment), capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def run(cluster: SparkCluster, broker: Broker, home: Path, environment: Mapping[str, str], **spark: str) -> None:
    settings = SMALL | {name.replace("__", "."): value for name, value in spark.items()}
    settings |= {"source.subscribe": "t", "source.startingOffsets": "earliest"}
    settings |= {"sink.format": "parquet", "sink.path": "out"}
    command = [sys.executable, "-m", "equipoise", "run", "shop.orders:told", "--until-idle", "--master", cluster.url]
    command += ["--bootstrap-servers", broker.bootstrap_servers]
    finish([*command, *(word for pair in settings.items() for word in ("--set", "=".join(pair)))], home, environment)


def pythons(home: Path) -> set[str]:
    """Of the workers that have run the pipeline's function, if every record is there once."""
    rows = [row for file in home.glob("out/**/*.parquet") for row in pq.read_table(file, partitioning=None).to_pylist()]
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == COUNT
    return {row["python"] for row in rows}


def test_one_path_everywhere(cluster: SparkCluster, broker: Broker, home: Path) -> None:
    run(cluster, broker, home, bare_environment())
    assert pythons(home) == {"plain"}


def test_a_packed_environment_for_executors_alone(cluster: SparkCluster, broker: Broker, home: Path) -> None:
    pack(home, PYTHON)
    environment = bare_environment(PYSPARK_PYTHON="./environment/bin/python")
    run(cluster, broker, home, environment, spark__archives="environment.tar.gz#environment")
    assert pythons(home) == {"packed"}
    assert not (home / "environment").exists()


def test_equipoise_as_a_file_for_executors_that_lack_it(cluster: SparkCluster, broker: Broker, home: Path) -> None:
    pack(home, WITHOUT)
    archive(home)
    environment = bare_environment(PYSPARK_PYTHON="./environment/bin/python")
    files = {"spark__archives": "environment.tar.gz#environment", "spark__submit__pyFiles": "equipoise.zip"}
    run(cluster, broker, home, environment, **files)
    assert pythons(home) == {"without"}


def archive(home: Path) -> None:
    with zipfile.ZipFile(home / "equipoise.zip", "w") as packed:
        for file in SOURCE.glob("equipoise/**/*.py"):
            packed.write(file, file.relative_to(SOURCE))


JOB = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from warehouse import python

spark = SparkSession.builder.getOrCreate()
{register}
orders = (
    spark.readStream.format("equipoise")
    .option("kafka.bootstrap.servers", sys.argv[1])
    .option("subscribe", "t")
    .option("startingOffsets", "earliest")
    .load()
)
rows = orders.select("partition", "offset", udf(python)("value").alias("python"))
writer = rows.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "state")
writer.trigger(availableNow=True).start().awaitTermination()
"""
REGISTER = "from equipoise.spark import EquipoiseSource\nspark.dataSource.register(EquipoiseSource)"


def submit(cluster: SparkCluster, broker: Broker, home: Path, *options: str, register: str, **more: str) -> None:
    """As docs/spark.md has it, with the environment of the driver on the path."""
    (home / "job.py").write_text(JOB.format(register=register))
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.url]
    command += [word for pair in SMALL.items() for word in ("--conf", "=".join(pair))]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    finish([*command, *options, "job.py", broker.bootstrap_servers], home, bare_environment(PATH=path, **more))


PACKED = [
    *("--archives", "environment.tar.gz#environment"),
    *("--conf", "spark.pyspark.python=./environment/bin/python3"),
    *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
    *("--conf", "spark.executorEnv.PATH=./environment/bin:/usr/local/bin:/usr/bin:/bin"),
]


def test_spark_submit_with_a_packed_environment(cluster: SparkCluster, broker: Broker, home: Path) -> None:
    pack(home, PYTHON)
    with tarfile.open(home / "environment.tar.gz", "w:gz") as packed:
        packed.add(home / "unpacked", ".")
        packed.add(home / "unpacked" / "bin" / "python", "bin/python3")
    submit(cluster, broker, home, *PACKED, "--py-files", "warehouse.py", register="")
    assert pythons(home) == {"packed"}


def test_spark_submit_with_equipoise_as_a_file(cluster: SparkCluster, broker: Broker, home: Path) -> None:
    archive(home)
    files = ["--py-files", "equipoise.zip,warehouse.py"]
    submit(cluster, broker, home, *files, register=REGISTER, PYSPARK_PYTHON=sys.executable)
    assert pythons(home) == {"plain"}
