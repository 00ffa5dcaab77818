"""The `equipoise` command."""
