"""The commands of `equipoise` that have options or words of their own."""
