"""Spark imports every module named pyspark_* and takes its DefaultSource: so `format("equipoise")` needs no register()."""

from equipoise.spark.source import EquipoiseSource as DefaultSource

__all__ = ["DefaultSource"]
