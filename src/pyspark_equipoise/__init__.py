"""Spark takes DefaultSource of every module named pyspark_*: so `format("equipoise")` needs no register()."""

from equipoise.spark.source.data_source import EquipoiseSource as DefaultSource

__all__ = ["DefaultSource"]
