"""Spark: `format("equipoise")` as source and sink, pipelines, and the history of rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise.spark.source.data_source import EquipoiseSource

__all__ = ["EquipoiseSource"]

_load = importer(__name__, {"EquipoiseSource": "equipoise.spark.source.data_source"})


def __getattr__(name: str) -> Any:
    return _load(name)
