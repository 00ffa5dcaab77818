"""`equipoise metrics`: groups of any cluster for Prometheus."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import click

from equipoise.console.edge import missing_package, run_loop
from equipoise.console.options import PATH, ClusterOptions, Duration, read_text, timed_cluster_options
from equipoise.http_server import bind, start_server
from equipoise.metrics_server import Pages, check_address
from equipoise.watching.watcher import Watched, wall_time, watching
from equipoise.wire.errors import UsageError

_LATE_INTERVALS = 4  # without an answer, until /healthz says no


@click.command("metrics")
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:9081", show_default=True,
              help="Where /metrics is served; port 0: a free one.")  # fmt: skip
@click.option("--groups", "patterns", metavar="PATTERN", multiple=True, help="Only these groups; repeatable.")
@click.option("--per-partition", is_flag=True, help="The lag of each partition too, up to 20,000 series.")
@click.option("--every", "interval", metavar="TIME", type=Duration(), default="15s", show_default=True,
              help="How often the cluster is asked.")  # fmt: skip
@click.option("--token-file", metavar="FILE", type=PATH,
              help="Serve only who sends this bearer token; needed to listen beyond this machine.")  # fmt: skip
@timed_cluster_options
def metrics(
    listen: str,
    patterns: tuple[str, ...],
    per_partition: bool,
    interval: int,
    token_file: Path | None,
    cluster: ClusterOptions,
) -> None:
    """Serve metrics of groups for Prometheus, until Ctrl-C: state, health, lag, rebalances by reason."""
    try:
        from equipoise.console.metrics import Choice
    except ImportError as error:
        raise missing_package(error) from None
    token = None if token_file is None else _token(token_file)
    listener = bind(check_address(listen, token))
    with listener, suppress(KeyboardInterrupt):  # to end it is no error
        run_loop(_serve(cluster, listener, Choice(patterns, per_partition), interval / 1000, token=token))


def _token(file: Path) -> str:
    token = read_text(f"--token-file {file}", file).strip()
    if not token:
        raise UsageError(f"--token-file {file}: the file is empty")
    return token


async def _serve(
    cluster: ClusterOptions, listener: socket.socket, choice: object, interval: float, *, token: str | None
) -> None:
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    from equipoise.console.metrics import Choice, GroupCollector, lateness, registry_of

    assert isinstance(choice, Choice)
    async with watching(cluster.access(), Watched(since=wall_time(), sizes=True)) as watcher:
        await watcher.begin()

        def late() -> float | None:
            return lateness(watcher.answered, watcher.now())

        def trouble() -> str | None:
            seconds = late()
            is_late = seconds is None or seconds > _LATE_INTERVALS * interval
            return f"not heard from {cluster.bootstrap_servers} for {seconds or 0:.0f} s" if is_late else None

        text = registry_of(GroupCollector(watcher, choice, late))
        pages = Pages(text, trouble, CONTENT_TYPE_LATEST, token)
        server = await start_server(listener, pages.respond)
        async with server, watcher.live(interval):
            host, port = listener.getsockname()[:2]
            print(f"equipoise metrics of {cluster.bootstrap_servers} on http://{host}:{port}/metrics", flush=True)
            await server.serve_forever()


COMMAND = metrics
