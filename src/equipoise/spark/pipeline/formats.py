"""Names of source and sink formats, as far as they can be checked before Spark starts, which takes seconds.

Spark's own formats are known. Others come with jars, with settings of a cluster, or as Python data sources. A name that
is close to no known name, or that an installed package may bring, is left to Spark.
"""

from __future__ import annotations

import difflib
import os
import pkgutil
from collections.abc import Collection, Mapping

from equipoise.wire.errors import UsageError

OURS = "equipoise"  # the format of our source and sink
TOPIC = "topic"  # as the format of a sink: ours
# With these Spark writes files and keeps a list of them in the directory, which belongs to one query.
FILES = "parquet", "json", "csv", "orc", "text", "avro", "xml"
SOURCES = OURS, "rate", "rate-micro-batch", "socket", "kafka", *FILES
SINKS = "console", TOPIC, OURS, "noop", "memory", "kafka", *FILES
_NEAR = 0.6  # as difflib counts: parket and parquet have 0.77, delta is near to nothing
_BRINGERS = "jars", "ExtraClassPath"  # in settings of Spark that bring code
_PYTHON = "pyspark_"  # Spark looks for data sources in modules that begin so
_OUR_MODULE = "pyspark_equipoise"


def named(given: str, known: Collection[str]) -> str:
    """The known spelling of a format: Spark ignores case, and `run` treats file formats specially."""
    return given.lower() if given.lower() in known else given


def check_format(table: str, given: str, known: Collection[str], settings: Mapping[str, str]) -> None:
    """UsageError if the name resembles a known format, and no package could bring a format of that name."""
    if given in known or "." in given or _may_be_brought(settings):
        return
    near = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=_NEAR)
    if near:
        raise UsageError(f"[{table}] format = {given!r}: Spark has no such format; did you mean {near[0]!r}?")


def _may_be_brought(settings: Mapping[str, str]) -> bool:
    if "PYSPARK_SUBMIT_ARGS" in os.environ or "SPARK_CONF_DIR" in os.environ:
        return True
    if any(word.lower() in name.lower() for name in settings for word in _BRINGERS):
        return True
    return any(one.name.startswith(_PYTHON) and one.name != _OUR_MODULE for one in pkgutil.iter_modules())
