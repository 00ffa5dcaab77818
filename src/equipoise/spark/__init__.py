"""Spark: `format("equipoise")` as source and sink, pipelines, and the history of rebalances."""
