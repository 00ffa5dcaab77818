"""`equipoise zookeeper`: a ZooKeeper server to try things on, and what a group of that time looks like from outside."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import click


@click.group()
def zookeeper() -> None:
    """The protocol before coordinators: a ZooKeeper server, and groups that share partitions by it."""


@zookeeper.command("serve")
@click.option(
    "--data", metavar="DIR", type=click.Path(path_type=Path), help="Keep nodes and sessions in this directory."
)
@click.option("--port", default=2181, show_default=True, help="On 127.0.0.1; 0: a free one.")
def zookeeper_serve(data: Path | None, port: int) -> None:
    """Run a ZooKeeper server, until Ctrl-C or SIGTERM. Without --data it forgets everything when it ends."""
    from equipoise.zookeeper.server import ZooKeeperServer

    server = ZooKeeperServer(data=data, port=port or None)

    def end(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        with server:
            print(f"zookeeper ready on {server.connect}", flush=True)
            server.wait_ended()
    except KeyboardInterrupt:
        return
