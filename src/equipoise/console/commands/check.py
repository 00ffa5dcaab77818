"""`equipoise check`: reports damage in a broker's data directory, line by line."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from equipoise.console.edge import log_warnings
from equipoise.console.options import PATH
from equipoise.wire.text import printable


@click.command("check")
@click.option(
    "--data",
    metavar="DIR",
    required=True,
    type=PATH,
    help="The data directory of a broker; it may be running.",
)
@click.option("--deep", is_flag=True, help="Read every record batch and compare its checksum.")
@click.option("--rebuild-topics", is_flag=True, help="Make topics.json anew from the directories of partitions.")
def check(data: Path, deep: bool, rebuild_topics: bool) -> None:
    """Look for damage in a data directory, and change nothing: lost segments, orphans, bad checksums."""
    from equipoise.log.recovery import check as work

    log_warnings()
    if rebuild_topics:
        topics = work.rebuild_topics(data)
        print(printable(f"made topics.json of {data} anew: {work.describe(topics)}."))
        print("Configs are lost: all topics keep their records for ever until you set retention.ms and the rest.")
        return
    findings: list[str] = []
    count = work.check(data, findings.append, deep=deep)
    for finding in findings:
        print(printable(finding))
    print(f"{len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'} in {count} partitions with records")
    sys.exit(bool(findings))


COMMAND = check
