"""python -m equipoise.proving.scenarios [--client NAME] [--scenario NAME] [--write docs/compatibility.md]"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from equipoise.proving.scenarios import run
from equipoise.proving.scenarios.clients import CLIENTS
from equipoise.proving.scenarios.plays import SCENARIOS


@click.command()
@click.option("--client", "clients", multiple=True, type=click.Choice(list(CLIENTS)), help="Only this one; repeatable.")
@click.option("--scenario", "scenarios", multiple=True, type=click.Choice(list(SCENARIOS)), help="The same.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="The page to write the matrix into.")
def main(clients: tuple[str, ...], scenarios: tuple[str, ...], write: Path | None) -> None:
    """Scenarios with real clients on Equipoise and on Apache Kafka. Exit status 1 if the outcomes are not equal."""
    sys.exit(not run(write, clients or tuple(CLIENTS), scenarios or tuple(SCENARIOS)))


main()
