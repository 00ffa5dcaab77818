"""Pipelines: `equipoise run`, from a TOML file or a function to streaming queries that share a group."""
