"""`equipoise users`: who may log in by SCRAM, on any Kafka cluster. A password is never an argument."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.console.options import PATH, ClusterOptions, Whole, json_option, read_text, timed_cluster_options
from equipoise.console.tables import print_table
from equipoise.security.sasl.scram import HASHES
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.client import Admin

_VARIABLE = "EQUIPOISE_USER_PASSWORD"
_mechanism = click.Choice(list(HASHES))


@click.group()
def users() -> None:
    """List, add and remove users of SCRAM, on any Kafka cluster."""


@users.command("list")
@json_option("words")
@timed_cluster_options
def users_list(as_json: bool, cluster: ClusterOptions) -> None:
    """All users, with the mechanisms they can use and the iterations of each."""
    with cluster.admin() as admin:
        found = admin.users()
        if as_json:
            from equipoise.console.output import head_of, print_json

            print_json("users", **head_of(admin), users=[one._asdict() for one in found])
            return
    if not found:
        print(f"no users on {printable(cluster.bootstrap_servers)}")
        return
    rows = [(one.name, name, count) for one in found for name, count in one.iterations.items()]
    print_table(("user", "mechanism", "iterations"), rows)


@users.command("add")
@click.argument("name", metavar="USER")
@click.option("--mechanism", type=_mechanism, default="SCRAM-SHA-256", show_default=True, help="How the user logs in.")
@click.option(
    "--iterations", metavar="N", type=Whole(4096, 16_384), default=4096, show_default=True, help="Work of a guess."
)
@click.option(
    "--password-file",
    metavar="FILE",
    type=PATH,
    help=f"Its first line is the password; - is stdin. Otherwise {_VARIABLE} is, or a prompt asks.",
)
@json_option("words")
@timed_cluster_options
def users_add(
    name: str, mechanism: str, iterations: int, password_file: Path | None, as_json: bool, cluster: ClusterOptions
) -> None:
    """A user, or a new password for one that is there."""
    password = _password(password_file)
    with cluster.admin() as admin:
        admin.set_password(name, password, mechanism=mechanism, iterations=iterations)
        _done(admin, f"user {printable(name)} can log in by {mechanism}", name, as_json=as_json)


@users.command("remove")
@click.argument("name", metavar="USER")
@click.option("--mechanism", type=_mechanism, help="Only this one; otherwise all that the user has.")
@json_option("words")
@timed_cluster_options
def users_remove(name: str, mechanism: str | None, as_json: bool, cluster: ClusterOptions) -> None:
    """A user, or one of its mechanisms. Connections that are open stay open."""
    with cluster.admin() as admin:
        admin.remove_user(name, mechanism)
        told = f"user {printable(name)} can no longer log in by {mechanism or 'SCRAM'}"
        _done(admin, told, name, as_json=as_json)


def _done(admin: Admin, told: str, name: str, *, as_json: bool) -> None:
    if not as_json:
        print(told)
        return
    from equipoise.console.commands.groups.changes import Result, print_results
    from equipoise.console.output import Output

    print_results(admin, "", [Result(name)], Output(json=True))


def _password(file: Path | None) -> str:
    """From the file, the environment or a prompt: arguments can be seen by every user of the machine."""
    if file is not None:
        text = sys.stdin.readline() if str(file) == "-" else read_text(f"--password-file {file}", file)
        password = text.partition("\n")[0].rstrip("\r")
    elif _VARIABLE in os.environ:
        password = os.environ[_VARIABLE]
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise UsageError(f"there is no terminal to ask for the password: give --password-file FILE, or set {_VARIABLE}")
    if not password:
        raise UsageError("the password is empty")
    return password


COMMAND = users
