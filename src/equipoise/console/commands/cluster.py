"""`equipoise cluster`: brokers, controller, and what can be known of groups here, with the reason for every unknown."""

from __future__ import annotations

import click

from equipoise.console import words
from equipoise.console.commands.groups.looking import look
from equipoise.console.options import ClusterOptions
from equipoise.console.output import SOURCES, UNKNOWN, Output, output_options, print_json
from equipoise.console.tables import counted, print_table
from equipoise.views.model import Source
from equipoise.views.plain import iso, plain
from equipoise.wire.text import printable

# What a source does not tell, in the words of the model.
UNKNOWN_OF: dict[Source, tuple[str, ...]] = {
    Source.JOURNAL: (),
    Source.OFFSETS_TOPIC: (
        "when a rebalance of a classic group began, and its phases",
        "the cause of a rebalance: it is concluded from members",
        "how long partitions of a classic group had no owner",
    ),
    Source.POLLING: (
        "rebalances before the watching began, and several between two looks",
        "the cause of a rebalance, its begin and its phases",
        "the generation of classic groups, the timeouts of members",
        "how long partitions had no owner",
    ),
}


@click.command("cluster")
@output_options
def cluster_command(cluster: ClusterOptions, out: Output) -> None:
    """Brokers, controller, and what can be known of groups here."""
    found = look(cluster, ages=False).cluster
    with cluster.admin() as admin:
        features = dict(sorted(admin.features().items()))
    unknown = UNKNOWN_OF[found.source]
    if out.json:
        print_json(
            "cluster",
            cluster_id=found.cluster_id,
            at=iso(found.as_of),
            source=found.source.value,
            unknown=list(unknown),
            features=features,
            brokers=plain(found.brokers),
            groups=len(found.groups),
            problems=plain(found.problems),
        )
        return
    print(f"cluster {found.cluster_id or UNKNOWN}, {counted(len(found.groups), 'group')}")
    rows = [
        (one.node_id, one.host, one.port, one.rack or "", "controller" if one.is_controller else "")
        for one in found.brokers
    ]
    print_table(("broker", "host", "port", "rack", ""), rows)
    versions = ", ".join(f"{printable(name)} {level}" for name, level in features.items())
    print(f"versions: {versions or UNKNOWN}")
    print(f"Source: {SOURCES[found.source]}.")
    for what in unknown:
        print(f"unknown: {what}")
    for problem in found.problems:
        print(words.problem(problem))


COMMAND = cluster_command
