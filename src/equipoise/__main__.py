"""`python -m equipoise`: the same as the `equipoise` command."""

from equipoise.console.main import run

run()
