"""What Spark's Python processes import before they do anything; and processes that are there before the query."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from equipoise.spark.warming import ONE_ROW, warm_up
from proving.spark_classes import quick_options

OURS = 'sorted(name for name in sys.modules if name.split(".")[0] in ("equipoise", "numpy", "pyarrow", "pandas"))'
CREATE = """
from pyspark_equipoise import DefaultSource
source = DefaultSource({"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "orders"})
source.schema()
"""
PLAN = f"""{CREATE}
import pickle
pickle.dumps(source.streamReader(source.schema()))
"""

READ = """
from equipoise import Broker, Producer
from equipoise.spark.source.data_source import EquipoiseSource
with Broker(topics={"t": 1}) as broker, Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
    producer.send("t", b"value", key=b"key", headers=[("name", b"value")]).result(60)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "includeHeaders": "true"}
    source = EquipoiseSource(options)
    reader = source.reader(source.schema())
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 1
"""
ONE_ROW_READ = """
from equipoise.spark.warming import OneRowReader
assert [batch.num_rows for batch in OneRowReader("1", ("key", "value", "headers")).read(None)] == [1]
"""


def imported(program: str) -> set[str]:
    code = f"import sys\n{program}\nprint(*{OURS})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


def test_who_looks_for_sources_imports_nothing_but_the_source() -> None:
    found = imported("import pyspark_equipoise")
    assert found == {
        "equipoise",
        "equipoise.garbage",
        "equipoise.lazy",
        "equipoise.spark",
        "equipoise.spark.source",
        "equipoise.spark.source.data_source",
    }


def test_who_creates_a_source_imports_neither_clients_nor_arrow() -> None:
    packages = {name.split(".")[0] for name in imported(CREATE)}
    assert packages == {"equipoise"}
    assert not {name for name in imported(CREATE) if name.startswith(("equipoise.client", "equipoise.member"))}


def test_who_plans_a_read_imports_no_reader() -> None:
    found = imported(PLAN)
    assert "equipoise.spark.source.stream_reader" in found
    assert not {"numpy", "pyarrow", "pandas", "asyncio", "equipoise.wire.apis"} & found
    assert not {name for name in found if name.startswith(("equipoise.spark.executor", "equipoise.client.fetch"))}


def test_no_process_imports_pandas() -> None:
    found = imported("import equipoise.spark.executor.reading, equipoise.spark.source.batch_planner")
    assert {"numpy", "pyarrow"} < found
    assert "pandas" not in found


def daemons(spark: Any) -> set[int]:
    """The JVM's processes of PySpark that make others."""
    children = spark.sparkContext._jvm.java.lang.ProcessHandle.current().children().toArray()
    return {one.pid() for one in children if "pyspark.daemon" in str(one.info().commandLine().orElse(""))}


def test_who_reads_imports_no_pandas_either() -> None:
    """pyarrow imports it by itself, for instance to make an array of Python's values."""
    assert "pandas" not in imported(READ)
    assert "pandas" not in imported(ONE_ROW_READ)


def test_a_session_that_is_warm_needs_no_more_processes(spark: Any) -> None:
    thread = warm_up(spark)
    thread.join(120)
    assert not thread.is_alive()
    before = daemons(spark)
    assert len(before) >= 4
    rows = spark.read.format("equipoise").option(ONE_ROW, 3).load().collect()
    assert [row.asDict() for row in rows] == [dict.fromkeys(rows[0].asDict())] * 3
    assert daemons(spark) == before


def test_a_session_that_has_ended_is_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "equipoise.spark.warming")
    warm_up(None).join()
    assert "could not be started in advance" in caplog.text


SHORT = """
import logging, sys
from equipoise.spark.pipeline.spark_session import SparkApplication, spark_session
logging.basicConfig(level="WARNING")
settings = {"spark.driver.extraJavaOptions": sys.argv[1]}
with spark_session(SparkApplication(name="short", master="local[1]", settings=settings), print) as spark:
    print(spark.range(3).count())
"""


def test_a_session_may_end_before_it_is_warm() -> None:
    ended = subprocess.run([sys.executable, "-c", SHORT, quick_options()], capture_output=True, text=True, check=True)
    assert "3" in ended.stdout.splitlines()
    assert ended.stderr == ""


INTERRUPTED = """
import os, signal, sys, threading, time
from equipoise.spark.pipeline.spark_session import SparkApplication, spark_session

def interrupt(tracker):
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

settings = {"spark.driver.extraJavaOptions": sys.argv[1]}
application = SparkApplication(name="long", master="local[1]", settings=settings, warms_up=False)
try:
    with spark_session(application, print) as spark:
        threading.Thread(target=interrupt, args=(spark.sparkContext.statusTracker(),)).start()
        spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', id + 600000L)").collect()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_is_no_error() -> None:
    """Py4J would log it with a traceback."""
    command = [sys.executable, "-c", INTERRUPTED, quick_options()]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
