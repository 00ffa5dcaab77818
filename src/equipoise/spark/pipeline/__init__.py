"""Pipelines: `equipoise run`, from a file of TOML or a function to streaming queries that share a group."""
