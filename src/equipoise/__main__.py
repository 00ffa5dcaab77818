"""`python -m equipoise`: the same as the `equipoise` command."""

from equipoise.console.start import run

run()
