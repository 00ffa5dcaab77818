"""`equipoise console`: groups in a browser, on any Kafka cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from equipoise.console.commands.serving import CONSOLE_AT
from equipoise.console.edge import log_warnings
from equipoise.console.options import PATH, ClusterOptions, Duration, cluster_options


@click.command(short_help="Groups in a browser: who owned what, and why.")
@click.option("--listen", metavar="HOST:PORT", default=CONSOLE_AT, show_default=True, help="Where browsers reach it.")
@click.option("--window", "window_ms", type=Duration(), default="6h", show_default=True, help="How far back it looks.")
@click.option("--host", "hosts", metavar="NAME", multiple=True, help="Another name that it answers to; repeatable.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=PATH,
    help="Ask for this token. Beyond loopback there always is one; without this file it is made and printed.",
)
@click.option("--tls-cert", metavar="FILE", type=PATH, help="Speak https, with this certificate.")
@click.option("--tls-key", metavar="FILE", type=PATH, help="The key of --tls-cert.")
@click.option("--allow-actions", is_flag=True, help="Let pages reset offsets, delete groups and remove members.")
@click.option("--show-records", is_flag=True, help="Show the last records of topics which may be private.")
@click.option(
    "--broker-metrics",
    metavar="URL",
    help="Show figures of a broker of ours on the page of the cluster, from its `serve --metrics`.",
)
@cluster_options
def console(
    listen: str,
    window_ms: int,
    hosts: tuple[str, ...],
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    allow_actions: bool,
    show_records: bool,
    broker_metrics: str | None,
    cluster: ClusterOptions,
) -> None:
    """Show the groups of a cluster in a browser, live, until Ctrl-C or SIGTERM.

    Without --allow-actions it only reads.
    """
    from equipoise.console.web.broker_figures import check_address
    from equipoise.console.web.serving import Listen, Shows, read_token, run_console

    log_warnings()
    token = None if token_file is None else read_token(token_file)
    place = Listen.parse(listen, names=hosts, token=token, tls_cert=tls_cert, tls_key=tls_key)
    access = replace(cluster.access(), client_id="equipoise-console")
    figures = None if broker_metrics is None else check_address(broker_metrics)
    shows = Shows(window_ms=window_ms, actions=allow_actions, records=show_records, broker_metrics=figures)

    def ready(address: str) -> None:
        print(f"equipoise console on {address}", flush=True)

    with suppress(KeyboardInterrupt):  # before it is ready
        asyncio.run(run_console(access, place, shows, ready))


COMMAND = console
