"""`equipoise zookeeper`: runs a ZooKeeper server, and describes a ZooKeeper group from outside."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import click

from equipoise.console.commands.serving import check_kazoo
from equipoise.console.options import PATH, PORT

_SESSION_MS = 6_000


@click.group(short_help="The protocol before coordinators.")
def zookeeper() -> None:
    """The protocol before coordinators: a ZooKeeper server, and groups that share partitions by it."""


@zookeeper.command("serve")
@click.option("--data", metavar="DIR", type=PATH, help="Keep nodes and sessions in this directory.")
@click.option("--port", metavar="PORT", type=PORT, default=2181, show_default=True, help="On 127.0.0.1; 0: a free one.")
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


@zookeeper.command("explain", short_help="Who owns what in a group, and what nobody does.")
@click.argument("group", metavar="GROUP")
@click.option(
    "--zookeeper",
    "hosts",
    metavar="HOST:PORT",
    default="127.0.0.1:2181",
    show_default=True,
    help="The ZooKeeper of the group.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def zookeeper_explain(group: str, hosts: str, as_json: bool) -> None:
    """Who owns what in a group, what nobody owns and since when, what is claimed twice; read from ZooKeeper."""
    check_kazoo()
    from equipoise.console.zookeeper_words import print_json, print_words
    from equipoise.zookeeper.explain import explain_group
    from equipoise.zookeeper.session import open_client

    client = open_client(hosts, _SESSION_MS, makes_chroot=False)
    try:
        view = explain_group(client, group)
    finally:
        client.stop()
        client.close()
    (print_json if as_json else print_words)(view)


COMMAND = zookeeper
